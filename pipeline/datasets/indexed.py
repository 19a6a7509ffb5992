"""The reader of indexed data sets: files, members of tars, or rows of arrays of other tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

import manifests
from manifests import Row
from pipeline.datasets.base import CheckedSample, DamagedShardError, DataSet, Fault, Location, payload_size
from pipeline.datasets.samples import Sample, StoredSample
from pipeline.errors import SampleError
from pipeline.images.decoders import decode
from pipeline.images.encoders import ENCODERS, Encoder, Npy, npy_header
from pipeline.storage.trusted_locations import absolute
from pipeline.text import shown

PIXELS = "pixels"
"""Encoder name of samples that are raw pixels in a larger array."""

ORIGINAL = "original"
"""Encoder name of image files that are decoded like the images of a source."""

CHUNK_ROWS = 1000
"""Number of rows in a chunk of an index."""


class Original(Encoder):
    """An image file of any format that sources read, and with its suffix. Only data sets with a task have these."""

    name: Literal["original"] = "original"
    suffix = ""
    whole_sequence = True

    def decode(self, data: bytes) -> NDArray[np.uint8]:
        """Return the pixels of the image as sources read it."""
        try:
            return decode(data)
        except SampleError as error:
            raise ValueError(str(error)) from error


@dataclass(frozen=True, kw_only=True, repr=False)
class Indexed(DataSet):
    """An indexed data set. Each sample is a range of bytes in a file, which takes the condition of a shard."""

    @property
    def absolute_location(self) -> Location:
        """The location with absolute paths, for processes in other folders."""
        return super().absolute_location._replace(data=absolute(self.files.root))

    def _chunk_of(self) -> Callable[[Sequence[Any]], tuple[str, int, Any]]:
        seen: Counter[tuple[str, int]] = Counter()

        def chunk(row: Sequence[Any]) -> tuple[str, int, int]:
            condition = (row[0], row[1])
            seen[condition] += 1
            return (*condition, (seen[condition] - 1) // CHUNK_ROWS)

        return chunk

    def read(self, shard: str, rows: Iterable[Row]) -> Iterator[CheckedSample]:
        """Yield the samples of a file; each is read from its own range of bytes."""
        with self.files.open(shard) as file:
            for row in rows:
                if row.status == manifests.OK:
                    try:
                        sample = self._pick(file, row)
                    except ValueError as error:
                        raise DamagedShardError(Fault(row.key, str(error))) from error
                    yield CheckedSample(sample)

    def _pick(self, file: BinaryIO, row: Row) -> Sample:
        file.seek(row.offset or 0)
        return indexed_sample(row, file.read(payload_size(row)))


_FILES: Mapping[str, type[Encoder]] = {**ENCODERS, ORIGINAL: Original}
"""Encoders of samples that are files of their own or members of tars, by name."""


def indexed_sample(row: Row, data: bytes) -> Sample:
    """Return the sample with the payload ``data``. Raw pixels get the header of an array file."""
    if row.encoder != PIXELS:
        if row.encoder not in _FILES:
            allowed = ", ".join((*_FILES, PIXELS))
            raise ValueError(f"has the unknown encoder {shown(row.encoder)} in the manifest; allowed: {allowed}")
        encoder = _FILES[row.encoder](name=row.encoder)
        return StoredSample(row, {encoder.suffix: data}, encoder)
    npy = Npy()
    frames = () if row.frames == 1 else (row.frames or 0,)
    return StoredSample(row, {npy.suffix: npy_header((*frames, row.height or 0, row.width or 0, 3)) + data}, npy)
