"""The manifest against the tars: every digest, count, label and picture."""

from __future__ import annotations

import hashlib
import tarfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import manifests
from manifests import Row
from pipeline.build import MANIFEST_FILE, RECIPE_FILE
from pipeline.encoders import MAX_FRAMES, decode_members, member_suffixes
from pipeline.errors import UserError
from pipeline.families import Step
from pipeline.fingerprints import changes
from pipeline.recipes import Recipe, parse
from pipeline.storage import LocalStore
from pipeline.worker import payload_digest, side_members


@dataclass(frozen=True)
class Fault:
    """One thing that is not as it should be. ``where`` is a file of the data set or a sample's key."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


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


def read_recipe(store: LocalStore) -> Recipe:
    """The recipe that a data set was built by. Raises UserError where there is none."""
    if store.size(RECIPE_FILE) < 0:
        raise UserError(f"{store.root} is no data set: it has no {RECIPE_FILE}")
    return parse(store.path(RECIPE_FILE).read_text(), str(store.path(RECIPE_FILE)))


def read_manifest(store: LocalStore) -> Iterator[Row]:
    """The rows of the merged manifest. Raises UserError where the build is not finished or the file is damaged."""
    if store.size(MANIFEST_FILE) < 0:
        raise UserError(f"{store.root} has no {MANIFEST_FILE}: it is not finished; run the same build command again")
    try:
        yield from manifests.read_rows(store.path(MANIFEST_FILE))
    except ValueError as error:
        raise UserError(f"the manifest cannot be read: {error}") from error


def verify(output: str, threads: int = 1, checked: Callable[[Findings], None] = lambda findings: None) -> Findings:
    """Check a finished data set without its source; ``checked`` is called after each shard.

    Raises UserError where there is no finished data set.
    """
    store = LocalStore(output)
    recipe = read_recipe(store)
    census, total = _Census(recipe), Findings(warnings=list(changes(recipe.decoders)))
    with ThreadPoolExecutor(threads) as pool:
        pending: deque[Future[Findings]] = deque()
        for shard, group in groupby(read_manifest(store), key=lambda row: row.shard):
            rows = list(group)
            census.see(shard, rows)
            pending.append(pool.submit(_check_shard, store, shard, rows, recipe))
            # Few shards wait at a time, so that memory does not grow with the data set.
            while len(pending) > 2 * threads:
                total.add(pending.popleft().result())
                checked(total)
        for check in pending:
            total.add(check.result())
            checked(total)
    total.faults += census.faults()
    total.faults += [
        Fault(name, "is not in the manifest: left from another build, delete it")
        for name in store.names("shards", ".tar")
        if name not in census.shards
    ]
    return total


class _Census:
    """What must hold across shards: each step of the recipe there, over the same images with the same labels."""

    def __init__(self, recipe: Recipe) -> None:
        self.shards: set[str] = set()
        self._recipe = recipe
        self._images: dict[Step, list[str]] = {}
        self._classes: dict[int, str] = {}
        self._found: list[Fault] = []

    def see(self, shard: str, rows: Sequence[Row]) -> None:
        """Take note of the rows of one shard."""
        if shard in self.shards:
            self._found.append(Fault(shard, "stands in the manifest twice"))
        self.shards.add(shard)
        step = Step(rows[0].transform, rows[0].level)
        digest, ids = hashlib.sha256(), set()
        for row in rows:
            if (row.transform, row.level) != (step.transform, step.level) or row.key != f"{row.source_id}-{step}":
                self._found.append(Fault(row.key, f"does not belong in {shard}"))
            if self._classes.setdefault(row.label, row.class_name) != row.class_name:
                self._found.append(Fault(row.key, f"label {row.label} is of class {self._classes[row.label]}"))
            ids.add(row.source_id)
            digest.update(f"{row.source_id}\n{row.label}\n{row.source_sha256}\n".encode())
        if len(ids) != len(rows):
            self._found.append(Fault(shard, "holds a key twice"))
        self._images.setdefault(step, []).append(f"{len(rows)} images, digest {digest.hexdigest()[:12]}")

    def faults(self) -> list[Fault]:
        """All that was found, once every row has been seen."""
        steps = self._recipe.steps()
        missing = [Fault(MANIFEST_FILE, f"has no rows of {step}") for step in steps if step not in self._images]
        foreign = [Fault(MANIFEST_FILE, f"{step} is not in the recipe") for step in self._images if step not in steps]
        reference = next(iter(self._images.values()), [])
        unlike = [
            Fault(str(step), f"covers other images or labels than {next(iter(self._images))}")
            for step, images in self._images.items()
            if images != reference
        ]
        return self._found + missing + foreign + unlike


def _check_shard(store: LocalStore, shard: str, rows: Sequence[Row], recipe: Recipe) -> Findings:
    """One tar against its rows."""
    found = Findings(shards=1, samples=len(rows), failed=sum(row.status == manifests.FAILED for row in rows))
    try:
        with open(store.path(shard), "rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            if any(row.shard_sha256 != sha256 for row in rows):
                found.faults.append(Fault(shard, f"sha256 is {sha256}, the manifest has {rows[0].shard_sha256}"))
            file.seek(0)
            with tarfile.open(fileobj=file, mode="r:") as tar:
                _check_members(tar, shard, [row for row in rows if row.status == manifests.OK], recipe, found)
    except FileNotFoundError:
        found.faults.append(Fault(shard, "is missing"))
    except (OSError, tarfile.TarError, UserError) as error:
        found.faults.append(Fault(shard, f"cannot be read: {error}"))
    return found


def _check_members(tar: tarfile.TarFile, shard: str, rows: Sequence[Row], recipe: Recipe, found: Findings) -> None:
    """Member by member in order; the first that is out of place ends the check, since all after it would be too."""
    for row in rows:
        if not 1 <= (row.frames or 0) <= MAX_FRAMES:
            found.faults.append(Fault(row.key, f"has {row.frames} frames in the manifest; 1 to {MAX_FRAMES} can be"))
            return
        payload: list[tuple[tarfile.TarInfo, bytes]] = []
        suffixes = member_suffixes(recipe.encoder, row.frames if recipe.family.sequences else None)
        sides = side_members(row)
        for suffix in (*suffixes, *sides):
            member = tar.next()
            name = row.key + suffix
            if member is None or member.name != name or not member.isreg():
                got = "the end" if member is None else member.name
                found.faults.append(Fault(shard, f"has {got} where {name} belongs"))
                return
            if suffix not in sides:
                payload.append((member, _read(tar, member, row.size or 0)))
            elif _read(tar, member, len(sides[suffix])) != sides[suffix]:
                found.faults.append(Fault(name, "does not say what the manifest says"))
        if fault := _check_place(row, payload[0][0], payload[-1][0]):
            found.faults.append(fault)
        else:
            _check_payload(row, dict(zip(suffixes, (data for _, data in payload), strict=True)), recipe, found)
    if (extra := tar.next()) is not None:
        found.faults.append(Fault(shard, f"has {extra.name} after its last sample"))


def _read(tar: tarfile.TarFile, member: tarfile.TarInfo, limit: int) -> bytes:
    """A member's data; nothing where it is larger than it may be."""
    file = tar.extractfile(member)
    return file.read() if file and member.size <= limit else b""


