"""Finished digests of a CPU, one JSON line each, so that a stopped run can continue; and how they differ."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from corruptions.catalogue import PROFILE_SIDES
from tests.emulation.cpus import Cpu
from tests.emulation.downloads import ROOT
from tests.golden.digests import Digest

SOURCES = ("corruptions", "perturbations", "pipeline/images", "pipeline/transforms", "tests/golden/digests.py")
"""Folders and files of the project that determine the digests."""

SUFFIXES = frozenset({".jpg", ".py"})
"""Suffixes of those files in the folders."""


@dataclass
class Outcome:
    """What a CPU has computed, beside the committed digests.

    Attributes:
        cpu: The CPU.
        committed: Name -> digest that it should have computed.
        kernels: Target of the kernels, as LLVM names it.
        versions: Library -> version.
        digests: Name -> digest.
        errors: Name -> exception that was raised instead.
        seconds: CPU time of the digests and errors.
        reason: Why it did not finish; empty if it did.
    """

    cpu: Cpu
    committed: Mapping[str, Digest]
    kernels: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    digests: dict[str, Digest] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    reason: str = ""

    @property
    def missing(self) -> list[str]:
        """Names of digests that are neither computed nor failed."""
        return [name for name in self.to_do if name not in self.errors]

    @property
    def to_do(self) -> list[str]:
        """Names of digests to compute, also those that failed before. Those of small images come first."""
        return sorted((name for name in self.committed if name not in self.digests), key=_side)

    @property
    def different(self) -> list[str]:
        """Descriptions of digests that differ from the committed ones."""
        return list(self._differences())

    def _differences(self) -> Iterator[str]:
        for name, committed in self.committed.items():
            if name in self.errors:
                yield f"{name} ({self.errors[name]})"
            digest = self.digests.get(name, committed)
            if changed := [part for part in Digest._fields if getattr(digest, part) != getattr(committed, part)]:
                yield f"{name} ({', '.join(changed)})"

    @property
    def equal(self) -> int:
        """Number of digests that are equal to the committed ones."""
        return len(self.committed) - len(self.missing) - len(self.different)

    def read(self, path: Path) -> "Outcome":
        """Add the lines of a file that may not exist. Incomplete lines are ignored, and failures before a success."""
        for line in path.read_text().splitlines() if path.exists() else ():
            try:
                content = json.loads(line)
            except ValueError:  # the process was stopped while it wrote
                continue
            self.seconds += content.get("seconds", 0)
            if "kernels" in content:
                self.kernels, self.versions = content["kernels"], content["versions"]
            elif "digest" in content:
                self.digests[content["name"]] = Digest(*content["digest"])
                self.errors.pop(content["name"], None)
            else:
                self.errors[content["name"]] = content["error"]
        return self


def print_line(**content: Any) -> None:
    """Print a line of a file of digests. It starts with an end of line, because the last one may be incomplete."""
    print(f"\n{json.dumps(content)}", end="", flush=True)


def file_of(folder: Path, cpu: Cpu, software: Iterable[str]) -> Path:
    """Return the file of a CPU's digests, whose name changes with the sources, the software and the CPU's settings."""
    state = hashlib.sha256(json.dumps([asdict(replace(cpu, title="")), list(software)]).encode())
    for path in source_files():
        state.update(f"{path.relative_to(ROOT)}\n{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return folder / f"{cpu.name}-{state.hexdigest()[:16]}.jsonl"


def source_files() -> list[Path]:
    """Return the files that determine the digests, in a fixed order."""
    files = (file for source in SOURCES for file in (ROOT / source, *(ROOT / source).rglob("*")))
    return sorted(file for file in files if file.suffix in SUFFIXES and file.is_file())


def exit_code(outcomes: Iterable[Outcome]) -> int:
    """Return 1 if digests differ, otherwise 3 if some are missing, otherwise 0."""
    outcomes = list(outcomes)
    return 1 if any(each.different for each in outcomes) else 3 if any(each.missing for each in outcomes) else 0


def _side(name: str) -> int:
    """Return the side of the profile in a digest's name; 0 without profile."""
    return max((PROFILE_SIDES.get(part, 0) for part in name.split("/")), default=0)
