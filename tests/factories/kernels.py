"""Compiled kernels that all test processes share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "build" / "kernels"

_RECIPES = (
    "imagenet-c",
    "imagenet-p",
    "imagenet-c-bar",
    "cifar-10-c-bar",
    "low-pass",
    "imagenet-syn2nat-candidates",
    "imagenet-3dcc-noise",
    "fourier-32",
)
_COMPILE = """
import sys
from pipeline.recipes.library import load
from pipeline.render.warm_up import ready_renderer
ready_renderer(load(sys.argv[1]), None)
"""


def compile_kernels() -> None:
    """Compile the kernels that FOLDER lacks, in one process for each recipe.

    Raises:
        RuntimeError: A kernel cannot be compiled.
    """
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(FOLDER)}
    processes = [subprocess.Popen([sys.executable, "-c", _COMPILE, name], env=environment) for name in _RECIPES]
    if failed := [name for name, process in zip(_RECIPES, processes, strict=True) if process.wait()]:
        raise RuntimeError(f"cannot compile the kernels of {', '.join(failed)}: see the messages above")
