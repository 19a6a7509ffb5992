"""A separate environment with RobustBench and model libraries for the CPU, whose requirements conflict with ours."""

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
    "setuptools<80",  # RobustBench needs pkg_resources
    *("gdown", "geotorch", "huggingface_hub", "numpy", "pandas", "pillow", "pyyaml", "requests", "safetensors"),
    *("scipy", "tenacity", "torchdiffeq", "tqdm"),
    "transformers==5.23.0",
)
ALONE = ("torchvision==0.28.0", "robustbench==1.1.1", "timm==1.0.31")
"""Packages installed without dependencies, since they pin versions that do not exist for this torch version."""

PREAMBLE = """
import sys, types, warnings
warnings.simplefilter("ignore")
import torch
try:
    import torchvision
except RuntimeError:
    operators = torch.library.Library("torchvision", "DEF")
    for operator in ("nms", "qnms"):
        operators.define(operator + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
for name, attribute in (("autoattack", "AutoAttack"), ("autoattack.state", "EvaluationState")):
    sys.modules[name] = types.ModuleType(name)
    setattr(sys.modules[name], attribute, object)
"""
"""Code that replaces torchvision's compiled operators if they are those of another build of PyTorch, and a module of
RobustBench that the tests do not need."""


@pytest.fixture(scope="session")
def clients() -> Path:
    """Return the Python of the environment. The tests are skipped if it cannot be installed.

    The environment is created once in build/. It contains only packages that the test environment lacks, and imports
    all others from there.
    """
    libraries = sys.version, sys.prefix, (ROOT / "constraints.txt").read_text(), WITH_DEPENDENCIES, ALONE
    digest = hashlib.sha256(repr(libraries).encode()).hexdigest()[:12]
    folder = ROOT / "build" / f"clients-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:  # the tests may run in several processes
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            try:
                _install(folder)
            except subprocess.CalledProcessError as error:
                message = f"the client libraries cannot be installed: {error.stderr.strip()[-300:]}"
                pytest.fail(message) if UNDER_CI else pytest.skip(message)
            (folder / "ready").touch()
    return folder / "bin" / "python"


def run_client(python: Path, program: str, *arguments: object, modules: Path | None = None) -> str:
    """Run a program in the environment and return its output. ``modules`` is an additional folder of Python modules."""
    environment = {**os.environ, "PYTHONPATH": str(modules or ""), "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # the installation compiles no modules
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
