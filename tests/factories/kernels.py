"""Compiled kernels that all test processes share."""

import hashlib
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "kernels"

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
    """Compile the kernels that FOLDER lacks, in one process for each recipe, if a source changed since the last time.

    Raises:
        RuntimeError: A kernel cannot be compiled.
    """
    finished, sources = FOLDER / "finished", _sources()
    if finished.exists() and finished.read_text() == sources:
        return
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(FOLDER)}
    processes = [subprocess.Popen([sys.executable, "-c", _COMPILE, name], env=environment) for name in _RECIPES]
    if failed := [name for name, process in zip(_RECIPES, processes, strict=True) if process.wait()]:
        raise RuntimeError(f"cannot compile the kernels of {', '.join(failed)}: see the messages above")
    FOLDER.mkdir(parents=True, exist_ok=True)
    finished.write_text(sources)


def _sources() -> str:
    """Return a digest of what numba's cache depends on: its version, and times and sizes of the sources."""
    paths = sorted(
        path for room in ("corruptions", "perturbations", "pipeline") for path in (ROOT / room).rglob("*.py")
    )
    rows = [f"{path} {path.stat().st_mtime_ns} {path.stat().st_size}" for path in paths]
    return hashlib.sha256("\n".join([version("numba"), *rows, Path(__file__).read_text()]).encode()).hexdigest()
