"""Which libraries decide the bytes of a build, and in which versions they are here."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from pipeline.errors import UserError

PACKAGES = ("corruptions", "manifests", "perturbations", "pipeline", "robustshards")
"""The packages of this project, as they are imported."""

LIBRARIES = ("robustshards", "numpy", "opencv-python", "pillow", "simplejpeg", "av", "numba", "pyarrow")
"""Distributions through which pixels or manifest bytes pass."""

_IMPORTED_AS: Mapping[str, str] = {"opencv-python": "cv2", "pillow": "PIL"}
"""Distribution -> what is imported of it, where that has another name."""

_MODULES = (*PACKAGES, *(_IMPORTED_AS.get(name, name) for name in LIBRARIES[1:]))
"""What is imported, of this project and of the libraries."""


def versions(more: Iterable[str] = ()) -> dict[str, str]:
    """Return library -> version, as installed on this machine.

    Args:
        more: Distributions beside those of every build.

    Raises:
        UserError: One of them is not installed.
    """
    try:
        return {name: metadata.version(name) for name in (*LIBRARIES, *more)}
    except metadata.PackageNotFoundError as error:
        raise UserError(f"the package {error.name} is not installed here: pip install {error.name}") from error


@dataclass(frozen=True)
class Installation:
    """What a process runs: Python and library versions, our own source files, and where all of it is imported from.

    ``files``: module -> path, and what the file system calls that file, so that the same file is known as such.
    """

    host: str
    versions: Mapping[str, str]
    source: str
    files: Mapping[str, tuple[str, str]]

    def differences(self) -> list[str]:
        """Return what this process runs other than the one that this was found in; places count on one host only."""
        here = {"Python": platform.python_version(), **_installed()}
        faults = [
            f"{name} {here.get(name, 'missing')}, not {self.versions.get(name, 'missing')}"
            for name in sorted(here.keys() | self.versions.keys())
            if here.get(name) != self.versions.get(name)
        ]
        files = _files()
        if platform.node() == self.host:
            faults += [
                f"{name} from {files[name][0]}, not {path}"
                for name, (path, _) in self.files.items()
                if files[name][0] != path
            ]
            if all(files[name] == self.files[name] for name in PACKAGES):  # the same files need not be read
                return faults
        if (digest := _source_digest()) != self.source:
            faults.append(f"the source of robustshards has the digest {digest}, not {self.source}")
        return faults


@cache
def installation() -> Installation:
    """Return what this process runs. Raises UserError for a library that is not installed."""
    return Installation(
        platform.node(), {"Python": platform.python_version(), **versions()}, _source_digest(), _files()
    )


def _installed() -> dict[str, str]:
    """The versions of the libraries that are there."""
    found: dict[str, str] = {}
    for name in LIBRARIES:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _files() -> dict[str, tuple[str, str]]:
    return {name: _identity(_origin(name)) for name in _MODULES}


def _identity(file: str) -> tuple[str, str]:
    path = os.path.realpath(file)
    try:
        about = os.stat(path)
    except OSError:
        return path, ""
    return path, f"{about.st_dev}:{about.st_ino}"


def _origin(module: str) -> str:
    """The file that a module is, or would be, imported from."""
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        spec = None
    return (spec and spec.origin) or "nowhere"


def _source_digest() -> str:
    """A short digest of the source files of our packages."""
    state = hashlib.sha256()
    for name, path in _source_files():
        content = path.read_bytes()
        state.update(f"{name}\n{len(content)}\n".encode())
        state.update(content)
    return state.hexdigest()[:16]


def _source_files() -> Iterator[tuple[str, Path]]:
    """(path below the packages' parent, file) of each module, in one order on every machine."""
    for package in PACKAGES:
        root = Path(_origin(package)).parent
        paths = {path.relative_to(root).as_posix(): path for path in root.rglob("*.py")}
        yield from ((f"{package}/{name}", paths[name]) for name in sorted(paths))


def cpu_count() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def host_facts() -> dict[str, str]:
    """What a run's record says of the machine."""
    return {
        "host": platform.node(),
        "machine": platform.machine(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
