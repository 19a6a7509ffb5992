"""The reader of built data sets: WebDataset tars."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import manifests
from manifests import Row
from pipeline.datasets.base import CheckedSample, DamagedShardError, DataSet, Fault, payload_size
from pipeline.datasets.content import content_digest
from pipeline.datasets.samples import Sample, StoredSample, side_members
from pipeline.images.encoders import member_suffixes
from pipeline.recipes.schema import Recipe
from pipeline.storage.tars import BLOCK, TarMember, UnsafeTarError, safe_members
from pipeline.transforms.family import Condition, Draws

MAX_DRAWN_SIDE = 8192
"""Largest side of images whose draws are computed again, in pixels."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Built(DataSet):
    """A built data set: WebDataset tars."""

    recipe: Recipe

    def content(self) -> str | None:
        """Return the digest of recipe and images, see ``content_digest``. Raise UserError like :meth:`rows`."""
        first = self.recipe.conditions()[0]
        where: manifests.Filters = {"transform": [first.transform], "level": [first.level]}
        return content_digest(self.recipe, ((row.source_id, row.label, row.source_sha256) for row in self.rows(where)))

    def read(self, shard: str, rows: Iterable[Row]) -> Iterator[CheckedSample]:
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

    def _pick(self, file: BinaryIO, row: Row) -> Sample:
        # Read from the header of the first payload member, so that the span consists of whole members.
        file.seek((row.offset or 0) - BLOCK)
        span = file.read(BLOCK + payload_size(row))
        tar = io.BytesIO(span + bytes(-len(span) % BLOCK + 2 * BLOCK))
        data = [_read_member(tar, member, row.size or 0) for member in safe_members(tar)]
        return StoredSample(row, dict(zip(self.suffixes(row), data, strict=True)), self.recipe.encoder)

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
        return member_suffixes(self.recipe.encoder, row.frames if self.family.sequences else None)

    def _checked(self, file: BinaryIO, tar: Iterator[TarMember], row: Row) -> CheckedSample:
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
        return CheckedSample(StoredSample(row, members, self.recipe.encoder), faults)


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
