"""A finished data set as its readers see it: rows of the manifest, and the samples that they tell of.

Two kinds: what a build wrote, and what others made and :mod:`pipeline.datasets.index` wrote a manifest for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, BinaryIO, TypeVar

import pyarrow as pa

import manifests
from manifests import Row
from pipeline.datasets.paths import INDEX_FILE, MANIFEST_FILE
from pipeline.datasets.samples import Sample
from pipeline.errors import UserError
from pipeline.recipes.schema import MAX_SHARD_SIZE
from pipeline.storage import Store
from pipeline.text import shown
from pipeline.transforms.family import Condition, Family
from pipeline.transforms.registry import FAMILIES

MAX_PAYLOAD_BYTES = 2**28
"""Of one sample: a manifest that tells of a larger one is refused, and nothing read."""

MAX_CHUNKS = 2**20
"""Of one data set: its readers keep a list of them."""


Read = TypeVar("Read")


@dataclass(frozen=True)
class Fault:
    """One thing that is not as it should be. ``where`` is a file of the data set or a sample's key."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class UnsoundShardError(Exception):
    """A shard is not what its manifest says, so that nothing after this point in it can be told; holds the fault."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


@dataclass(frozen=True)
class CheckedSample:
    """A sample that was read, and what beside its payload is not as the manifest has it."""

    sample: Sample
    faults: list[Fault] = field(default_factory=list)


@dataclass(frozen=True)
class Chunk:
    """Rows of the manifest that are read together: ``count`` from ``first``, all of one condition.

    ``samples`` and ``frames`` count those that are ``ok``; ``name`` is unique in the data set.
    """

    name: str
    condition: Condition
    first: int
    count: int
    samples: int
    frames: int


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A finished data set. ``conditions`` are those that it must hold; None where only the manifest tells.

    ``decoders`` are the fingerprints of the decoders that it was made with; ``files`` is where its shards are.
    """

    store: Store
    name: str
    family_name: str
    conditions: tuple[Condition, ...] | None
    decoders: Mapping[str, str]
    files: Store

    @property
    def family(self) -> Family:
        """The family of its transforms."""
        return FAMILIES[self.family_name]

    def rows(self, where: manifests.Filters = manifests.NO_FILTERS) -> Iterator[Row]:
        """Yield the manifest, or the rows of it that are asked for: column -> values.

        Raises UserError where the data set is not finished or the file is damaged.
        """
        return _told(self.store, manifests.read_rows, where)

    def tables(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield some columns of the manifest, a row group at a time. Raises UserError as :meth:`rows`."""
        return _told(self.store, manifests.read_tables, columns)

    def chunks(self) -> Iterator[Chunk]:
        """Yield the whole data set in chunks, in the manifest's order: its shards; of an index, up to 1,000 rows each.

        Raises UserError as :meth:`rows`.
        """
        columns = _told(self.store, manifests.read_columns, ("transform", "level", "shard", "status", "frames"))
        first, counts = 0, Counter[Condition]()
        for (transform, level, _), group in groupby(columns, key=self._chunk_of()):
            condition, oks = Condition(transform, level), list[int]()
            count = 0
            for *_, shard, status, frames in group:
                count += 1
                if count > MAX_SHARD_SIZE:
                    where = f"{self.store.root}/{MANIFEST_FILE}"
                    raise UserError(f"{where} has more than {MAX_SHARD_SIZE} rows of {shown(shard)}: it is damaged")
                if status == manifests.OK:
                    oks.append(frames or 0)
            if counts.total() == MAX_CHUNKS:
                raise UserError(f"{self.store.root}/{MANIFEST_FILE} names more than {MAX_CHUNKS} shards: it is damaged")
            yield Chunk(f"{condition}-{counts[condition]:06d}", condition, first, count, len(oks), sum(oks))
            counts[condition] += 1
            first += count

    def rows_of(self, chunk: Chunk) -> list[Row]:
        """Return the rows of a chunk. Raises UserError as :meth:`rows`."""
        return list(_told(self.store, manifests.read_slice, chunk.first, chunk.count))

    def samples(self, transform: str | None = None, level: int | None = None) -> Iterator[Sample]:
        """Yield the samples that did not fail, in the manifest's order, each compared with its digest.

        A bounded number is in memory. ``pixels()`` of a sample decodes it, ``row`` is its row of the manifest.

        Args:
            transform: Only those of this transform, for example ``"fog"``. Default: all.
            level: Only those of this level, for example 3. Default: all.

        Raises:
            UserError: The data set is not finished, holds no such transform and level, or is damaged.
        """
        found = False
        for chunk in self.chunks():
            if transform in (None, chunk.condition.transform) and level in (None, chunk.condition.level):
                found = True
                try:
                    yield from self.intact_samples(self.rows_of(chunk))
                except (UnsoundShardError, OSError) as error:
                    raise UserError(f"{self.store.root} is damaged: {error}; run robustshards verify") from error
        if not found:
            wanted = " ".join(map(str, (part for part in (transform, level) if part is not None)))
            held = ", ".join(map(str, self.conditions or ())) or "what its manifest lists"
            raise UserError(f"{self.name} holds no samples of {wanted or 'any transform'}; it holds {held}")

    def intact_samples(self, rows: Iterable[Row]) -> Iterator[Sample]:
        """Yield the samples of the ``ok`` rows among some, each once and in their order.

        Raises UnsoundShardError for a sample whose payload, label or description is not what the manifest says, and
        OSError where a shard cannot be read.
        """
        for shard, group in groupby(rows, key=lambda row: row.shard):
            for finding in self.read(shard, list(group)):
                for fault in finding.faults:
                    raise UnsoundShardError(fault)
                if not finding.sample.intact:
                    key = finding.sample.row.key
                    raise UnsoundShardError(Fault(key, f"its payload in {shard} is another than the manifest says"))
                yield finding.sample

    def _chunk_of(self) -> Callable[[Sequence[Any]], tuple[str, int, Any]]:
        """Rows with equal values are of one chunk."""
        return lambda row: (row[0], row[1], row[2])

    def read(self, shard: str, rows: Iterable[Row]) -> Iterator[CheckedSample]:
        """Yield the samples of a shard's ``ok`` rows, all of them and in their order.

        Raises UnsoundShardError, or OSError where the shard cannot be read.
        """
        raise NotImplementedError

    def pick(self, row: Row) -> Sample:
        """One ``ok`` sample by itself. Raises UserError where it is not there as the manifest says."""
        if row.key != f"{row.source_id}-{Condition(row.transform, row.level)}":
            raise UserError(f"{row.key} in {row.shard} is not what its row tells: run robustshards verify")
        try:
            with self.files.open(row.shard) as file:
                sample = self._pick(file, row)
        except (OSError, ValueError) as error:
            raise UserError(f"{row.key} in {row.shard} cannot be read ({error}): run robustshards verify") from error
        if not sample.intact:
            raise UserError(f"{row.key} in {row.shard} is not what was built: run robustshards verify")
        return sample

    def _pick(self, file: BinaryIO, row: Row) -> Sample:
        raise NotImplementedError


def payload_size(row: Row) -> int:
    """Return the bytes of a payload. Raises ValueError for more than any sample has."""
    if not 0 < (row.size or 0) <= MAX_PAYLOAD_BYTES:
        raise ValueError(f"has {row.size} bytes in the manifest; 1 to {MAX_PAYLOAD_BYTES} can be")
    return row.size or 0


def _told(store: Store, read: Callable[..., Iterable[Read]], *arguments: Any) -> Iterator[Read]:
    """Yield what is read of a merged manifest, its faults told as the user's."""
    where = f"{store.root}/{MANIFEST_FILE}"
    if store.size(MANIFEST_FILE) < 0:
        remedy = "run index again" if store.size(INDEX_FILE) >= 0 else "run the same build command again"
        raise UserError(f"{store.root} has no {MANIFEST_FILE}: it is not finished; {remedy}")
    try:
        yield from read(store.path(MANIFEST_FILE), *arguments)
    except ValueError as error:
        raise UserError(f"the manifest cannot be read: {error}; copy or download it again") from error
    except OSError as error:
        raise UserError(f"the manifest {where} cannot be read: {error.strerror or error}") from error
