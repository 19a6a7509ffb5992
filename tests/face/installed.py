"""The wheel in an environment of its own, with nothing of the checkout in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from contextlib import suppress
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pipeline.software import PACKAGES
from tests.conftest import ROOT

LOCAL = ("PYTHONPATH", "PYTHONSAFEPATH", "PYTHONDONTWRITEBYTECODE", "NUMBA_CACHE_DIR", "VIRTUAL_ENV")
"""Variables that would mix in what the tests run with, or have every process compile the same modules again."""


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


def environment_with(wheel: Path, folder: Path) -> Path:
    """Return the Python of a new environment that has the wheel, and all that its metadata asks for.

    Its libraries are links to those that the tests run with. pip installs what is missing.
    """
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)], ROOT)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    files = [file for library in libraries() for file in library.files or () if ".." not in file.parts]
    for parent in {(site_packages / file).parent for file in files}:
        parent.mkdir(parents=True, exist_ok=True)
    for file in files:
        (site_packages / file).symlink_to(file.locate())
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile"]
    run([*pip, f"{wheel}[evaluate]"], ROOT)
    return python


def libraries() -> list[Distribution]:
    """Return what is installed here of all that the project and its extra ``evaluate`` ask for, directly or not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [Requirement(each) for each in (*project["dependencies"], *project["optional-dependencies"]["evaluate"])]
    found: dict[str, Distribution] = {}
    seen = set()
    while wanted:
        library = wanted.pop()
        name = canonicalize_name(library.name)
        with suppress(PackageNotFoundError):
            found.setdefault(name, distribution(name))
        for extra in {"", *library.extras}:
            if name in found and (name, extra) not in seen:
                seen.add((name, extra))
                asked = map(Requirement, found[name].requires or ())
                wanted += [each for each in asked if not each.marker or each.marker.evaluate({"extra": extra})]
    return list(found.values())


def run(command: list[str], folder: Path) -> str:
    """Run a command in a folder, without what the tests have in their environment; return what it prints."""
    environment = {name: value for name, value in os.environ.items() if name not in LOCAL}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout
