"""An environment of its own for what cannot live in ours: RobustBench and the model libraries, on the CPU."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
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
    """The Python of the environment, made once in build/ and kept; the tests skip where it cannot be installed."""
    wanted = hashlib.sha256(repr((sys.version, WITH_DEPENDENCIES, ALONE)).encode()).hexdigest()[:12]
    folder = ROOT / "build" / f"clients-{wanted}"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        try:
            _run(sys.executable, "-m", "venv", str(folder))
            _run(str(python), "-m", "pip", "install", "--quiet", "--no-compile", *WITH_DEPENDENCIES)
            _run(str(python), "-m", "pip", "install", "--quiet", "--no-compile", "--no-deps", *ALONE)
        except subprocess.CalledProcessError as error:
            message = f"other people's readers cannot be installed: {error.stderr.strip()[-300:]}"
            pytest.fail(message) if UNDER_CI else pytest.skip(message)
        (folder / "ready").touch()
    return python


def run_client(python: Path, program: str, *arguments: object, modules: Path | None = None) -> str:
    """What a program prints in the environment. ``modules``: a folder whose Python modules it may import as well."""
    environment = {**os.environ, "PYTHONPATH": str(modules or ""), "OMP_NUM_THREADS": "1"}
    command = [str(python), "-c", PREAMBLE + program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _run(*command: str) -> None:
    subprocess.run(command, capture_output=True, text=True, check=True, timeout=900)
