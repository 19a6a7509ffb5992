"""Finished digests of a CPU, one JSON line each, so that a stopped run can continue."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.emulation.cpus import Cpu
from tests.emulation.downloads import ROOT
from tests.golden.digests import Digest

SOURCES = ("corruptions", "perturbations", "pipeline/images", "pipeline/transforms", "tests/golden/digests.py")
"""Folders and files of the project that determine the digests."""

SUFFIXES = frozenset({".jpg", ".py"})
"""Suffixes of those files in the folders."""


@dataclass(frozen=True)
class About:
    """The software that computed digests: target of the kernels, as LLVM names it, and version of each library."""

    kernels: str
    versions: Mapping[str, str]


@dataclass
class Record:
    """What a CPU has computed.

    Attributes:
        about: Its software; None before the first digest.
        digests: Name -> digest.
        errors: Name -> exception that was raised instead.
        seconds: CPU time of the digests and errors.
    """

    about: About | None = None
    digests: dict[str, Digest] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


def digest_line(name: str, digest: Digest, seconds: float) -> str:
    """Return the line of a finished digest."""
    return _line({"name": name, "digest": list(digest), "seconds": seconds})


def error_line(name: str, error: str, seconds: float) -> str:
    """Return the line of a digest that could not be computed."""
    return _line({"name": name, "error": error, "seconds": seconds})


def about_line(kernels: str, versions: Mapping[str, str]) -> str:
    """Return the line of the software."""
    return _line({"about": {"kernels": kernels, "versions": versions}})


def read_record(path: Path) -> Record:
    """Return the content of a file of lines. A missing file is empty, and incomplete lines are ignored."""
    record = Record()
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            content = json.loads(line)
        except ValueError:  # the process was stopped while it wrote
            continue
        if "about" in content:
            record.about = About(**content["about"])
            continue
        record.seconds += content["seconds"]
        if "digest" in content:
            record.digests[content["name"]] = Digest(*content["digest"])
            record.errors.pop(content["name"], None)  # of an earlier run
        else:
            record.errors[content["name"]] = content["error"]
    return record


def end_last_line(path: Path) -> None:
    """End an incomplete last line, so that another one can be appended."""
    if path.exists() and not path.read_bytes().endswith(b"\n"):
        with open(path, "a", encoding="utf-8") as file:
            file.write("\n")


def record_path(folder: Path, cpu: Cpu, software: Iterable[str]) -> Path:
    """Return the file of a CPU's digests, whose name changes with the sources, the software and the CPU's settings."""
    state = hashlib.sha256(json.dumps([asdict(replace(cpu, title="")), list(software)]).encode())
    for path in source_files(ROOT):
        state.update(f"{path.relative_to(ROOT)}\n{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return folder / f"{cpu.name}-{state.hexdigest()[:16]}.jsonl"


def source_files(root: Path) -> Iterator[Path]:
    """Yield the files that determine the digests, in a fixed order."""
    for source in SOURCES:
        path = root / source
        files = path.rglob("*") if path.is_dir() else (path,)
        yield from sorted(file for file in files if file.suffix in SUFFIXES)


def _line(content: Mapping[str, Any]) -> str:
    return json.dumps(content) + "\n"
