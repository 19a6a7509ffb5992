"""Faults of a data set, and the results of a verification."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pipeline.datasets.samples import Sample
from pipeline.text import counted, one_line

MAX_FAULTS = 1000
"""Maximum number of faults that are kept; more are only counted."""

_NUMBERS = ("shards", "samples", "failed", "decoder_changed")


@dataclass(frozen=True)
class Fault:
    """A fault of a data set. ``where`` is a file of the data set or the key of a sample."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class DamagedShardError(Exception):
    """An error for a shard that does not match its manifest, so the rest of it cannot be read. Holds the fault."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


@dataclass(kw_only=True)
class Findings:
    """The results of a verification.

    ``shards`` is the number of files with samples: tars, or the files of a mirror or an index. ``decoder_changed`` is
    the number of samples whose intact payload this machine decodes to other pixels than the building machine did.
    ``further`` is the number of faults after the first MAX_FAULTS.
    """

    shards: int = 0
    samples: int = 0
    failed: int = 0
    decoder_changed: int = 0
    warnings: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    further: int = 0

    @property
    def count(self) -> int:
        """Total number of faults."""
        return len(self.faults) + self.further

    def fault(self, where: str, what: str) -> None:
        """Add a fault. After MAX_FAULTS, only count it."""
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(Fault(where, what))
        else:
            self.further += 1

    def add(self, other: "Findings") -> None:
        """Add the results of another part."""
        for name in (*_NUMBERS, "further"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for fault in other.faults:
            self.fault(fault.where, fault.what)

    def facts(self) -> dict[str, Any]:
        """Return the results for JSON output."""
        return {
            **{name: getattr(self, name) for name in _NUMBERS},
            "warnings": self.warnings,
            "faults": [str(fault) for fault in self.faults],
            "fault_count": self.count,
        }

    def lines(self, verb: str = "checked") -> Iterator[str]:
        """Yield the results as lines of text: faults, warnings, and a summary that starts with ``verb``."""
        for fault in self.faults:
            yield one_line(f"FAULT {fault}")
        if self.further:
            yield f"FAULT ... and {self.further:,} more"
        for warning in self.warnings:
            yield f"WARNING {warning}"
        if self.decoder_changed:
            yield (
                f"WARNING {self.decoder_changed:,} intact payloads decode to other pixels on this machine than when "
                "they were built, because the image decoder differs: results may differ too"
            )
        failed = f", {self.failed:,} recorded as failed" if self.failed else ""
        files = f" in {counted(self.shards, 'file')}" if self.shards else ""
        faults = counted(self.count, "fault") if self.count else "no faults"
        yield f"{verb} {counted(self.samples, 'sample')}{files}{failed}: {faults}"


Checked = Callable[[Findings], None]
"""A function that is called at intervals with the results so far."""

CheckPayload = Callable[[Sample, Findings], None]
"""A function that adds the faults of a sample with an intact payload."""
