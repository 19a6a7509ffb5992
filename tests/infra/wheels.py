"""Checks that wheels of all distributions in the container images exist: ``python -m tests.infra.wheels``.

pip can resolve for another CPU, but evaluates environment markers such as ``platform_machine`` for its own CPU.
Therefore pip only selects wheels here, and dependencies are followed with the markers of the target.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]

ARCHITECTURES: Mapping[str, Sequence[str]] = {
    "x86_64": ("manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"),
    "aarch64": ("manylinux2014_aarch64", "linux_aarch64"),
}
"""``platform_machine`` -> platform tags without a version of glibc."""

GLIBC: Mapping[str, int] = {"bookworm": 36, "trixie": 41}
"""Debian release -> minor version of its glibc 2."""

OLDEST_GLIBC = 5
"""Minor version of glibc of manylinux1, the oldest tag."""


@dataclass(frozen=True)
class Image:
    """What the Dockerfile installs.

    Attributes:
        python: Version of Python, for example 3.11.
        glibc: Minor version of glibc 2.
        requirements: Arguments of all ``pip install`` commands, with the project replaced by its dependencies.
        constraints: Path of the constraints file.
    """

    python: str
    glibc: int
    requirements: frozenset[Requirement]
    constraints: Path


@dataclass(frozen=True)
class Wheel:
    """A wheel that pip selected.

    Attributes:
        version: Version of the distribution.
        tags: Tags of Python, ABI and platform, as in the file name.
        requires: Dependencies with their markers.
    """

    version: str
    tags: str
    requires: tuple[Requirement, ...]


def read_image(root: Path) -> Image:
    """Return what ``infra/Dockerfile`` of a checkout installs, with the defaults of its build arguments.

    Raises:
        ValueError: The base image is not a Python image of a known Debian release, or nothing is installed.
    """
    text = (root / "infra" / "Dockerfile").read_text().replace("\\\n", " ")
    defaults = dict(re.findall(r"^ARG (\w+)=(\S*)$", text, re.MULTILINE))
    base = re.fullmatch(r"python:(\d+\.\d+)\S*-(\w+)", defaults.get("BASE", ""))
    if not base or base[2] not in GLIBC:
        raise ValueError(f"base image {defaults.get('BASE')!r}: use python:X.Y-RELEASE with one of {', '.join(GLIBC)}")
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    arguments = [each for line in re.findall(r"pip install (.*)", text) for each in _arguments(line, defaults)]
    if not arguments:
        raise ValueError("infra/Dockerfile has no pip install with requirements")
    requirements = [each for argument in arguments for each in _requirements(argument, project)]
    return Image(base[1], GLIBC[base[2]], frozenset(requirements), root / "constraints.txt")


def _arguments(line: str, defaults: Mapping[str, str]) -> Iterator[str]:
    """Yield the requirements among the arguments of ``pip install``. Each option is skipped with its value."""
    values = re.sub(r"\$\{(\w+)\}", lambda name: defaults.get(name[1], ""), line)
    words = iter(shlex.split(re.sub(r"\$\{\w+:\+[^}]*\}", "", values)))
    for word in words:
        if word.startswith("--"):
            next(words)
        else:
            yield word


def _requirements(argument: str, project: Mapping[str, dict[str, list[str]]]) -> Iterator[Requirement]:
    """Yield the requirements of an argument of ``pip install``: a requirement, or ``/src[extra,...]``."""
    if not argument.startswith("/"):
        yield Requirement(argument)
        return
    yield from map(Requirement, project["dependencies"])
    for extra in Requirement(f"src{argument.removeprefix('/src')}").extras:
        yield from map(Requirement, project["optional-dependencies"][extra])


def read_pins(constraints: Path) -> dict[str, str]:
    """Return distribution -> version of a constraints file."""
    lines = re.findall(r"^([\w.-]+)==(\S+)$", constraints.read_text(), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in lines}


class Resolver:
    """Selects wheels of an image for one architecture.

    Args:
        image: What to install.
        architecture: A key of ``ARCHITECTURES``.
        options: More options of pip, for example an index.
    """

    def __init__(self, image: Image, architecture: str, options: Sequence[str] = ()) -> None:
        self._image = image
        self._markers = {
            "implementation_name": "cpython",
            "os_name": "posix",
            "platform_machine": architecture,
            "platform_python_implementation": "CPython",
            "platform_system": "Linux",
            "python_full_version": f"{image.python}.99",  # images are built with the newest patch release
            "python_version": image.python,
            "sys_platform": "linux",
        }
        versioned = [f"manylinux_2_{minor}_{architecture}" for minor in range(image.glibc, OLDEST_GLIBC - 1, -1)]
        platforms = [*versioned, *ARCHITECTURES[architecture]]
        self._command = [
            *(sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--dry-run"),
            *("--no-deps", "--only-binary=:all:", "--implementation=cp", f"--python-version={image.python}"),
            *(f"--abi=cp{image.python.replace('.', '')}", f"--constraint={image.constraints}"),
            *(f"--platform={platform}" for platform in platforms),
            *options,
        ]

    def resolve(self) -> tuple[dict[str, Wheel], set[str]]:
        """Return the wheel of each direct and indirect dependency, and the names of distributions without a wheel."""
        required: dict[str, set[Requirement]] = {}
        wheels: dict[str, Wheel] = {}
        missing: set[str] = set()
        new = self._applicable(self._image.requirements, {""})
        while new:
            for requirement in new:
                required.setdefault(canonicalize_name(requirement.name), set()).add(requirement)
            names = sorted({canonicalize_name(requirement.name) for requirement in new})
            found, without = self._select({name: required[name] for name in names})
            wheels |= found
            missing |= without
            known = set[Requirement]().union(*required.values())
            needed = set[Requirement]().union(*(self._needs(wheels[name], required[name]) for name in wheels))
            new = {each for each in needed - known if canonicalize_name(each.name) not in missing}
        return wheels, missing

    def _needs(self, wheel: Wheel, required: set[Requirement]) -> set[Requirement]:
        """Return the dependencies of a wheel with the extras that are required of it."""
        return self._applicable(wheel.requires, {"", *(extra for each in required for extra in each.extras)})

    def _applicable(self, requirements: Iterable[Requirement], extras: set[str]) -> set[Requirement]:
        """Return the requirements whose markers hold for the target, without their markers."""
        kept = (
            each
            for each in requirements
            if not each.marker or any(each.marker.evaluate(self._markers | {"extra": extra}) for extra in extras)
        )
        return {Requirement(str(each).partition(";")[0]) for each in kept}

    def _select(self, required: Mapping[str, set[Requirement]]) -> tuple[dict[str, Wheel], set[str]]:
        """Select wheels of distributions, without dependencies.

        pip stops at the first distribution without a wheel, so each half is tried alone then.
        """
        try:
            return self._run_pip([str(each) for name in required for each in required[name]]), set()
        except subprocess.CalledProcessError as error:
            if len(required) == 1:
                print(error.stderr, file=sys.stderr)
                return {}, set(required)
        names = list(required)
        middle = len(names) // 2
        (first, without_first), (second, without_second) = (
            self._select({name: required[name] for name in half}) for half in (names[:middle], names[middle:])
        )
        return first | second, without_first | without_second

    def _run_pip(self, requirements: Sequence[str]) -> dict[str, Wheel]:
        """Return the wheels that pip would install.

        Raises:
            CalledProcessError: pip found no wheel of a distribution.
        """
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            options = [f"--target={folder}/target", f"--report={report}"]
            command = [*self._command, *options, *requirements]
            subprocess.run(command, capture_output=True, text=True, check=True)
            installed = json.loads(report.read_text())["install"]
        return {canonicalize_name(each["metadata"]["name"]): _wheel(each) for each in installed}


def _wheel(entry: Mapping[str, dict[str, str]]) -> Wheel:
    """Return a wheel from an entry of pip's report."""
    file = unquote(entry["download_info"]["url"].rpartition("/")[2])
    tags = "-".join(file.removesuffix(".whl").rsplit("-", 3)[1:])
    requires = tuple(map(Requirement, entry["metadata"].get("requires_dist", ())))
    return Wheel(entry["metadata"]["version"], tags, requires)


