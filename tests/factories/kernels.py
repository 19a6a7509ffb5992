"""Compiled kernels that all test processes share."""

import hashlib
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "kernels"

_SHARES = (
    ("imagenet-c", "low-pass", "cifar-10-c-bar", "fourier-32"),
    ("imagenet-p", "imagenet-c-bar", "imagenet-syn2nat-candidates", "imagenet-3dcc-noise"),
)
"""The recipes that each of two processes compiles.

More processes take longer: most recipes need the same kernels, and each process compiles all that it needs.
"""

_COMPILE = """
import sys
from pipeline.recipes.library import load
from pipeline.render.warm_up import ready_renderer
for name in sys.argv[1:]:
    ready_renderer(load(name), None)
"""


def compile_kernels() -> None:
    """Compile the kernels that FOLDER lacks, if a source changed since the last time.

    Raises:
        RuntimeError: A kernel cannot be compiled.
    """
    finished, sources = FOLDER / "finished", _sources()
    if finished.exists() and finished.read_text() == sources:
        return
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(FOLDER)}
    processes = [subprocess.Popen([sys.executable, "-c", _COMPILE, *share], env=environment) for share in _SHARES]
    codes = [process.wait() for process in processes]
    if any(codes):
        raise RuntimeError("cannot compile the kernels: see the messages above")
    FOLDER.mkdir(parents=True, exist_ok=True)
    finished.write_text(sources)


def _sources() -> str:
    """Return a digest of what numba's cache depends on: its version, and times and sizes of the sources."""
    paths = sorted(
        path for room in ("corruptions", "perturbations", "pipeline") for path in (ROOT / room).rglob("*.py")
    )
    rows = [f"{path} {path.stat().st_mtime_ns} {path.stat().st_size}" for path in paths]
    return hashlib.sha256("\n".join([version("numba"), *rows, Path(__file__).read_text()]).encode()).hexdigest()
