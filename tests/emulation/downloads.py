"""The emulators, an ARM Debian with Python, and the project's libraries for ARM, downloaded without root."""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
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

APT = """APT::Architecture "arm64";
APT::Architectures {{ "arm64"; "amd64"; }};
APT::Sandbox::User "";
Acquire::Languages "none";
Dir::State "{folder}/state";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
Dir::Etc::SourceList "{sources}";
Dir::Etc::SourceParts "/dev/null";
"""
"""apt's configuration. Everything that apt writes is in a folder of its own."""

APT_SOURCES = ("/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list")
"""Files that name Debian's servers, of which the first that exists is used."""

INSTALLED = """Package: {name}
Status: install ok installed
Architecture: arm64
Multi-Arch: same
Maintainer: none
Version: 99:0
Description: omitted
"""
"""The entry of an installed package in dpkg's status file."""


class DownloadError(Exception):
    """The downloads cannot be made. The text says why and what to do."""


@dataclass(frozen=True)
class Downloads:
    """Everything that is downloaded, in one folder."""

    folder: Path

    @property
    def system(self) -> Path:
        """Folder of the unpacked Debian packages. Its name changes with the list of packages."""
        return self.folder / f"system-{_short_digest((*PACKAGES, *OMITTED))}"

    @property
    def libraries(self) -> Path:
        """Folder of the unpacked libraries for ARM. Its name changes with their versions."""
        return self.folder / f"libraries-{_short_digest((PYTHON, *pins(), *ARM_PLATFORMS))}"

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
        return (*(self.system / "packages.txt").read_text().split(), *pins(), platform.python_version(), *here)

    def missing(self) -> Iterator[str]:
        """Yield a line for each download that is missing."""
        if not self.system.exists():
            yield f"about 90 MB of Debian's packages and what they depend on: {' '.join(PACKAGES)}"
        if not self.libraries.exists():
            yield f"about 150 MB of wheels for aarch64: {' '.join(pins())}"

    def fetch(self) -> None:
        """Download and unpack what is missing.

        Raises:
            DownloadError: This is not Linux on x86-64, a program is missing, or a download fails.
        """
        if (sys.platform, platform.machine()) != ("linux", "x86_64"):
            raise DownloadError(f"this is {sys.platform} on {platform.machine()}: make emulate needs Linux on x86-64")
        if not self.system.exists():
            _publish(self._fetch_system, self.system)
        if not self.libraries.exists():
            _publish(_fetch_libraries, self.libraries)

    def _fetch_system(self, target: Path) -> None:
        apt = self.folder / "apt"
        for name in ("state/lists/partial", "cache/archives/partial"):
            (apt / name).mkdir(parents=True, exist_ok=True)
        sources = next((path for path in APT_SOURCES if Path(path).exists()), "")
        (apt / "apt.conf").write_text(APT.format(folder=apt.resolve(), sources=sources))
        (apt / "status").write_text("\n".join(INSTALLED.format(name=name) for name in OMITTED))
        for command in ("update", "install --yes --no-install-recommends --download-only"):
            packages = PACKAGES if command != "update" else ()
            run_program("apt-get", *command.split(), "-qq", *packages, APT_CONFIG=str(apt.resolve() / "apt.conf"))
        files = sorted((apt / "cache" / "archives").glob("*.deb"))
        for file in files:
            run_program("dpkg", "-x", str(file), str(target))
        (target / "packages.txt").write_text("".join(f"{file.name}\n" for file in files))
        shutil.rmtree(apt)


def _fetch_libraries(target: Path) -> None:
    platforms = [option for name in ARM_PLATFORMS for option in ("--platform", name)]
    options = ("--only-binary", ":all:", "--no-deps", "--no-compile", "--python-version", PYTHON, *platforms)
    run_program(sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target), *options, *pins())


def pins() -> tuple[str, ...]:
    """Return the requirements of the libraries, in the versions that the tests use: ``numpy==2.4.6``."""
    lines = {_normalised(line.partition("==")[0]): line for line in (ROOT / "constraints.txt").read_text().split()}
    return tuple(lines[_normalised(name)] for name in LIBRARIES)


def run_program(*command: str, **environment: str) -> None:
    """Run a program that downloads or unpacks.

    Raises:
        DownloadError: The program is not installed, or it fails.
    """
    try:
        done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise DownloadError(f"{command[0]} is not installed: run make emulate on Debian 12") from None
    if done.returncode:
        message = done.stderr.strip() or done.stdout.strip()
        raise DownloadError(f"{' '.join(command[:4])} ... failed with exit code {done.returncode}: {message}")


def _publish(fill: Callable[[Path], None], target: Path) -> None:
    """Fill a temporary folder and rename it, so that a folder with the final name is complete."""
    temporary = target.with_name(f"{target.name}.part")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    fill(temporary)
    temporary.rename(target)


def _normalised(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _short_digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
