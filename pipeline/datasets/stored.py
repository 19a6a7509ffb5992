"""Data sets whose samples are stored in files, and their verification.

A quick verification compares the columns of the manifest with each other, and with the names and sizes of the files. A
full one reads every file instead, and compares every payload and digest too.
"""

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice, pairwise
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import manifests
from manifests import Row
from pipeline.datasets.base import DataSet, escaped_ids
from pipeline.datasets.findings import Checked, CheckPayload, DamagedShardError, Fault, Findings
from pipeline.datasets.paths import MANIFEST_FILE, sample_key
from pipeline.datasets.samples import DESCRIBED_COLUMNS, Sample, pixel_digest
from pipeline.errors import UserError
from pipeline.images.fingerprints import changes
from pipeline.recipes.tables import MAX_SHARD_SIZE
from pipeline.storage import LARGEST_AHEAD, READERS, is_url, map_ahead
from pipeline.text import shown
from pipeline.transforms.family import Condition

COLUMNS = (*DESCRIBED_COLUMNS, "shard", "status", "offset", "size", "height", "width")
"""Columns of the manifest that are read. Digests are not needed."""

CHUNK_ROWS = 1000
"""Number of rows in a chunk of an index."""

ROWS_TOGETHER = 8192
"""Number of rows whose strings are in memory at a time."""

MAX_CONDITIONS = 10_000
"""Maximum number of conditions of a data set."""

Part = tuple[Condition, pa.Table]
"""Rows of one condition, as a table."""


class Coverage:
    """A check that the manifest has each condition of the recipe, as consecutive rows, with equal images and labels.

    No image is listed twice, and each label has one class name. In a data set with a task, several folders may have one
    label; there, each class name has one label.
    """

    def __init__(self, data_set: DataSet, tars: Iterable[str]) -> None:
        """Start a check of a data set with these paths of shards in its folder."""
        self.found = Findings()
        self._conditions, self._has_task = data_set.conditions, data_set.task is not None
        self._unlisted = set(tars)
        self._images: dict[Condition, tuple[int, Any]] = {}
        self._latest: Condition | None = None
        self._changes = 0
        self._ids: set[str] = set()
        self._names: dict[int | str, int | str] = {}

    def add(self, condition: Condition, ids: pa.Array, labels: pa.Array, names: pa.Array, *others: pa.Array) -> None:
        """Add rows of a condition, in manifest order: source ids, labels, class names, and digests to compare.

        Raises:
            UserError: The manifest has too many conditions.
        """
        if condition != self._latest:
            self._changes += 1
            if self._changes > MAX_CONDITIONS:
                raise UserError(
                    f"{MANIFEST_FILE} has more than {MAX_CONDITIONS} transforms and levels: it is damaged; copy or "
                    "download it again"
                )
            if condition in self._images:
                self.found.fault(MANIFEST_FILE, f"has rows of {condition} that are not consecutive")
            self._latest = condition
        earlier, digest = self._images.get(condition, (0, hashlib.sha256()))
        digest.update(_content(ids, labels.cast(pa.string()), names, *others))
        self._images[condition] = (earlier + len(ids), digest)
        if next(iter(self._images)) == condition:  # the others are compared with it
            for image in zip(*(each.to_pylist() for each in (ids, labels, names)), strict=True):
                self._add_image(condition, *image)

    def _add_image(self, condition: Condition, id_: str, label: int, class_name: str) -> None:
        if id_ in self._ids:
            self.found.fault(f"{id_}-{condition}", "is listed twice in the manifest")
        self._ids.add(id_)
        key, value = (class_name, label) if self._has_task else (label, class_name)
        if (first := self._names.setdefault(key, value)) != value:
            other = f"class name than the label {label}"
            if self._has_task:
                other = f"label than the class {shown(class_name)}"
            self.found.fault(f"{id_}-{condition}", f"has another {other} before: {first}")

    def add_shard(self, shard: str) -> None:
        """Add a shard that the manifest lists."""
        self._unlisted.discard(shard)

    def finish(self) -> Findings:
        """Return the findings. Call it after all rows were added."""
        conditions = list(self._images) if self._conditions is None else self._conditions
        images = {condition: (count, digest.digest()) for condition, (count, digest) in self._images.items()}
        reference = next(iter(images.values()), None)
        for condition in (condition for condition in conditions if condition not in images):
            self.found.fault(MANIFEST_FILE, f"has no rows of {condition}")
        for condition in (condition for condition in images if condition not in conditions):
            self.found.fault(MANIFEST_FILE, f"{condition} is not in the recipe")
        for condition in (condition for condition, content in images.items() if content != reference):
            self.found.fault(str(condition), f"has other images or labels than {next(iter(images))}")
        for name in sorted(self._unlisted):
            self.found.fault(name, "is not in the manifest: delete it, it belongs to another build")
        return self.found


