"""A virtual environment in which the wheel is installed, isolated from the checkout."""

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

REMOVED_VARIABLES = ("PYTHONPATH", "PYTHONSAFEPATH", "PYTHONDONTWRITEBYTECODE", "NUMBA_CACHE_DIR", "VIRTUAL_ENV")
"""Variables that would add modules of the checkout to the path, or disable caches of compiled code."""


def build_wheel(folder: Path) -> Path:
    """Build the wheel from a copy of its packages and return its path."""
    copy = copied_project(folder / "source")
    run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), "."],
        copy,
    )
    (wheel,) = folder.glob("robustshards-*.whl")
    return wheel


def copied_project(copy: Path) -> Path:
    """Copy what the wheel is built from, and return the folder."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__", "*.nb[ic]"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    return copy


def environment_with(wheel: Path, folder: Path) -> Path:
    """Create an environment with the wheel and its dependencies, and return the path of its Python.

    The files of libraries that are installed for the tests are linked; pip installs the others.
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
    """Return the installed direct and indirect dependencies of the project and its extra ``evaluate``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    queue = [Requirement(each) for each in (*project["dependencies"], *project["optional-dependencies"]["evaluate"])]
    installed: dict[str, Distribution] = {}
    seen = set()
    while queue:
        library = queue.pop()
        name = canonicalize_name(library.name)
        with suppress(PackageNotFoundError):
            installed.setdefault(name, distribution(name))
        for extra in {"", *library.extras}:
            if name in installed and (name, extra) not in seen:
                seen.add((name, extra))
                required = map(Requirement, installed[name].requires or ())
                queue += [each for each in required if not each.marker or each.marker.evaluate({"extra": extra})]
    return list(installed.values())


def run(command: list[str], folder: Path) -> str:
    """Run a command in a folder without REMOVED_VARIABLES, and return its standard output."""
    environment = {name: value for name, value in os.environ.items() if name not in REMOVED_VARIABLES}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout
