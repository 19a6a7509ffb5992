"""What a verification has found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pipeline.datasets.base import Fault

MAX_FAULTS = 1000
"""Faults that are kept; further ones are counted."""


@dataclass(kw_only=True)
class Findings:
    """What a verification came to. ``decoder_changed`` counts samples whose payload is intact, but which this machine
    decodes to other pixels than the building one did; ``further`` counts faults beyond those that are kept."""

    shards: int = 0
    samples: int = 0
    failed: int = 0
    decoder_changed: int = 0
    warnings: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    further: int = 0

    @property
    def count(self) -> int:
        """The number of all faults, of which the first are kept."""
        return len(self.faults) + self.further

    def fault(self, where: str, what: str) -> None:
        """Take note of a fault; beyond MAX_FAULTS they are only counted."""
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(Fault(where, what))
        else:
            self.further += 1

    def add(self, other: Findings) -> None:
        """Add the findings of another part."""
        self.shards += other.shards
        self.samples += other.samples
        self.failed += other.failed
        self.decoder_changed += other.decoder_changed
        self.further += other.further
        for fault in other.faults:
            self.fault(fault.where, fault.what)

    def facts(self) -> dict[str, Any]:
        """For machines."""
        numbers = {name: getattr(self, name) for name in ("shards", "samples", "failed", "decoder_changed")}
        return {
            **numbers,
            "warnings": self.warnings,
            "faults": [str(fault) for fault in self.faults],
            "fault_count": self.count,
        }

    def lines(self, verb: str = "checked") -> Iterator[str]:
        """For people: each fault, then what was looked at."""
        for fault in self.faults:
            yield f"FAULT {fault}"
        if self.further:
            yield f"FAULT ... and {self.further:,} more"
        for warning in self.warnings:
            yield f"WARNING {warning}"
        if self.decoder_changed:
            yield (
                f"WARNING {self.decoder_changed:,} intact payloads decode to other pixels here than where they were "
                "built: the decoder differs, and results may too"
            )
        failed = f", {self.failed:,} recorded as failed" if self.failed else ""
        shards = f" in {self.shards:,} shards" if self.shards else ""
        yield f"{verb} {self.samples:,} samples{shards}{failed}: {f'{self.count:,}' if self.count else 'no'} faults"
