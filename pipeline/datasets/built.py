"""The reader of built data sets: WebDataset tars."""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, BinaryIO, ClassVar

import numpy as np
import pyarrow.compute as pc

import manifests
from manifests import Row
from pipeline.datasets.base import MAX_CHUNKS, payload_size
from pipeline.datasets.content import content_digest
from pipeline.datasets.findings import DamagedShardError, Fault
from pipeline.datasets.paths import MANIFEST_FILE, SHARDS
from pipeline.datasets.samples import Sample, StoredSample, side_members
from pipeline.datasets.shards import tar_length
from pipeline.datasets.stored import Coverage, Part, Stored, runs, texts
from pipeline.errors import UserError
from pipeline.images.encoders import member_suffixes
from pipeline.recipes.schema import Recipe
from pipeline.storage.tars import BLOCK, TarMember, UnsafeTarError, safe_members
from pipeline.transforms.family import Condition, Draws

MAX_DRAWN_SIDE = 8192
"""Largest side of images whose draws are computed again, in pixels."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Built(Stored):
    """A built data set: WebDataset tars."""

    splits: ClassVar[bool] = False

    recipe: Recipe

    def tars(self) -> Mapping[str, int]:
        """Return path -> size in bytes of the tars in the folder."""
        return dict(self.store.listing(SHARDS, ".tar"))

    def check_sizes(self, parts: Iterable[Part], tars: Mapping[str, int], coverage: Coverage) -> None:
        """Compare the shards in the manifest with the tars. Raise UserError if there are too many."""
        found, names, before, shard_size = coverage.found, set[str](), None, self.recipe.shards.size
        rows = f"has {{}} rows in the manifest; the recipe has {shard_size} in a shard".format
        for shard in _shards(parts):
            if len(names) == MAX_CHUNKS:
                raise UserError(
                    f"{MANIFEST_FILE} lists more than {MAX_CHUNKS} shards: it is damaged; copy or download it again"
                )
            if shard.name in names:
                found.fault(shard.name, "is listed twice in the manifest")
            names.add(shard.name)
            coverage.add_shard(shard.name)
            found.shards += 1
            if before and before.condition == shard.condition and before.rows < shard_size:
                found.fault(before.name, rows(before.rows))
            if shard.rows > shard_size:
                found.fault(shard.name, rows(shard.rows))
            if (size := tars.get(shard.name)) is None:
                found.fault(shard.name, "is missing")
            elif (expected := shard.length(self)) not in (None, size):
                found.fault(shard.name, f"has {size} bytes; {expected} expected from the manifest")
            before = shard

    def content(self) -> str | None:
        """Return the digest of recipe and images, see ``content_digest``. Raise UserError like :meth:`rows`."""
        first = self.recipe.conditions()[0]
        where: manifests.Filters = {"transform": [first.transform], "level": [first.level]}
        return content_digest(self.recipe, ((row.source_id, row.label, row.source_sha256) for row in self.rows(where)))

    def read(self, shard: str, rows: Iterable[Row]) -> Iterator[tuple[Sample, Sequence[Fault]]]:
        """Yield the samples of a shard. Raise DamagedShardError at the first member that is out of place."""
        with self.files.open(shard) as file:
            try:
                members = safe_members(file)
                for row in rows:
                    if row.status == manifests.OK:
                        yield self._checked(file, members, row)
                if (extra := next(members, None)) is not None:
                    raise DamagedShardError(Fault(shard, f"has an extra member {extra.name} after its last sample"))
            except UnsafeTarError as error:
                raise DamagedShardError(Fault(shard, str(error))) from error

    def _pick(self, row: Row) -> Sample:
        suffixes, offset, size = self.suffixes(row), row.offset or 0, payload_size(row)
        if len(suffixes) == 1:
            data = [self.files.read_at(row.shard, offset, size)]
        else:  # read from the header of the first payload member, so that the span consists of whole members
            span = self.files.read_at(row.shard, offset - BLOCK, BLOCK + size)
            tar = io.BytesIO(span + bytes(-len(span) % BLOCK + 2 * BLOCK))
            data = [_read_member(tar, member, size) for member in safe_members(tar)]
        return self._sample(row, dict(zip(suffixes, data, strict=True)))

    def _sample(self, row: Row, members: Mapping[str, bytes]) -> Sample:
        return StoredSample(row, members, self.recipe.encoder.of(row.origin))

    def draws(self, columns: Mapping[str, Any]) -> Draws | None:
        """Return what was drawn for a sample, computed from its row and the seed of the recipe."""
        condition = Condition(columns["transform"], columns["level"])
        height, width = columns["height"] or 0, columns["width"] or 0
        if self.family.draws is None or max(height, width) > MAX_DRAWN_SIDE:
            return None
        try:
            is_current = columns["version"] == self.family.version(condition.transform)
            return self.recipe.draws(condition, columns["source_id"], height, width) if is_current else None
        except ValueError:  # the row is damaged
            return None

    def side_members(self, columns: Mapping[str, Any]) -> dict[str, bytes | None]:
        """Return the members that follow the payload of a sample. The content of a ``.json`` is None if it is unknown.

        Args:
            columns: Columns of its row that :meth:`draws` and ``DESCRIBED_COLUMNS`` need.
        """
        draws = self.draws(columns)
        members: Mapping[str, bytes | None] = side_members(columns, draws)
        return {**members, **({".json": None} if draws is None and self.family.draws else {})}

    def suffixes(self, row: Row) -> tuple[str, ...]:
        """Return the suffixes of a sample's payload members."""
        return member_suffixes(self.recipe.encoder.of(row.origin), row.frames if self.family.sequences else None)

    def _checked(self, file: BinaryIO, tar: Iterator[TarMember], row: Row) -> tuple[Sample, Sequence[Fault]]:
        faults, payloads, members, remaining = list[Fault](), list[TarMember](), dict[str, bytes](), row.size or 0
        for suffix in self.suffixes(row):
            payloads.append(_expect(tar, row, suffix))
            members[suffix] = _read_member(file, payloads[-1], remaining)
            remaining -= len(members[suffix])
        for suffix, content in self.side_members(row._asdict()).items():
            member = _expect(tar, row, suffix)
            if content is not None and _read_member(file, member, len(content)) != content:
                faults.append(Fault(row.key + suffix, "does not match the manifest"))
        offset, size = payloads[0].offset, payloads[-1].offset + payloads[-1].size - payloads[0].offset
        if (offset, size) != (row.offset, row.size):
            what = f"has {size} bytes at offset {offset}; the manifest has {row.size} at {row.offset}"
            faults.append(Fault(row.key, what))
        return self._sample(row, members), faults


