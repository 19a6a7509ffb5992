"""Data sets that were built: WebDataset tars."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import manifests
from manifests import Row
from pipeline.datasets.base import CheckedSample, DataSet, Fault, UnsoundShardError, payload_size
from pipeline.datasets.samples import Sample, side_members, told_columns
from pipeline.images.encoders import member_suffixes
from pipeline.recipes.schema import Recipe
from pipeline.storage.tars import BLOCK, TarMember, UnsafeTarError, safe_members


@dataclass(frozen=True, kw_only=True)
class Built(DataSet):
    """What a build wrote: WebDataset tars."""

    recipe: Recipe

    def read(self, shard: str, rows: Iterable[Row]) -> Iterator[CheckedSample]:
        """Member by member: whatever is out of place ends it, since all after it would be too."""
        with self.files.open(shard) as file:
            try:
                members = safe_members(file)
                for row in rows:
                    if row.status == manifests.OK:
                        yield self._finding(file, members, row)
                if (extra := next(members, None)) is not None:
                    raise UnsoundShardError(Fault(shard, f"has {extra.name} after its last sample"))
            except UnsafeTarError as error:
                raise UnsoundShardError(Fault(shard, str(error))) from error

    def _pick(self, file: BinaryIO, row: Row) -> Sample:
        # From the header of the first payload member on: what follows are whole members, whatever the first is called.
        file.seek((row.offset or 0) - BLOCK)
        span = file.read(BLOCK + payload_size(row))
        tar = io.BytesIO(span + bytes(-len(span) % BLOCK + 2 * BLOCK))
        data = [_data(tar, member, row.size or 0) for member in safe_members(tar)]
        return Sample(row, dict(zip(self.suffixes(row), data, strict=True)), self.recipe.encoder)

    def suffixes(self, row: Row) -> tuple[str, ...]:
        """Return the suffixes of a sample's payload members."""
        return member_suffixes(self.recipe.encoder, row.frames if self.family.sequences else None)

    def _finding(self, file: BinaryIO, tar: Iterator[TarMember], row: Row) -> CheckedSample:
        faults, found, members, allowed = list[Fault](), list[TarMember](), dict[str, bytes](), row.size or 0
        for suffix in self.suffixes(row):
            found.append(_expect(tar, row, suffix))
            members[suffix] = _data(file, found[-1], allowed)
            allowed -= len(members[suffix])
        for suffix, content in side_members(told_columns(row)).items():
            if _data(file, _expect(tar, row, suffix), len(content)) != content:
                faults.append(Fault(row.key + suffix, "does not say what the manifest says"))
        offset, size = found[0].offset, found[-1].offset + found[-1].size - found[0].offset
        if (offset, size) != (row.offset, row.size):
            what = f"is {size} bytes at {offset}, the manifest has {row.size} at {row.offset}"
            faults.append(Fault(row.key, what))
        return CheckedSample(Sample(row, members, self.recipe.encoder), faults)


def _expect(tar: Iterator[TarMember], row: Row, suffix: str) -> TarMember:
    """Return the next member, which must be this one. Raises UnsoundShardError."""
    member, name = next(tar, None), row.key + suffix
    if member is None or member.name != name:
        got = "the end" if member is None else member.name
        raise UnsoundShardError(Fault(row.shard, f"has {got} where {name} belongs"))
    return member


def _data(file: BinaryIO, member: TarMember, limit: int) -> bytes:
    """Return a member's data; nothing where it is larger than it may be."""
    if member.size > limit:
        return b""
    file.seek(member.offset)
    return file.read(member.size)
