"""What is left to compute on a CPU, and how its digests compare with the committed ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from corruptions.catalogue import PROFILE_SIDES
from tests.emulation.cpus import Cpu
from tests.emulation.records import Record
from tests.golden.digests import Digest


@dataclass(frozen=True)
class Outcome:
    """The digests of a CPU beside the committed ones.

    Attributes:
        cpu: The CPU.
        record: What it has computed.
        committed: Name -> digest that it should have computed.
        reason: Why it did not finish; empty if it did.
    """

    cpu: Cpu
    record: Record
    committed: Mapping[str, Digest]
    reason: str = ""

    @property
    def missing(self) -> list[str]:
        """Names of digests that are not computed yet."""
        return missing(self.committed, self.record.digests.keys() | self.record.errors.keys())

    @property
    def different(self) -> list[str]:
        """Descriptions of digests that differ from the committed ones."""
        found = (describe(name, self.record, digest) for name, digest in self.committed.items())
        return [line for line in found if line]

    @property
    def equal(self) -> int:
        """Number of digests that are equal to the committed ones."""
        return len(self.committed) - len(self.missing) - len(self.different)


def missing(committed: Iterable[str], finished: Collection[str]) -> list[str]:
    """Return the names that are not finished yet, those of small images first."""
    return sorted((name for name in committed if name not in finished), key=_side)


def describe(name: str, record: Record, committed: Digest) -> str:
    """Return how a digest differs from the committed one; empty if it is equal or not computed yet."""
    if name in record.errors:
        return f"{name} ({record.errors[name]})"
    digest = record.digests.get(name, committed)
    changed = [part for part in Digest._fields if getattr(digest, part) != getattr(committed, part)]
    return f"{name} ({', '.join(changed)})" if changed else ""


def exit_code(outcomes: Iterable[Outcome]) -> int:
    """Return 1 if digests differ, otherwise 3 if some are missing, otherwise 0."""
    outcomes = list(outcomes)
    if any(outcome.different for outcome in outcomes):
        return 1
    return 3 if any(outcome.missing for outcome in outcomes) else 0


def _side(name: str) -> int:
    """Return the side of the profile in a digest's name; 0 without profile."""
    return max((PROFILE_SIDES.get(part, 0) for part in name.split("/")), default=0)
