"""Data sets whose samples are stored in files, and their verification.

A quick verification compares the columns of the manifest with each other, and with the names and sizes of the files. A
full one reads every file instead, and compares every payload and digest too.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import groupby, islice, pairwise
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import manifests
from manifests import Row
from pipeline.datasets.base import DataSet, escaped_ids
from pipeline.datasets.coverage import ClassNames, Coverage
from pipeline.datasets.findings import Checked, CheckPayload, DamagedShardError, Findings
from pipeline.datasets.paths import MANIFEST_FILE
from pipeline.datasets.samples import DESCRIBED_COLUMNS, Sample, pixel_digest
from pipeline.errors import UserError
from pipeline.images.fingerprints import changes
from pipeline.storage import thread_pool
from pipeline.text import shown
from pipeline.transforms.family import Condition

COLUMNS = (*DESCRIBED_COLUMNS, "shard", "status", "offset", "size", "height", "width")
"""Columns of the manifest that are read. Digests are not needed."""

ROWS_TOGETHER = 8192
"""Number of rows whose strings are in memory at a time."""

Part = tuple[Condition, pa.Table]
"""Rows of one condition, as a table."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Stored(DataSet):
    """A data set whose samples are stored in files.

    Attributes:
        most_rows: Largest number of rows of a shard that are read together.
        splits: Whether a shard may have more rows.
        stores_failed: Whether shards exist even if all of their samples failed.
    """

    most_rows: ClassVar[int]
    splits: ClassVar[bool]
    stores_failed: ClassVar[bool] = True

    def tars(self) -> Mapping[str, int]:
        """Return path -> size in bytes of the tars in the folder, all of which the manifest must list."""
        return {}

    def check_sizes(self, parts: Iterable[Part], tars: Mapping[str, int], coverage: Coverage) -> None:
        """Compare the manifest, in parts, with the sizes of the files."""
        raise NotImplementedError

    def verify(
        self, threads: int = 1, checked: Checked = lambda found: None, further: CheckPayload | None = None
    ) -> Findings:
        """Compare every byte with the manifest."""
        coverage = Coverage(self.conditions, self.tars())
        deque(_checked_parts(self, coverage, lambda found: None, ("source_sha256",)), maxlen=0)
        total = Findings(warnings=list(changes(self.decoders, self.resizers)))
        with thread_pool(threads) as pool:
            pending: deque[Future[Findings]] = deque()
            for chunk in _shard_chunks(self):
                coverage.add_shard(chunk.shard)
                pending.append(pool.submit(_check_chunk, self, chunk, further))
                # Limit the number of pending shards, so that memory does not grow with the data set.
                while len(pending) > 2 * threads:
                    total.add(pending.popleft().result())
                    checked(total)
            for check in pending:
                total.add(check.result())
                checked(total)
        total.add(replace(coverage.finish(), samples=0, failed=0))
        return total

    def verify_listing(self, checked: Checked = lambda found: None) -> Findings:
        """Compare the manifest with the names and sizes of the files. No payload is read.

        This finds missing, extra and truncated shards, and those of any other wrong size; missing, duplicate and extra
        rows; and conditions that are not in the recipe or have other images or labels. It does not find changed bytes
        in a file of the right size, or rows with changed digests.
        """
        tars = self.tars()
        coverage = Coverage(self.conditions, tars)
        self.check_sizes(_checked_parts(self, coverage, checked), tars, coverage)
        return coverage.finish()


def _parts(data_set: DataSet, columns: Sequence[str]) -> Iterator[Part]:
    """Yield the manifest in parts of up to ROWS_TOGETHER rows of one condition."""
    for table in data_set.tables(columns):
        for start, stop in runs(table, "transform", "level"):
            for first in range(start, stop, ROWS_TOGETHER):
                part = table.slice(first, min(ROWS_TOGETHER, stop - first))
                yield Condition(part["transform"][0].as_py(), part["level"][0].as_py()), part


def runs(table: pa.Table, *names: str) -> list[tuple[int, int]]:
    """Return (start, stop) of each run of consecutive rows with equal values in these columns."""
    if not table.num_rows:
        return []
    changed = np.zeros(table.num_rows - 1, bool)
    for name in names:
        codes = _codes(values(table, name))
        changed |= codes[1:] != codes[:-1]
    bounds = [0, *(np.flatnonzero(changed) + 1).tolist(), table.num_rows]
    return list(pairwise(bounds))


def _codes(values: pa.Array) -> NDArray[np.int64]:
    """Return an integer for each value, equal for equal values."""
    encoded = values if isinstance(values, pa.DictionaryArray) else values.dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False)


def values(table: pa.Table, name: str) -> pa.Array:
    """Return a column of a table that has one chunk."""
    return table[name].chunk(0)


