"""The wheel in an environment of its own, with nothing of the checkout in it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from pipeline.software import PACKAGES
from tests.conftest import ROOT

LOCAL = ("PYTHONPATH", "PYTHONSAFEPATH", "NUMBA_CACHE_DIR", "VIRTUAL_ENV")
"""Variables of the environment that would mix in what the tests run with."""


def build_wheel(folder: Path) -> Path:
    """Build the wheel from a copy of what belongs to it."""
    copy = folder / "source"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__", "*.nb[ic]"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), "."],
        copy,
    )
    (wheel,) = folder.glob("robustshards-*.whl")
    return wheel


def environment_with(wheel: Path) -> Path:
    """Return the Python of an environment that has the wheel, and all that its metadata asks for.

    The environment stays in ``build/``, since its libraries take a minute and more to install; they are those of
    constraints.txt. The wheel is installed anew each time.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [sys.version, *project["dependencies"], *project["optional-dependencies"]["evaluate"]]
    constraints = ROOT / "constraints.txt"
    name = hashlib.sha256("\n".join([*wanted, constraints.read_text()]).encode()).hexdigest()[:12]
    folder = ROOT / "build" / f"installed-{name}"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        run([sys.executable, "-m", "venv", str(folder)], ROOT)
        pip(python, "--constraint", str(constraints), f"{wheel}[evaluate]")
        (folder / "ready").touch()
    pip(python, "--no-deps", "--force-reinstall", str(wheel))
    return python


def pip(python: Path, *arguments: str) -> None:
    """Install something."""
    run([str(python), "-m", "pip", "install", "--quiet", "--no-compile", *arguments], ROOT)


def run(command: list[str], folder: Path) -> str:
    """Run a command in a folder, without what the tests have in their environment; return what it prints."""
    environment = {name: value for name, value in os.environ.items() if name not in LOCAL}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout
