"""The emulators, an ARM Debian with Python, and the project's libraries for ARM, downloaded without root."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[2]
"""Folder of the project."""

PYTHON = "3.11"
"""Version of Python in Debian 12."""

PACKAGES = (
    *(f"python{PYTHON}-minimal", f"libpython{PYTHON}-stdlib", "libstdc++6"),
    *("libgl1", "libglib2.0-0"),  # for OpenCV
    "qemu-user-static:amd64",
)
"""Debian packages for ARM, and the emulators for x86-64. apt adds what they depend on."""

OMITTED = ("dpkg", "libglx-mesa0", "tar")
"""Packages that others depend on, but Python and OpenCV do not need. Their own dependencies are large."""

LIBRARIES = (
    *("annotated-types", "av", "imagecorruptions", "llvmlite", "numba", "numpy", "opencv-python", "pillow", "pyarrow"),
    *("pydantic", "pydantic_core", "simplejpeg", "typing-inspection", "typing_extensions"),
)
"""Distributions that the digests import."""

ARM_PLATFORMS = ("manylinux2014_aarch64", *(f"manylinux_2_{minor}_aarch64" for minor in (17, 24, 27, 28, 31, 34)))
"""Platforms of wheels that run on Debian 12."""

APT_SOURCES = (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list"))
"""Files that name Debian's servers, of which the first that has content is used."""

MEGABYTE = 1e6


class DownloadError(Exception):
    """The downloads cannot be made. The text says why and what to do."""


@dataclass(frozen=True)
class Downloads:
    """Everything that is downloaded, in one folder."""

    folder: Path

    @cached_property
    def pins(self) -> tuple[str, ...]:
        """The requirements of the libraries, in the versions that the tests use: ``numpy==2.4.6``."""
        return pins((ROOT / "constraints.txt").read_text(), LIBRARIES)

    @property
    def system(self) -> Path:
        """Folder of the unpacked Debian packages. Its name changes with the list of packages."""
        return self.folder / f"system-{_short_digest((*PACKAGES, *OMITTED))}"

    @property
    def libraries(self) -> Path:
        """Folder of the unpacked libraries for ARM. Its name changes with their versions."""
        return self.folder / f"libraries-{_short_digest((PYTHON, *self.pins, *ARM_PLATFORMS))}"

    @property
    def python(self) -> Path:
        """Python for ARM."""
        return self.system / "usr" / "bin" / f"python{PYTHON}"

    def emulator(self, program: str) -> Path:
        """Return the path of an emulator."""
        return self.system / "usr" / "bin" / program

    def versions(self) -> tuple[str, ...]:
        """Return the versions of all that computes digests: Debian packages, libraries for ARM, and those used here."""
        here = (f"{name} {metadata.version(name)}" for name in LIBRARIES)
        return (*(self.system / "packages.txt").read_text().split(), *self.pins, platform.python_version(), *here)

    def missing(self) -> Iterator[str]:
        """Yield a line for each download that is missing, with its size as far as it is known."""
        if not self.system.exists():
            yield from self._apt.described()
        if not self.libraries.exists():
            yield f"wheels for aarch64 (pip tells no sizes before the download): {' '.join(self.pins)}"

    def fetch(self) -> None:
        """Download and unpack what is missing.

        Raises:
            DownloadError: A program is missing, or a download fails.
        """
        if not self.system.exists():
            _publish(self._fetch_system, self.system)
        if not self.libraries.exists():
            _publish(self._fetch_libraries, self.libraries)

    @property
    def _apt(self) -> Apt:
        return Apt(self.folder / "apt")

    def _fetch_system(self, target: Path) -> None:
        files = self._apt.download()
        for file in files:
            run_program("dpkg", "-x", str(file), str(target))
        (target / "packages.txt").write_text("".join(f"{file.name}\n" for file in files))
        shutil.rmtree(self._apt.folder / "cache")

    def _fetch_libraries(self, target: Path) -> None:
        platforms = [option for name in ARM_PLATFORMS for option in ("--platform", name)]
        options = ("--only-binary", ":all:", "--no-deps", "--no-compile", "--python-version", PYTHON, *platforms)
        run_program(sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target), *options, *self.pins)


