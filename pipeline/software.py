"""Versions and sources of the software that determines the bytes of a build."""

import hashlib
import math
import os
import platform
import re
import shlex
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from pathlib import Path

from pipeline.errors import UserError

PACKAGES = ("corruptions", "manifests", "perturbations", "pipeline", "robustshards")
"""Import packages of this project."""

LIBRARIES = ("robustshards", "numpy", "opencv-python", "pillow", "simplejpeg", "av", "numba", "pyarrow")
"""Distributions that determine pixels or manifest bytes."""

ATTACK_LIBRARIES: Mapping[str, str] = {
    "foolbox": "pip install foolbox",
    "torchattacks": "pip install --no-deps torchattacks==3.5.1",
}
"""Distributions that compute attacks -> command that installs them. Without ``--no-deps``, torchattacks asks for old
versions of packages that it does not use."""

DEVICE = "device"
"""Name of the device among the libraries of a recipe whose pixels depend on it."""

CONTROL_GROUP, OWN_CONTROL_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
"""Folder with the limits of containers and jobs, and the file with the groups that this process is in."""

_IMPORTED_AS: Mapping[str, str] = {"opencv-python": "cv2", "pillow": "PIL"}
"""Distribution -> its import name, where the two differ."""

_MODULES = (*PACKAGES, *(_IMPORTED_AS.get(name, name) for name in LIBRARIES[1:]))
"""Import names of this project and of the libraries."""


def versions(more: Iterable[str] = ()) -> dict[str, str]:
    """Return the installed version of each library.

    Args:
        more: Distributions in addition to ``LIBRARIES``.

    Returns:
        Distribution -> version.

    Raises:
        UserError: A distribution is not installed, has a version that does not fit, or other files.
    """
    names = (*LIBRARIES, *more)
    found = installed_versions(names)
    if missing := next((name for name in names if name not in found), None):
        raise UserError(f"the package {missing} is not installed: run pip install {missing}")
    if unmet := unmet_requirements(names):
        raise UserError(unmet)
    if (of_files := _opencv_files()) not in ("", found["opencv-python"]):
        raise UserError(
            f"opencv-python {found['opencv-python']} is installed, but its files are those of version {of_files}: a "
            "variant of the package has replaced them. Run pip uninstall opencv-python opencv-python-headless "
            "opencv-contrib-python opencv-contrib-python-headless, then pip install opencv-python"
        )
    return found


def unmet_requirements(among: Collection[str] = ()) -> str:
    """Return an error with the requirements of this project that the installed versions do not meet; empty if none.

    Args:
        among: Distributions. Default: all that are required without an extra.
    """
    try:
        from packaging.requirements import Requirement

        needed = [Requirement(each) for each in metadata.requires("robustshards") or ()]
    except ImportError:  # packaging or this project is not installed
        return ""
    unmet = {}
    for each in needed:
        if each.marker or (among and each.name not in among):
            continue
        version = _version(each.name)
        if version is None or not each.specifier.contains(version, prereleases=True):
            unmet[f"{each.name}{each.specifier}"] = version or "none"
    if not unmet:
        return ""
    found = ", ".join(f"{need} (installed: {version})" for need, version in unmet.items())
    return f"robustshards needs {found}: run pip install {' '.join(map(shlex.quote, unmet))}"


def _opencv_files() -> str:
    """Return the version in the files of OpenCV that are imported; empty if they have none."""
    with suppress(OSError):
        text = Path(_origin("cv2")).with_name("version.py").read_text(encoding="utf-8")
        return next(iter(re.findall('opencv_version = "(.*)"', text)), "")
    return ""


def installed_versions(names: Iterable[str]) -> dict[str, str]:
    """Return distribution -> version, without distributions that are not installed."""
    return {name: version for name in names if (version := _version(name))}


@cache
def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


@dataclass(frozen=True)
class Installation:
    """The software that a process runs: versions, the digest of this project's source, and the imported files.

    Attributes:
        host: Host name.
        versions: Python and each library -> version.
        source: Digest of the source files of this project.
        files: Module -> path, and device and inode, which identify a file that has several paths.
    """

    host: str
    versions: Mapping[str, str]
    source: str
    files: Mapping[str, tuple[str, str]]

    def differences(self) -> list[str]:
        """Return how this process differs from this installation; paths count only on the same host."""
        own = {"Python": platform.python_version(), **installed_versions(LIBRARIES)}
        faults = [
            f"{name} {own.get(name, 'missing')}, not {self.versions.get(name, 'missing')}"
            for name in sorted(own.keys() | self.versions.keys())
            if own.get(name) != self.versions.get(name)
        ]
        files = _files()
        if platform.node() == self.host:
            faults += [
                f"{name} from {files[name][0]}, not {path}"
                for name, (path, _) in self.files.items()
                if files[name][0] != path
            ]
            if all(files[name] == self.files[name] for name in PACKAGES):  # identical files have the same digest
                return faults
        if (digest := _source_digest()) != self.source:
            faults.append(f"the source of robustshards has the digest {digest}, not {self.source}")
        return faults


