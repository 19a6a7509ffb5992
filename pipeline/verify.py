"""The manifest against the tars: every digest, count, label and picture."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import manifests
from manifests import Row
from pipeline.dataset import MANIFEST_FILE, DataSet, Fault, UnsoundShardError, open_data_set
from pipeline.errors import UserError
from pipeline.families import Step
from pipeline.fingerprints import changes
from pipeline.samples import Sample, pixel_digest


@dataclass
class Findings:
    """What a verification came to. ``decoder_changed`` counts samples whose payload is intact, but which this machine
    decodes to other pixels than the building one did."""

    shards: int = 0
    samples: int = 0
    failed: int = 0
    decoder_changed: int = 0
    warnings: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def add(self, other: Findings) -> None:
        """Add the findings of another part."""
        self.shards += other.shards
        self.samples += other.samples
        self.failed += other.failed
        self.decoder_changed += other.decoder_changed
        self.faults += other.faults

    def facts(self) -> dict[str, Any]:
        """For machines."""
        numbers = {name: getattr(self, name) for name in ("shards", "samples", "failed", "decoder_changed")}
        return {**numbers, "warnings": self.warnings, "faults": [str(fault) for fault in self.faults]}

    def lines(self, verb: str = "checked") -> Iterator[str]:
        """For people: each fault, then what was looked at."""
        for fault in self.faults:
            yield f"FAULT {fault}"
        for warning in self.warnings:
            yield f"WARNING {warning}"
        if self.decoder_changed:
            yield (
                f"WARNING {self.decoder_changed:,} intact payloads decode to other pixels here than where they were "
                "built: the decoder differs, and results may too"
            )
        failed = f", {self.failed:,} recorded as failed" if self.failed else ""
        shards = f" in {self.shards:,} shards" if self.shards else ""
        yield f"{verb} {self.samples:,} samples{shards}{failed}: {len(self.faults) or 'no'} faults"


def verify(output: str, threads: int = 1, checked: Callable[[Findings], None] = lambda findings: None) -> Findings:
    """Check a finished data set without its source; ``checked`` is called after each shard.

    Raises UserError where there is no finished data set.
    """
    data_set = open_data_set(output)
    census = _Census(data_set.steps, data_set.store.listing("shards", ".tar"))
    total = Findings(warnings=list(changes(data_set.decoders)))
    with ThreadPoolExecutor(threads) as pool:
        pending: deque[Future[Findings]] = deque()
        for (shard, transform, level), group in groupby(data_set.rows(), key=_place):
            rows = list(group)
            census.see(shard, Step(transform, level), rows)
            pending.append(pool.submit(_check_shard, data_set, shard, rows))
            # Few shards wait at a time, so that memory does not grow with the data set.
            while len(pending) > 2 * threads:
                total.add(pending.popleft().result())
                checked(total)
        for check in pending:
            total.add(check.result())
            checked(total)
    total.faults += census.faults()
    return total


def _place(row: Row) -> tuple[str, str, int]:
    """Rows with the same place stand next to each other, in the manifest and in their shard."""
    return row.shard, row.transform, row.level


class _Census:
    """What must hold across shards: each step of the recipe there, over the same images with the same labels."""

    def __init__(self, steps: Sequence[Step] | None, tars: Iterable[str]) -> None:
        self._steps = steps
        self._foreign = set(tars)
        self._images: dict[Step, tuple[int, Any]] = {}
        self._ids: set[str] = set()
        self._latest: Step | None = None
        self._classes: dict[int, str] = {}
        self._found: list[Fault] = []

    def see(self, shard: str, step: Step, rows: Sequence[Row]) -> None:
        """Take note of the rows of one step in one shard."""
        self._foreign.discard(shard)
        if step != self._latest:
            if step in self._images:
                self._found.append(Fault(MANIFEST_FILE, f"has {step} in two places"))
            # Of one step at a time, so that memory does not grow with the data set.
            self._ids, self._latest = set(), step
        count, digest = self._images.get(step, (0, hashlib.sha256()))
        ids = {row.source_id for row in rows}
        if ids <= self._ids:
            self._found.append(Fault(shard, "stands in the manifest twice"))
        elif len(ids) != len(rows) or ids & self._ids:
            self._found.append(Fault(shard, "holds a key twice"))
        self._ids |= ids
        for row in rows:
            if row.key != f"{row.source_id}-{step}":
                self._found.append(Fault(row.key, f"does not belong in {shard}"))
            if self._classes.setdefault(row.label, row.class_name) != row.class_name:
                self._found.append(Fault(row.key, f"label {row.label} is of class {self._classes[row.label]}"))
            digest.update(f"{row.source_id}\n{row.label}\n{row.source_sha256}\n".encode())
        self._images[step] = (count + len(rows), digest)

    def faults(self) -> list[Fault]:
        """All that was found, once every row has been seen."""
        steps = list(self._images) if self._steps is None else self._steps
        missing = [Fault(MANIFEST_FILE, f"has no rows of {step}") for step in steps if step not in self._images]
        foreign = [Fault(MANIFEST_FILE, f"{step} is not in the recipe") for step in self._images if step not in steps]
        images = {step: (count, digest.digest()) for step, (count, digest) in self._images.items()}
        reference = next(iter(images.values()), None)
        unlike = [
            Fault(str(step), f"covers other images or labels than {next(iter(images))}")
            for step, content in images.items()
            if content != reference
        ]
        left = "is not in the manifest: left from another build, delete it"
        return self._found + missing + foreign + unlike + [Fault(name, left) for name in sorted(self._foreign)]


def _check_shard(data_set: DataSet, shard: str, rows: Sequence[Row]) -> Findings:
    """One shard against its rows."""
    found = Findings(shards=1, samples=len(rows), failed=sum(row.status == manifests.FAILED for row in rows))
    try:
        with data_set.files.open(shard) as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        if any(row.shard_sha256 != sha256 for row in rows if row.shard_sha256):
            found.faults.append(Fault(shard, f"sha256 is {sha256}, the manifest has {rows[0].shard_sha256}"))
        for finding in data_set.read(shard, rows):
            found.faults += finding.faults
            _check_payload(finding.sample, data_set.family.sequences, found)
    except UnsoundShardError as error:
        found.faults.append(error.fault)
    except FileNotFoundError:
        found.faults.append(Fault(shard, "is missing"))
    except (OSError, UserError) as error:
        found.faults.append(Fault(shard, f"cannot be read: {error}"))
    return found


def _check_payload(sample: Sample, sequence: bool, found: Findings) -> None:
    """Whether the payload is the one that was built, and what this machine decodes it to."""
    row = sample.row
    if not sample.intact:
        found.faults.append(Fault(row.key, "payload is not the one that was built: its sha256 differs"))
        return
    try:
        pixels = sample.pixels()
    except ValueError as error:
        found.faults.append(Fault(row.key, f"cannot be decoded: {error}"))
        return
    wanted = (*((row.frames,) if sequence else ()), row.height, row.width)
    if pixels.shape[:-1] != wanted:
        found.faults.append(Fault(row.key, f"is {pixels.shape[:-1]}, the manifest has {wanted}"))
    elif pixel_digest(pixels) != row.pixel_sha256:
        found.decoder_changed += 1
