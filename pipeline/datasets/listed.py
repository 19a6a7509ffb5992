"""Quick verification: compares the manifest with file names, sizes and counts, without reading payloads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from posixpath import dirname
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import manifests
from pipeline.datasets.base import MAX_CHUNKS, DataSet
from pipeline.datasets.built import Built
from pipeline.datasets.coverage import ClassNames, Coverage
from pipeline.datasets.findings import Findings
from pipeline.datasets.indexed import PIXELS
from pipeline.datasets.opening import open_data_set
from pipeline.datasets.paths import MANIFEST_FILE, SHARDS
from pipeline.datasets.rendered import Rendered
from pipeline.datasets.samples import DESCRIBED_COLUMNS
from pipeline.datasets.shards import tar_length
from pipeline.datasets.verify_rendered import verify_rendered
from pipeline.errors import UserError
from pipeline.storage import READERS, Store, thread_pool
from pipeline.transforms.family import Condition

COLUMNS = (*DESCRIBED_COLUMNS, "shard", "status", "offset", "size", "height", "width")
"""Columns of the manifest that are read. Digests are not needed."""

ROWS_TOGETHER = 8192
"""Number of rows whose strings are in memory at a time."""

Checked = Callable[[Findings], None]

Part = tuple[Condition, pa.Table]
"""Rows of one condition, as a table."""


def verify_listing(output: str, checked: Checked = lambda findings: None, data: str | None = None) -> Findings:
    """Compare the manifest of a finished data set with the listing of its files. No payload is read.

    This finds missing, extra and truncated shards, and those of any other wrong size; missing, duplicate and extra
    rows; and conditions that are not in the recipe or have other images or labels. It does not find changed bytes in a
    file of the right size, or rows with changed digests: ``verify`` reads every byte.

    Args:
        output: Path or URL of the data set.
        checked: Function called at intervals with the results so far.
        data: Path or URL of the files of an index, see ``open_data_set``.

    Returns:
        The results.

    Raises:
        UserError: The folder is not a finished data set.
    """
    data_set = open_data_set(output, data)
    if isinstance(data_set, Rendered):
        return verify_rendered(data_set, True, 1, checked)
    sizes = data_set.store.listing(SHARDS, ".tar") if isinstance(data_set, Built) else {}
    coverage = Coverage(data_set.conditions, sizes)
    parts = _checked_parts(data_set, coverage, checked)
    if isinstance(data_set, Built):
        _check_shards(data_set, _shards(parts), sizes, coverage)
    else:
        with thread_pool(READERS) as pool:
            _check_files(parts, _FileSizes(data_set.files, pool), coverage.found)
    return coverage.finish()


def _parts(data_set: DataSet) -> Iterator[Part]:
    """Yield the manifest in parts of up to ROWS_TOGETHER rows of one condition."""
    for table in data_set.tables(COLUMNS):
        for start, stop in _runs(table, "transform", "level"):
            for first in range(start, stop, ROWS_TOGETHER):
                part = table.slice(first, min(ROWS_TOGETHER, stop - first))
                yield Condition(part["transform"][0].as_py(), part["level"][0].as_py()), part


def _runs(table: pa.Table, *names: str) -> list[tuple[int, int]]:
    """Return (start, stop) of each run of consecutive rows with equal values in these columns."""
    if not table.num_rows:
        return []
    changed = np.zeros(table.num_rows - 1, bool)
    for name in names:
        codes = _codes(_values(table, name))
        changed |= codes[1:] != codes[:-1]
    bounds = [0, *(np.flatnonzero(changed) + 1).tolist(), table.num_rows]
    return list(pairwise(bounds))


def _codes(values: pa.Array) -> NDArray[np.int64]:
    """Return an integer for each value, equal for equal values."""
    encoded = values if isinstance(values, pa.DictionaryArray) else values.dictionary_encode()
    codes: NDArray[np.int64] = encoded.indices.to_numpy(zero_copy_only=False)
    return codes


def _values(table: pa.Table, name: str) -> pa.Array:
    """Return a column of a table that has one chunk."""
    return table[name].chunk(0)


def _texts(table: pa.Table, name: str) -> pa.Array:
    return manifests.decode_dictionary(_values(table, name))


def _checked_parts(data_set: DataSet, coverage: Coverage, checked: Checked) -> Iterator[Part]:
    """Yield the parts of a manifest, and check their images, labels and keys."""
    found, images = coverage.found, _Images(data_set, coverage.found)
    for condition, part in _parts(data_set):
        source_id, class_name = _texts(part, "source_id"), _texts(part, "class_name")
        label = _values(part, "label")
        coverage.add(condition, part.num_rows, _content(source_id, label.cast(pa.string()), class_name))
        images.add(condition, source_id, label, class_name)
        wrong = pc.not_equal(_texts(part, "key"), pc.binary_join_element_wise(source_id, str(condition), "-"))
        for row in part.filter(wrong).select(["key", "shard"]).to_pylist():
            found.fault(row["key"], f"does not belong in {row['shard']}")
        found.samples += part.num_rows
        found.failed += pc.sum(pc.equal(_texts(part, "status"), manifests.FAILED)).as_py()
        checked(found)
        yield condition, part


def _content(*columns: pa.Array) -> bytes:
    """Return the values of the columns as bytes, row by row, with a newline after each value."""
    lines = pc.binary_join_element_wise(*columns, "", "\n")
    _, offsets, content = lines.buffers()
    return bytes(content[: int(np.frombuffer(offsets, np.int32)[len(lines)])])


class _Images:
    """A check for duplicate images in the first condition. The coverage compares the other conditions with it."""

    def __init__(self, data_set: DataSet, found: Findings) -> None:
        self._found = found
        self._first: Condition | None = None
        self._ids: set[str] = set()
        self._class_names = ClassNames(data_set)

    def add(self, condition: Condition, source_ids: pa.Array, labels: pa.Array, class_names: pa.Array) -> None:
        """Add images of a condition."""
        self._first = self._first or condition
        if condition != self._first:
            return
        for id_, label, class_name in zip(
            *(each.to_pylist() for each in (source_ids, labels, class_names)), strict=True
        ):
            if id_ in self._ids:
                self._found.fault(f"{id_}-{condition}", "is listed twice in the manifest")
            self._ids.add(id_)
            if what := self._class_names.fault(label, class_name):
                self._found.fault(f"{id_}-{condition}", what)


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
    waiting: _Shard | None = None
    for shard in (shard for condition, part in parts for shard in _shards_of(condition, part)):
        if waiting is None:
            waiting = shard
        elif (waiting.name, waiting.condition) == (shard.name, shard.condition):
            waiting = replace(waiting, rows=waiting.rows + shard.rows, last=shard.last or waiting.last)
        else:
            yield waiting
            waiting = shard
    if waiting is not None:
        yield waiting


def _shards_of(condition: Condition, part: pa.Table) -> Iterator[_Shard]:
    is_ok = pc.equal(_texts(part, "status"), manifests.OK).to_numpy(zero_copy_only=False)
    latest = np.maximum.accumulate(np.where(is_ok, np.arange(part.num_rows), -1))
    for start, stop in _runs(part, "shard"):
        last = int(latest[stop - 1])
        columns = part.slice(last, 1).to_pylist()[0] if last >= start else None
        yield _Shard(part["shard"][start].as_py(), condition, stop - start, columns)


def _check_shards(data_set: Built, shards: Iterable[_Shard], sizes: Mapping[str, int], coverage: Coverage) -> None:
    """Compare the shards of a built data set with the files. Raise UserError if the manifest lists too many."""
    found, names, before, shard_size = coverage.found, set[str](), None, data_set.recipe.shards.size
    for shard in shards:
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
            what = f"has {before.rows} rows in the manifest; the recipe has {shard_size} in a shard"
            found.fault(before.name, what)
        if shard.rows > shard_size:
            found.fault(shard.name, f"has {shard.rows} rows in the manifest; the recipe has {shard_size} in a shard")
        if (size := sizes.get(shard.name)) is None:
            found.fault(shard.name, "is missing")
        elif (expected := shard.length(data_set)) not in (None, size):
            found.fault(shard.name, f"has {size} bytes; {expected} expected from the manifest")
        before = shard


class _FileSizes:
    """The sizes of the files of an index. Each folder is listed once; several are listed concurrently."""

    def __init__(self, files: Store, pool: ThreadPoolExecutor) -> None:
        self._files, self._pool = files, pool
        self._folders: dict[str, dict[str, int]] = {}

    def of(self, names: Iterable[str]) -> dict[str, int]:
        """Return name -> size in bytes of all files in the folders of these files."""
        folders = list(dict.fromkeys(map(dirname, names)))
        new = [folder for folder in folders if folder not in self._folders]
        listed = dict(zip(new, self._pool.map(self._listed, new), strict=True))
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


def _check_files(parts: Iterable[Part], file_sizes: _FileSizes, found: Findings) -> None:
    """Compare the rows of an index with the sizes of its files."""
    latest, reported = "", ""
    for _, part in parts:
        shards, encoders, offsets, sizes = (
            _texts(part, name).to_pylist() for name in ("shard", "encoder", "offset", "size")
        )
        existing = file_sizes.of(shards)
        for shard, encoder, offset, size in zip(shards, encoders, offsets, sizes, strict=True):
            found.shards += shard != latest
            latest = shard
            if shard != reported and (what := _fault_of_file(existing.get(shard), encoder, offset, size)):
                found.fault(shard, what)
                reported = shard


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