@dataclass(frozen=True)
class Apt:
    """apt with a configuration and package lists of its own, for the architectures arm64 and amd64."""

    folder: Path

    def described(self) -> Iterator[str]:
        """Yield a line for each package to download, with sizes if the package lists are there."""
        if not any((self.folder / "state" / "lists").glob("*_Packages*")):
            yield "lists of Debian's packages for arm64 and amd64 (about 20 MB)"
            yield f"packages, with sizes that these lists tell, and what they depend on: {' '.join(PACKAGES)}"
            return
        for line in self._install("--print-uris").splitlines():
            if found := re.match(r"'\S+' (\S+) (\d+) ", line):
                yield f"{found[1]}, {int(found[2]) / MEGABYTE:.1f} MB"

    def download(self) -> list[Path]:
        """Download the packages and what they depend on, and return the files."""
        for folder in ("state/lists/partial", "cache/archives/partial"):
            (self.folder / folder).mkdir(parents=True, exist_ok=True)
        (self.folder / "apt.conf").write_text(apt_configuration(self.folder.resolve(), apt_sources()))
        (self.folder / "status").write_text("\n".join(map(_installed, OMITTED)))
        self._run("update", "-qq")
        print("\n".join(self.described()), flush=True)
        self._install("--download-only", "-qq")
        return sorted((self.folder / "cache" / "archives").glob("*.deb"))

    def _install(self, *options: str) -> str:
        return self._run("install", "--yes", "--no-install-recommends", *options, *PACKAGES)

    def _run(self, *arguments: str) -> str:
        return run_program("apt-get", *arguments, environment={"APT_CONFIG": str(self.folder.resolve() / "apt.conf")})


def pins(constraints: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the lines of these distributions in a constraints file.

    Raises:
        DownloadError: A distribution is not in the file.
    """
    lines = {_normalised(line.partition("==")[0]): line for line in constraints.split() if "==" in line}
    names = tuple(names)
    if absent := [name for name in names if _normalised(name) not in lines]:
        raise DownloadError(
            f"constraints.txt has no version of {', '.join(absent)}: add it, or remove it from LIBRARIES"
        )
    return tuple(lines[_normalised(name)] for name in names)


def apt_sources(candidates: Iterable[Path] = APT_SOURCES) -> Path:
    """Return the file that names Debian's servers.

    Raises:
        DownloadError: There is none.
    """
    candidates = tuple(candidates)
    for path in candidates:
        if path.exists() and path.read_text().strip():
            return path
    raise DownloadError(f"no sources of apt in {' or '.join(map(str, candidates))}: run make emulate on Debian 12")


def apt_configuration(folder: Path, sources: Path) -> str:
    """Return apt's configuration. Everything that apt writes is in ``folder``."""
    return f"""APT::Architecture "arm64";
APT::Architectures {{ "arm64"; "amd64"; }};
APT::Sandbox::User "";
Acquire::Languages "none";
Dir::State "{folder}/state";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
Dir::Etc::SourceList "{sources}";
Dir::Etc::SourceParts "/dev/null";
"""


def check_machine() -> None:
    """Check that the emulators for this machine's system exist.

    Raises:
        DownloadError: This is not Linux on x86-64.
    """
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise DownloadError(f"this is {sys.platform} on {platform.machine()}: make emulate needs Linux on x86-64")


def run_program(*command: str, environment: Mapping[str, str] | None = None) -> str:
    """Run a program that downloads or unpacks, and return its output.

    Raises:
        DownloadError: The program is not installed, or it fails.
    """
    name = "pip" if command[1:3] == ("-m", "pip") else command[0]
    try:
        done = subprocess.run(
            command, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise DownloadError(f"{name} is not installed: run make emulate on Debian 12") from None
    if "No module named pip" in done.stderr:
        raise DownloadError(f"pip is not installed for {command[0]}: run {command[0]} -m ensurepip")
    if done.returncode:
        raise DownloadError(
            f"{name} failed with exit code {done.returncode}: {done.stderr.strip() or done.stdout.strip()}"
        )
    return done.stdout


def _publish(fill: Callable[[Path], None], target: Path) -> None:
    """Fill a temporary folder and rename it, so that a folder with the final name is complete."""
    temporary = target.with_name(f"{target.name}.part")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    fill(temporary)
    temporary.rename(target)


def _installed(package: str) -> str:
    """Return the entry of an installed package in dpkg's status file."""
    return f"""Package: {package}
Status: install ok installed
Architecture: arm64
Multi-Arch: same
Maintainer: none
Version: 99:0
Description: omitted
"""


def _normalised(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _short_digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
