"""An environment for what cannot live in ours: RobustBench and the model libraries, on the CPU."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.conftest import ROOT, UNDER_CI

WITH_DEPENDENCIES = (
    "torch==2.13.0",
    "setuptools<80",  # RobustBench asks for its pkg_resources
    *("gdown", "geotorch", "huggingface_hub", "numpy", "pandas", "pillow", "pyyaml", "requests", "safetensors"),
    *("scipy", "tenacity", "torchdiffeq", "tqdm"),
    "transformers==5.23.0",
)
ALONE = ("torchvision==0.28.0", "robustbench==1.1.1", "timm==1.0.31")
"""Installed without what they ask for: they pin versions that are not there for this torch."""

PREAMBLE = """
import sys, types, warnings
warnings.simplefilter("ignore")
import torch
operators = torch.library.Library("torchvision", "DEF")
for operator in ("nms", "qnms"):
    operators.define(operator + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
for name, attribute in (("autoattack", "AutoAttack"), ("autoattack.state", "EvaluationState")):
    sys.modules[name] = types.ModuleType(name)
    setattr(sys.modules[name], attribute, object)
"""
"""torchvision without its compiled operators, and a stand-in for a module that RobustBench's loaders do not use."""


@pytest.fixture(scope="session")
def clients() -> Path:
    """The Python of the environment, made once in build/ and kept; the tests skip where it cannot be installed.

    It also sees the libraries that the tests run with, and has only what those lack.
    """
    libraries = sys.version, sys.prefix, (ROOT / "constraints.txt").read_text(), WITH_DEPENDENCIES, ALONE
    wanted = hashlib.sha256(repr(libraries).encode()).hexdigest()[:12]
    folder = ROOT / "build" / f"clients-{wanted}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:  # the tests may run in several processes
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            try:
                _install(folder)
            except subprocess.CalledProcessError as error:
                message = f"other people's readers cannot be installed: {error.stderr.strip()[-300:]}"
                pytest.fail(message) if UNDER_CI else pytest.skip(message)
            (folder / "ready").touch()
    return folder / "bin" / "python"


def run_client(python: Path, program: str, *arguments: object, modules: Path | None = None) -> str:
    """What a program prints in the environment. ``modules``: a folder whose Python modules it may import as well."""
    environment = {**os.environ, "PYTHONPATH": str(modules or ""), "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # nothing is compiled when it is installed
    command = [str(python), "-c", PREAMBLE + program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _install(folder: Path) -> None:
    _run(sys.executable, "-m", "venv", "--without-pip", str(folder))
    (site_packages,) = folder.glob("lib/python*/site-packages")
    (site_packages / "ours.pth").write_text(sysconfig.get_path("purelib"))
    pip = (sys.executable, "-m", "pip", "--python", str(folder), "install", "--quiet", "--no-compile")
    _run(*pip, *WITH_DEPENDENCIES)
    _run(*pip, "--no-deps", *ALONE)


def _run(*command: str) -> None:
    subprocess.run(command, capture_output=True, text=True, check=True, timeout=900)