def _check_place(row: Row, first: tarfile.TarInfo, last: tarfile.TarInfo) -> Fault | None:
    """Whether the payload lies where the manifest says."""
    offset, size = first.offset_data, last.offset_data + last.size - first.offset_data
    if (offset, size) == (row.offset, row.size):
        return None
    return Fault(row.key, f"is {size} bytes at {offset}, the manifest has {row.size} at {row.offset}")


def _check_payload(row: Row, members: Mapping[str, bytes], recipe: Recipe, found: Findings) -> None:
    """Whether the payload is the one that was built, and what this machine decodes it to."""
    if payload_digest(members.values()) != row.payload_sha256:
        found.faults.append(Fault(row.key, "payload is not the one that was built: its sha256 differs"))
        return
    try:
        pixels = decode_members(recipe.encoder, members)
    except ValueError as error:
        found.faults.append(Fault(row.key, f"cannot be decoded: {error}"))
        return
    frames = (row.frames,) if recipe.family.sequences else ()
    if pixels.shape[:-1] != (*frames, row.height, row.width):
        wanted = (*frames, row.height, row.width)
        found.faults.append(Fault(row.key, f"is {pixels.shape[:-1]}, the manifest has {wanted}"))
    elif hashlib.sha256(pixels.data).hexdigest() != row.pixel_sha256:
        found.decoder_changed += 1
