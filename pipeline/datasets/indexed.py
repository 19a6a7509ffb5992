"""Data sets that others made and that were indexed: files, members of tars, rows of arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import manifests
from manifests import Row
from pipeline.datasets.base import CheckedSample, DataSet, Fault, UnsoundShardError, payload_size
from pipeline.datasets.samples import Sample
from pipeline.images.encoders import ENCODERS, Npy, npy_header
from pipeline.text import shown

PIXELS = "pixels"
"""The encoder of samples that lie as bare pixels in a larger array."""


CHUNK_ROWS = 1000
"""Of an index: what is evaluated, and committed, at one go."""


@dataclass(frozen=True, kw_only=True)
class Indexed(DataSet):
    """What others made: files, members of tars, or rows of arrays, each a range of bytes in a "shard" of theirs."""

    def _chunk_of(self) -> Callable[[Sequence[Any]], tuple[str, int, Any]]:
        seen: Counter[tuple[str, int]] = Counter()

        def chunk(row: Sequence[Any]) -> tuple[str, int, int]:
            place = (row[0], row[1])
            seen[place] += 1
            return (*place, (seen[place] - 1) // CHUNK_ROWS)

        return chunk

    def read(self, shard: str, rows: Iterable[Row]) -> Iterator[CheckedSample]:
        """Each range of bytes by itself."""
        with self.files.open(shard) as file:
            for row in rows:
                if row.status == manifests.OK:
                    try:
                        sample = self._pick(file, row)
                    except ValueError as error:
                        raise UnsoundShardError(Fault(row.key, str(error))) from error
                    yield CheckedSample(sample)

    def _pick(self, file: BinaryIO, row: Row) -> Sample:
        file.seek(row.offset or 0)
        return found_payload(row, file.read(payload_size(row)))


def found_payload(row: Row, data: bytes) -> Sample:
    """Return the sample of an indexed data set that ``data`` is; bare pixels become an array of their own."""
    if row.encoder != PIXELS:
        if row.encoder not in ENCODERS:
            allowed = ", ".join((*ENCODERS, PIXELS))
            raise ValueError(f"has the encoder {shown(row.encoder)} in the manifest; allowed: {allowed}")
        encoder = ENCODERS[row.encoder](name=row.encoder)
        return Sample(row, {encoder.suffix: data}, encoder)
    npy = Npy()
    frames = () if row.frames == 1 else (row.frames or 0,)
    return Sample(row, {npy.suffix: npy_header((*frames, row.height or 0, row.width or 0, 3)) + data}, npy)