def table(wheels: Mapping[str, Mapping[str, Wheel]], pins: Mapping[str, str]) -> Iterator[str]:
    """Yield aligned lines with the version and the tags of each distribution for each architecture.

    Args:
        wheels: Architecture -> distribution -> wheel.
        pins: Distribution -> version in the constraints file. Distributions without one are marked with ``*``.
    """
    rows = [("distribution", *wheels)]
    for name in sorted(set[str]().union(*wheels.values())):
        cells = (f"{found[name].version} {found[name].tags}" if name in found else "-" for found in wheels.values())
        rows.append((name if name in pins else f"{name} *", *cells))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the wheels and the distributions without one. Return 1 if there are any."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.infra.wheels",
        description="Check that wheels of everything that infra/Dockerfile installs exist for each CPU architecture. "
        "Downloads metadata only. * marks distributions without a version in constraints.txt.",
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="Checkout to read. Default: this one.")
    parser.add_argument(
        "--architecture", choices=ARCHITECTURES, action="append", help="Check this one only. Repeatable. Default: all."
    )
    parser.add_argument("pip", nargs="*", help="Options of pip, after --, for example: -- --extra-index-url URL")
    options = parser.parse_args(arguments)
    image = read_image(options.root)
    resolved = {
        architecture: Resolver(image, architecture, options.pip).resolve()
        for architecture in options.architecture or ARCHITECTURES
    }
    pins = read_pins(image.constraints)
    wheels = {architecture: found for architecture, (found, _) in resolved.items()}
    print(*table(wheels, pins), sep="\n", end="\n\n")
    for architecture, (found, missing) in resolved.items():
        print(f"linux/{architecture}: {len(found)} wheels, {len(missing)} distributions without a wheel")
        for name in sorted(missing):
            print(f"linux/{architecture}: no wheel of {name}{f'=={pins[name]}' if name in pins else ''}")
    return int(any(missing for _, missing in resolved.values()))


if __name__ == "__main__":
    sys.exit(main())