@dataclass(frozen=True, kw_only=True, repr=False)
class Stored(DataSet):
    """A data set whose samples are stored in files.

    Attributes:
        splits: Whether a shard is a file of any kind: it may have more rows, and be missing if all of them failed.
    """

    splits: ClassVar[bool]

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
        coverage = Coverage(self, self.tars())
        deque(_checked_parts(self, coverage, lambda found: None, ("source_sha256",)), maxlen=0)
        total = Findings(warnings=list(changes(self.decoders, self.resizers)))
        chunks = _shard_chunks(self, coverage)
        for found in map_ahead(partial(_check_chunk, self, further), chunks, threads):
            total.add(found)
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
        coverage = Coverage(self, tars)
        self.check_sizes(_checked_parts(self, coverage, checked), tars, coverage)
        return coverage.finish()

    def intact_samples(self, rows: Iterable[Row]) -> Iterator[Sample]:
        """Yield the samples of the ``ok`` rows in ``rows``, in order.

        Raises:
            DamagedShardError: A payload, label or description does not match the manifest.
            OSError: A shard cannot be read.
        """
        for shard, group in groupby(rows, key=lambda row: row.shard):
            for sample, faults in self.read(shard, list(group)):
                for fault in faults:
                    raise DamagedShardError(fault)
                if not sample.intact:
                    what = f"its payload in {shard} does not match the manifest"
                    raise DamagedShardError(Fault(sample.row.key, what))
                yield sample

    def read(self, shard: str, rows: Iterable[Row]) -> Iterator[tuple[Sample, Sequence[Fault]]]:
        """Yield the samples of the ``ok`` rows of a shard, given all of its rows, and faults outside of the payloads.

        Raises:
            DamagedShardError: The shard does not match the rows.
            OSError: The shard cannot be read.
        """
        raise NotImplementedError

    def picked(self, rows: Sequence[Row]) -> Iterator[Sample]:
        """Yield the samples of ``ok`` rows, in order; unless they are large, an object store is asked for several."""
        ahead = is_url(self.files.root) and all((row.size or 0) <= LARGEST_AHEAD for row in rows)
        return map_ahead(self.pick, rows, READERS) if ahead else super().picked(rows)

    def pick(self, row: Row) -> Sample:
        """Return the sample of one ``ok`` row. Raise UserError if it does not match the row."""
        if row.key != sample_key(row.source_id, Condition(row.transform, row.level)):
            raise UserError(f"{row.key} in {row.shard} does not match its manifest row: run robustshards verify")
        try:
            sample = self._pick(row)
        except (OSError, ValueError) as error:
            raise UserError(f"cannot read {row.key} in {row.shard} ({error}): run robustshards verify") from error
        if not sample.intact:
            raise UserError(
                f"{row.key} in {row.shard} was changed: its sha256 differs from the manifest; run robustshards verify"
            )
        return sample

    def _pick(self, row: Row) -> Sample:
        raise NotImplementedError


def condition_runs(table: pa.Table) -> Iterator[Part]:
    """Yield each run of consecutive rows of one condition. Each column of the table has one chunk."""
    for start, stop in runs(table, "transform", "level"):
        part = table.slice(start, stop - start)
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
    """Yield a manifest in parts of up to ROWS_TOGETHER rows, with checked images, labels, keys and ``digests``."""
    found, tables = coverage.found, data_set.tables((*COLUMNS, *digests))
    pieces = (
        (condition, run.slice(first, ROWS_TOGETHER))
        for table in tables
        for condition, run in condition_runs(table)
        for first in range(0, run.num_rows, ROWS_TOGETHER)
    )
    for condition, part in pieces:
        source_id = texts(part, "source_id")
        others = (pc.fill_null(texts(part, name), "") for name in digests)
        coverage.add(condition, source_id, values(part, "label"), texts(part, "class_name"), *others)
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


class _ShardChunk(NamedTuple):
    """Rows of one condition in one shard. ``sha256`` is the digest of the shard in the first of its rows."""

    shard: str
    rows: Sequence[Row]
    sha256: str
    is_first: bool


def _shard_chunks(data_set: Stored, coverage: Coverage) -> Iterator[_ShardChunk]:
    """Yield the manifest by shards. Files of an index may have many rows, which are split."""
    most = CHUNK_ROWS if data_set.splits else MAX_SHARD_SIZE
    for (shard, *_), group in groupby(data_set.rows(), key=attrgetter("shard", "transform", "level")):
        sha256 = None
        while rows := list(islice(group, most)):
            if sha256 is not None and not data_set.splits:
                raise UserError(
                    f"{MANIFEST_FILE} has more than {most} rows for {shown(shard)}: it is damaged; copy or download "
                    "it again"
                )
            is_first, sha256 = sha256 is None, sha256 or rows[0].shard_sha256
            coverage.add_shard(shard)
            yield _ShardChunk(shard, rows, sha256, is_first)


def _check_chunk(data_set: Stored, further: CheckPayload | None, chunk: _ShardChunk) -> Findings:
    """Compare rows of one shard with its content."""
    shard, rows = chunk.shard, chunk.rows
    failed = sum(row.status == manifests.FAILED for row in rows)
    found = Findings(shards=int(chunk.is_first), samples=len(rows), failed=failed)
    if failed == len(rows) and data_set.splits:
        return found
    try:
        _check_digest(data_set, chunk, found)
        for sample, faults in data_set.read(shard, rows):
            for fault in faults:
                found.fault(fault.where, fault.what)
            _check_payload(sample, data_set.family.sequences, found)
            if further and sample.intact:
                further(sample, found)
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
