"""The invocations of the command that stand in the files of infra/, and the real command's opinion of them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer
import yaml

from pipeline.cli.app import app
from tests.conftest import ROOT, UNDER_CI

INFRA = ROOT / "infra"
MANIFESTS = ("kuberay-build.yaml", "kuberay-evaluate.yaml")
IN_TEXT = re.compile(r"(?:robustshards|robustshards:(?:cpu|cuda)) ((?:build|plan|verify|evaluate|report) [^\n`'&|]+)")


def load_yaml(name: str) -> Any:
    """A YAML file of infra/."""
    return yaml.safe_load((INFRA / name).read_text())


def text(name: str) -> str:
    """A text file of infra/, its continued lines joined."""
    return (INFRA / name).read_text().replace("\\\n", " ")


def dry_run(*arguments: str) -> list[str]:
    """The lines that slurm.sh would run."""
    environment = {**os.environ, "SOURCE": "/photographs", "OUT": "/data", "DRY_RUN": "1"}
    command = ["bash", INFRA / "slurm.sh", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.splitlines()


def invocations() -> Iterator[tuple[str, list[str]]]:
    """File and arguments of each invocation."""
    for name in MANIFESTS:
        yield name, shlex.split(load_yaml(name)["spec"]["entrypoint"])[1:]
    for name in ("Dockerfile", "README.md"):
        for found in IN_TEXT.findall(text(name)):
            yield name, shlex.split(found)
    for line in dry_run("--only", "noise", "--severities", "1,3"):
        words = shlex.split(line)
        if "robustshards" in words:
            yield "slurm.sh", words[words.index("robustshards") + 1 :]


def parse(arguments: list[str]) -> dict[str, Any]:
    """What the command makes of the arguments, without running it. Raises its own errors."""
    commands: Any = typer.main.get_command(app)
    name, *rest = arguments
    return dict(commands.commands[name].make_context(name, rest).params)


def files() -> list[Path]:
    """All that is in infra/."""
    return sorted(INFRA.iterdir())


def absent(message: str) -> NoReturn:
    """Skip a test for what this machine lacks; under CI, fail instead."""
    if UNDER_CI:
        pytest.fail(message)
    pytest.skip(message)
