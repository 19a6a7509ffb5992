"""The manifest against the tars: every digest, count, label and picture."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Any

import manifests
from manifests import Row
from pipeline.datasets.base import DataSet, Fault, UnsoundShardError
from pipeline.datasets.built import Built
from pipeline.datasets.indexed import CHUNK_ROWS
from pipeline.datasets.opening import open_data_set
from pipeline.datasets.paths import MANIFEST_FILE
from pipeline.datasets.samples import Sample, pixel_digest
from pipeline.errors import UserError, shown
from pipeline.images.fingerprints import changes
from pipeline.recipes.schema import MAX_SHARD_SIZE
from pipeline.transforms.family import Condition

MAX_FAULTS = 1000
"""Faults that are kept; further ones are counted."""

MAX_STEPS = 10_000
"""Transforms and levels of one data set."""


@dataclass
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


def verify(
    output: str,
    threads: int = 1,
    checked: Callable[[Findings], None] = lambda findings: None,
    data: str | None = None,
) -> Findings:
    """Check a finished data set without its source.

    Args:
        output: Path or URL of the data set.
        threads: Shards that are checked at one time.
        checked: Called after each shard with what was found so far.
        data: Path or URL of the files of an index, as of ``open_data_set``.

    Raises:
        UserError: There is no finished data set.
    """
    data_set = open_data_set(output, data)
    tars = data_set.store.listing("shards", ".tar") if isinstance(data_set, Built) else ()
    census = _Census(data_set.conditions, tars)
    total = Findings(warnings=list(changes(data_set.decoders)))
    with ThreadPoolExecutor(threads) as pool:
        pending: deque[Future[Findings]] = deque()
        for piece in _pieces(data_set):
            census.see(piece.shard, piece.condition, piece.rows)
            pending.append(pool.submit(_check_piece, data_set, piece))
            # Few shards wait at a time, so that memory does not grow with the data set.
            while len(pending) > 2 * threads:
                total.add(pending.popleft().result())
                checked(total)
        for check in pending:
            total.add(check.result())
            checked(total)
    total.add(census.findings())
    return total


@dataclass(frozen=True)
class _Piece:
    """Rows of one step in one shard, whose digest by the first of all such rows is ``sha256``."""

    shard: str
    condition: Condition
    rows: Sequence[Row]
    sha256: str
    is_first: bool


def _pieces(data_set: DataSet) -> Iterator[_Piece]:
    """The manifest, a shard of a built data set at a time; arrays of others hold any number of rows, and are cut."""
    most = MAX_SHARD_SIZE if isinstance(data_set, Built) else CHUNK_ROWS
    for (shard, transform, level), group in groupby(data_set.rows(), key=_place):
        sha256 = None
        while rows := list(islice(group, most)):
            if sha256 is not None and isinstance(data_set, Built):
                raise UserError(f"{MANIFEST_FILE} has more than {most} rows of {shown(shard)}: it is damaged")
            is_first, sha256 = sha256 is None, sha256 or rows[0].shard_sha256
            yield _Piece(shard, Condition(transform, level), rows, sha256, is_first)


def _place(row: Row) -> tuple[str, str, int]:
    """Rows with the same place stand next to each other, in the manifest and in their shard."""
    return row.shard, row.transform, row.level


class _Census:
    """What must hold across shards: each step of the recipe there, over the same images with the same labels."""

    def __init__(self, conditions: Sequence[Condition] | None, tars: Iterable[str]) -> None:
        self._steps = conditions
        self._foreign = set(tars)
        self._images: dict[Condition, tuple[int, Any]] = {}
        self._ids: set[str] = set()
        self._latest: Condition | None = None
        self._classes: dict[int, str] = {}
        self._found = Findings()

    def see(self, shard: str, condition: Condition, rows: Sequence[Row]) -> None:
        """Take note of the rows of one step in one shard."""
        self._foreign.discard(shard)
        if condition != self._latest:
            if len(self._images) == MAX_STEPS:
                raise UserError(f"{MANIFEST_FILE} has more than {MAX_STEPS} transforms and levels: it is damaged")
            if condition in self._images:
                self._found.fault(MANIFEST_FILE, f"has {condition} in two places")
            # Of one step at a time, so that memory does not grow with the data set.
            self._ids, self._latest = set(), condition
        count, digest = self._images.get(condition, (0, hashlib.sha256()))
        ids = {row.source_id for row in rows}
        if ids <= self._ids:
            self._found.fault(shard, "stands in the manifest twice")
        elif len(ids) != len(rows) or ids & self._ids:
            self._found.fault(shard, "holds a key twice")
        self._ids |= ids
        for row in rows:
            if row.key != f"{row.source_id}-{condition}":
                self._found.fault(row.key, f"does not belong in {shard}")
            if self._classes.setdefault(row.label, row.class_name) != row.class_name:
                self._found.fault(row.key, f"label {row.label} is of class {self._classes[row.label]}")
            digest.update(f"{row.source_id}\n{row.label}\n{row.source_sha256}\n".encode())
        self._images[condition] = (count + len(rows), digest)

    def findings(self) -> Findings:
        """All that was found, once every row has been seen."""
        conditions = list(self._images) if self._steps is None else self._steps
        images = {condition: (count, digest.digest()) for condition, (count, digest) in self._images.items()}
        reference = next(iter(images.values()), None)
        for condition in (condition for condition in conditions if condition not in images):
            self._found.fault(MANIFEST_FILE, f"has no rows of {condition}")
        for condition in (condition for condition in images if condition not in conditions):
            self._found.fault(MANIFEST_FILE, f"{condition} is not in the recipe")
        for condition in (condition for condition, content in images.items() if content != reference):
            self._found.fault(str(condition), f"covers other images or labels than {next(iter(images))}")
        for name in sorted(self._foreign):
            self._found.fault(name, "is not in the manifest: left from another build, delete it")
        return self._found


def _check_piece(data_set: DataSet, piece: _Piece) -> Findings:
    """Some rows of one shard against it."""
    shard, rows = piece.shard, piece.rows
    failed = sum(row.status == manifests.FAILED for row in rows)
    found = Findings(shards=int(piece.is_first), samples=len(rows), failed=failed)
    try:
        _check_digest(data_set, piece, found)
        for finding in data_set.read(shard, rows):
            for fault in finding.faults:
                found.fault(fault.where, fault.what)
            _check_payload(finding.sample, data_set.family.sequences, found)
    except UnsoundShardError as error:
        found.fault(error.fault.where, error.fault.what)
    except FileNotFoundError:
        found.fault(shard, "is missing")
    except OSError as error:
        found.fault(shard, f"cannot be read: {error.strerror or error}")
    except UserError as error:
        found.fault(shard, f"cannot be read: {error}")
    return found


def _check_digest(data_set: DataSet, piece: _Piece, found: Findings) -> None:
    """Whether the rows have the digest of the shard, which is read once."""
    sha256 = piece.sha256
    if piece.is_first:
        with data_set.files.open(piece.shard) as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    wrong = next((row.shard_sha256 for row in piece.rows if row.shard_sha256 not in ("", sha256)), None)
    if wrong is not None:
        found.fault(piece.shard, f"sha256 is {sha256}, the manifest has {wrong}")


def _check_payload(sample: Sample, sequence: bool, found: Findings) -> None:
    """Whether the payload is the one that was built, and what this machine decodes it to."""
    row = sample.row
    if not sample.intact:
        found.fault(row.key, "payload is not the one that was built: its sha256 differs")
        return
    try:
        pixels = sample.pixels()
    except ValueError as error:
        found.fault(row.key, f"cannot be decoded: {error}")
        return
    wanted = (*((row.frames,) if sequence else ()), row.height, row.width)
    if pixels.shape[:-1] != wanted:
        found.fault(row.key, f"is {pixels.shape[:-1]}, the manifest has {wanted}")
    elif pixel_digest(pixels) != row.pixel_sha256:
        if sample.encoder.bare:
            found.fault(row.key, "is intact, but its pixels are not those that the manifest tells of")
        else:
            found.decoder_changed += 1
