"""The readers of indexed data sets (files, members of tars, or rows of arrays of other tools) and of mirrors.

A mirror is a folder of images under each condition, in which each file has its path in the source.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from posixpath import dirname
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import manifests
from manifests import Row
from pipeline.datasets.base import Location, payload_size
from pipeline.datasets.findings import DamagedShardError, Fault
from pipeline.datasets.paths import condition_folder
from pipeline.datasets.samples import Sample, StoredSample
from pipeline.datasets.stored import CHUNK_ROWS, Coverage, Part, Stored, texts
from pipeline.errors import SampleError, UserError
from pipeline.images.decoders import decode
from pipeline.images.encoder import Encoder
from pipeline.images.encoders import ENCODERS, Npy, npy_header
from pipeline.recipes.schema import Recipe
from pipeline.storage import READERS, Store, map_ahead
from pipeline.storage.trusted_locations import absolute
from pipeline.text import shown
from pipeline.transforms.family import Condition

PIXELS = "pixels"
"""Encoder name of samples that are raw pixels in a larger array."""

ORIGINAL = "original"
"""Encoder name of image files that are decoded like the images of a source."""


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
class Files(Stored):
    """A data set whose samples are ranges of bytes in files, which take the place of shards."""

    splits: ClassVar[bool] = True

    def check_sizes(self, parts: Iterable[Part], tars: Mapping[str, int], coverage: Coverage) -> None:
        """Compare the rows in the manifest with the sizes of the files."""
        file_sizes = _FileSizes(self.files)
        found, latest, reported = coverage.found, "", ""
        for _, part in parts:
            shards, encoders, statuses, offsets, sizes = (
                texts(part, name).to_pylist() for name in ("shard", "encoder", "status", "offset", "size")
            )
            existing = file_sizes.of(shards)
            for shard, encoder, status, offset, size in zip(shards, encoders, statuses, offsets, sizes, strict=True):
                found.shards += shard != latest
                if shard != latest:
                    coverage.add_shard(shard)
                latest = shard
                if (
                    status == manifests.OK
                    and shard != reported
                    and (what := _fault_of_file(existing.get(shard), encoder, offset, size))
                ):
                    found.fault(shard, what)
                    reported = shard

    def _chunk_of(self) -> Callable[[Sequence[Any]], tuple[str, int, Any]]:
        seen: Counter[tuple[str, int]] = Counter()

        def chunk(row: Sequence[Any]) -> tuple[str, int, int]:
            condition = (row[0], row[1])
            seen[condition] += 1
            return (*condition, (seen[condition] - 1) // CHUNK_ROWS)

        return chunk

    def read(self, shard: str, rows: Iterable[Row]) -> Iterator[tuple[Sample, Sequence[Fault]]]:
        """Yield the samples of a file; each is read from its own range of bytes."""
        if not (sound := [row for row in rows if row.status == manifests.OK]):
            return  # the file may be missing
        with self.files.open(shard) as file:
            for row in sound:
                try:
                    file.seek(row.offset or 0)
                    sample = self._sample(row, file.read(self._size(row)))
                except ValueError as error:
                    raise DamagedShardError(Fault(row.key, str(error))) from error
                yield sample, ()

    def _pick(self, row: Row) -> Sample:
        return self._sample(row, self.files.read_at(row.shard, row.offset or 0, self._size(row)))

    def _size(self, row: Row) -> int:
        """Return the number of bytes to read for a sample."""
        return payload_size(row)

    def _sample(self, row: Row, data: bytes) -> Sample:
        return indexed_sample(row, data)


@dataclass(frozen=True, kw_only=True, repr=False)
class Indexed(Files):
    """An indexed data set. Each sample is a range of bytes in a file, which takes the condition of a shard."""

    @property
    def absolute_location(self) -> Location:
        """The location with absolute paths, for processes in other folders."""
        return super().absolute_location._replace(data=absolute(self.files.root))


@dataclass(frozen=True, kw_only=True, repr=False)
class Mirror(Files):
    """A mirror of a folder of images. The file of a failed sample may be missing, or a copy of the clean one."""

    recipe: Recipe

    def tars(self) -> Mapping[str, int]:
        """Return path -> size in bytes of all files under the conditions."""
        return {
            name: size
            for condition in self.recipe.conditions()
            for name, size in self.store.listing(condition_folder(condition), "").items()
        }

    def _size(self, row: Row) -> int:
        return payload_size(row) + 1  # a longer file has another digest

    def _sample(self, row: Row, data: bytes) -> Sample:
        encoder = self.recipe.encoder.of(row.origin)
        return StoredSample(row, {encoder.suffix: data}, encoder)


class PresentFiles:
    """The files in a mirror, to find parts whose files were removed. It holds the names of one condition."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._folder, self._sizes = "", dict[str, int]()

    def has_all(self, condition: Condition, part: bytes) -> bool:
        """Return whether all files of a manifest part exist with their sizes."""
        if (folder := condition_folder(condition)) != self._folder:
            self._folder, self._sizes = folder, self._store.listing(folder, "")
        rows = pq.read_table(pa.BufferReader(part), columns=["shard", "size", "status"]).to_pylist()
        return all(self._sizes.get(row["shard"]) == row["size"] for row in rows if row["status"] == manifests.OK)


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


class _FileSizes:
    """The sizes of the files of an index. Each folder is listed once; several are listed concurrently."""

    def __init__(self, files: Store) -> None:
        self._files = files
        self._folders: dict[str, dict[str, int]] = {}

    def of(self, names: Iterable[str]) -> dict[str, int]:
        """Return name -> size in bytes of all files in the folders of these files."""
        folders = list(dict.fromkeys(map(dirname, names)))
        new = [folder for folder in folders if folder not in self._folders]
        listed = dict(zip(new, map_ahead(self._listed, new, READERS), strict=True))
        # Rows of a folder are consecutive, so earlier folders are not needed again.
        self._folders = {folder: listed.get(folder, self._folders.get(folder, {})) for folder in folders}
        return {name: size for sizes in self._folders.values() for name, size in sizes.items()}

    def _listed(self, folder: str) -> dict[str, int]:
        try:
            entries = self._files.entries(folder)
        except UserError as error:
            if not isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
                raise
            return {}
        return {
            f"{folder}/{entry.name}" if folder else entry.name: entry.size for entry in entries if not entry.is_folder
        }


def _fault_of_file(length: int | None, encoder: str, offset: int | None, size: int | None) -> str:
    """Return the fault of a file that has a payload at these bytes, or an empty string."""
    if length is None:
        return "is missing"
    if offset is None or size is None:
        return ""
    if offset + size > length:
        return f"has {length} bytes; at least {offset + size} expected from the manifest"
    if not offset and encoder != PIXELS and size != length:  # a file of its own, not a row of an array
        return f"has {length} bytes; {size} expected from the manifest"
    return ""