def _expect(tar: Iterator[TarMember], row: Row, suffix: str) -> TarMember:
    """Return the next member. Raise DamagedShardError if it is not the expected one."""
    member, name = next(tar, None), row.key + suffix
    if member is None or member.name != name:
        actual = "no member" if member is None else member.name
        raise DamagedShardError(Fault(row.shard, f"has {actual} instead of {name}"))
    return member


def _read_member(file: BinaryIO, member: TarMember, limit: int) -> bytes:
    """Return the data of a member, or b"" if it is larger than ``limit`` bytes."""
    if member.size > limit:
        return b""
    file.seek(member.offset)
    return file.read(member.size)


@dataclass(frozen=True)
class _Shard:
    """A built shard according to the manifest. ``last`` has the columns of its last sample, or None if all failed."""

    name: str
    condition: Condition
    rows: int
    last: Mapping[str, Any] | None

    def length(self, data_set: Built) -> int | None:
        """Return the expected size of the tar in bytes: the end of the last sample, plus the end of a tar.

        It is None if the size of the last sample's description is unknown.
        """
        if self.last is None:
            return tar_length(0, {})
        sides = data_set.side_members(self.last)
        known = {f"{self.last['key']}{suffix}": data for suffix, data in sides.items() if data is not None}
        return tar_length(self.last["offset"] + self.last["size"], known) if len(known) == len(sides) else None


def _shards(parts: Iterable[Part]) -> Iterator[_Shard]:
    """Yield the shards of a built data set in manifest order."""
    pieces = (
        (part["shard"][start].as_py(), condition, part.slice(start, stop - start))
        for condition, part in parts
        for start, stop in runs(part, "shard")
    )
    for (name, condition), group in groupby(pieces, key=itemgetter(0, 1)):
        rows, last = 0, None
        for _, _, piece in group:
            rows += piece.num_rows
            oks = np.flatnonzero(pc.equal(texts(piece, "status"), manifests.OK).to_numpy(zero_copy_only=False))
            last = piece.slice(int(oks[-1]), 1).to_pylist()[0] if len(oks) else last
        yield _Shard(name, condition, rows, last)