@cache
def installation() -> Installation:
    """Return the software of this process.

    Raises:
        UserError: A library is not installed.
    """
    return Installation(
        platform.node(), {"Python": platform.python_version(), **versions()}, _source_digest(), _files()
    )


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
    """Return the file that a module is, or would be, imported from."""
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        spec = None
    return (spec and spec.origin) or "nowhere"


def _source_digest() -> str:
    """Return a short digest of the source files of this project."""
    state = hashlib.sha256()
    for name, path in _source_files():
        content = path.read_bytes()
        state.update(f"{name}\n{len(content)}\n".encode())
        state.update(content)
    return state.hexdigest()[:16]


def _source_files() -> Iterator[tuple[str, Path]]:
    """Yield (path below the packages' parent, file) of each module, in the same order on every machine."""
    for package in PACKAGES:
        root = Path(_origin(package)).parent
        paths = {path.relative_to(root).as_posix(): path for path in root.rglob("*.py")}
        yield from ((f"{package}/{name}", paths[name]) for name in sorted(paths))


def device_name(device: str) -> str:
    """Return the name of a device of PyTorch, which decides the rounding of its results. Raises UserError."""
    import torch

    if (kind := torch.device(device).type) == "cuda":
        try:
            return torch.cuda.get_device_name(device)
        except (RuntimeError, AssertionError) as error:
            raise UserError(f"PyTorch finds no GPU for the device {device}: use the device cpu") from error
    return f"{kind} {torch.backends.cpu.get_cpu_capability()}"


def cpu_count() -> int:
    """Return the number of CPUs that this process may use: those it may run on, or fewer in a limited container.

    Docker and Kubernetes limit the time on all CPUs, not which of them a process may run on.
    """
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [*_limits("cpu", 2, "cpu.max"), *_limits("cpu", 2, "cpu.cfs_quota_us", "cpu.cfs_period_us")]
    return min([usable, *(max(math.ceil(quota / period), 1) for quota, period in quotas if quota >= 0 < period)])


def memory_bytes() -> int:
    """Return how much memory this process may use: that of the machine, or less in a limited container or job."""
    limits = [*_limits("memory", 1, "memory.max"), *_limits("memory", 1, "memory.limit_in_bytes")]
    return min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *(limit for (limit,) in limits)])


def _limits(controller: str, count: int, *files: str) -> Iterator[list[int]]:
    """Yield the ``count`` numbers in these files of each control group that limits this process."""
    for group in _control_groups(controller):
        with suppress(OSError, ValueError):  # without a limit: "max"
            numbers = [int(word) for name in files for word in (group / name).read_text().split()]
            if len(numbers) == count:
                yield numbers


def _control_groups(controller: str) -> Iterator[Path]:
    """Yield the folder of the control group of this process, in both versions, and of each group that contains it."""
    lines = OWN_CONTROL_GROUPS.read_text().splitlines() if OWN_CONTROL_GROUPS.exists() else []  # Linux only
    for _, controllers, path in (line.split(":", 2) for line in lines):
        if controller in controllers.split(",") or not controllers:
            top = CONTROL_GROUP / (controller if controllers else "")
            own = top / path.strip("/")
            yield from (own, *own.parents[: len(own.parents) - len(top.parents)])


def host_facts() -> dict[str, str]:
    """Return the facts about this machine that are recorded with each run."""
    return {
        "host": platform.node(),
        "machine": platform.machine(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def leave_out_pandas() -> None:
    """Let Arrow make its first array without pandas, which it would import for it: 0.5 s and 37 MB.

    It looks for pandas only once. A later ``to_pandas`` imports it all the same.
    """
    import pyarrow as pa

    sys.meta_path.insert(0, hidden := _NoPandas())
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(hidden)


class _NoPandas(MetaPathFinder):
    """A finder of modules that says that there is no pandas."""

    def find_spec(self, fullname: str, *_: object) -> None:
        """Raise ModuleNotFoundError for pandas."""
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname, name=fullname)