def texts(table: pa.Table, name: str) -> pa.Array:
    """Return a column of strings of a table that has one chunk."""
    return manifests.decode_dictionary(values(table, name))


def _checked_parts(
    data_set: DataSet, coverage: Coverage, checked: Checked, digests: tuple[str, ...] = ()
) -> Iterator[Part]:
    """Yield the parts of a manifest, and check their images, labels, keys and the columns ``digests``."""
    found, images = coverage.found, _Images(data_set, coverage.found)
    for condition, part in _parts(data_set, (*COLUMNS, *digests)):
        source_id, class_name = texts(part, "source_id"), texts(part, "class_name")
        label = values(part, "label")
        others = (pc.fill_null(texts(part, name), "") for name in digests)
        coverage.add(condition, part.num_rows, _content(source_id, label.cast(pa.string()), class_name, *others))
        images.add(condition, source_id, label, class_name)
        wrong = pc.not_equal(
            texts(part, "key"), pc.binary_join_element_wise(escaped_ids(source_id), str(condition), "-")
        )
        for row in part.filter(wrong).select(["key", "shard"]).to_pylist():
            found.fault(row["key"], f"does not belong in {row['shard']}")
        found.samples += part.num_rows
        found.failed += pc.sum(pc.equal(texts(part, "status"), manifests.FAILED)).as_py()
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
        self._class_names = ClassNames(data_set.task is not None)

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
class _ShardChunk:
    """Rows of one condition in one shard.

    ``sha256`` is the digest of the shard in the first of its rows.
    """

    shard: str
    condition: Condition
    rows: Sequence[Row]
    sha256: str
    is_first: bool


def _shard_chunks(data_set: Stored) -> Iterator[_ShardChunk]:
    """Yield the manifest by shards. Files of an index may have many rows, which are split."""
    most = data_set.most_rows
    for (shard, transform, level), group in groupby(
        data_set.rows(), key=lambda row: (row.shard, row.transform, row.level)
    ):
        sha256 = None
        while rows := list(islice(group, most)):
            if sha256 is not None and not data_set.splits:
                raise UserError(
                    f"{MANIFEST_FILE} has more than {most} rows for {shown(shard)}: it is damaged; copy or download "
                    "it again"
                )
            is_first, sha256 = sha256 is None, sha256 or rows[0].shard_sha256
            yield _ShardChunk(shard, Condition(transform, level), rows, sha256, is_first)


def _check_chunk(data_set: Stored, chunk: _ShardChunk, further: CheckPayload | None) -> Findings:
    """Compare rows of one shard with its content."""
    shard, rows = chunk.shard, chunk.rows
    failed = sum(row.status == manifests.FAILED for row in rows)
    found = Findings(shards=int(chunk.is_first), samples=len(rows), failed=failed)
    if failed == len(rows) and not data_set.stores_failed:
        return found
    try:
        _check_digest(data_set, chunk, found)
        for checked in data_set.read(shard, rows):
            for fault in checked.faults:
                found.fault(fault.where, fault.what)
            _check_payload(checked.sample, data_set.family.sequences, found)
            if further and checked.sample.intact:
                further(checked.sample, found)
    except DamagedShardError as error:
        found.fault(error.fault.where, error.fault.what)
    except FileNotFoundError:
        found.fault(shard, "is missing")
    except OSError as error:
        found.fault(shard, f"cannot be read: {error.strerror or error}")
    except UserError as error:
        found.fault(shard, f"cannot be read: {error}")
    return found


def _check_digest(data_set: DataSet, chunk: _ShardChunk, found: Findings) -> None:
    """Compare the digest of a shard, which is read once, with its rows."""
    sha256 = chunk.sha256
    if chunk.is_first:
        with data_set.files.open(chunk.shard) as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    wrong = next((row.shard_sha256 for row in chunk.rows if row.shard_sha256 not in ("", sha256)), None)
    if wrong is not None:
        found.fault(chunk.shard, f"sha256 is {sha256}, the manifest has {wrong}")


def _check_payload(sample: Sample, sequence: bool, found: Findings) -> None:
    """Compare a payload and its decoded pixels with the manifest."""
    row = sample.row
    if not sample.intact:
        found.fault(row.key, "has a payload that was changed: its sha256 differs from the manifest")
        return
    try:
        pixels = sample.pixels()
    except ValueError as error:
        found.fault(row.key, f"cannot be decoded: {error}")
        return
    wanted = (*((row.frames,) if sequence else ()), row.height, row.width)
    if pixels.shape[:-1] != wanted:
        found.fault(row.key, f"has the size {pixels.shape[:-1]}; the manifest has {wanted}")
    elif pixel_digest(pixels) != row.pixel_sha256:
        if sample.encoder.bare:
            found.fault(row.key, "has an intact payload, but other pixels than the manifest")
        else:
            found.decoder_changed += 1
