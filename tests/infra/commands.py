"""Commands in the files of infra/ and in docs/clusters.md, parsed by the real command line."""

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
PAGE = "../docs/clusters.md"
"""The page that explains the files, relative to infra/."""

MANIFESTS = ("kuberay-build.yaml", "kuberay-evaluate.yaml")
COMMAND = re.compile(r"(?:robustshards|robustshards:(?:cpu|cuda)) ((?:build|plan|verify|evaluate|report) [^\n`'&|]+)")


def load_yaml(name: str) -> Any:
    """Return the content of a YAML file of infra/."""
    return yaml.safe_load((INFRA / name).read_text())


def text(name: str) -> str:
    """Return a text file, given relative to infra/, with continued lines joined."""
    return (INFRA / name).read_text().replace("\\\n", " ")


def dry_run(*arguments: str) -> list[str]:
    """Return the commands that slurm.sh prints in a dry run."""
    environment = {**os.environ, "SOURCE": "/photographs", "OUT": "/data", "DRY_RUN": "1"}
    command = ["bash", INFRA / "slurm.sh", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.splitlines()


def invocations() -> Iterator[tuple[str, list[str]]]:
    """Yield the file and the arguments of each command."""
    for name in MANIFESTS:
        yield name, shlex.split(load_yaml(name)["spec"]["entrypoint"])[1:]
    for name in ("Dockerfile", PAGE):
        for found in COMMAND.findall(text(name)):
            yield name, shlex.split(found)
    for line in dry_run("--only", "noise", "--severities", "1,3"):
        words = shlex.split(line)
        if "robustshards" in words:
            yield "slurm.sh", words[words.index("robustshards") + 1 :]


def parse(arguments: list[str]) -> dict[str, Any]:
    """Return the parameters that the command line parses from the arguments, without running the command."""
    commands: Any = typer.main.get_command(app)
    name, *rest = arguments
    return dict(commands.commands[name].make_context(name, rest).params)


def files() -> list[Path]:
    """Return all files of infra/."""
    return sorted(INFRA.iterdir())


def skip_or_fail(message: str) -> NoReturn:
    """Skip a test because a requirement is missing; fail it under CI."""
    if UNDER_CI:
        pytest.fail(message)
    pytest.skip(message)
