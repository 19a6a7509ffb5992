"""The interface of a finished data set: rows of the manifest, and the samples they describe.

There are three kinds: built data sets, data sets of other tools for which :mod:`pipeline.datasets.index` wrote a
manifest, and rendered data sets, whose samples are made when they are read.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

import manifests
from corruptions.validation import is_integer
from manifests import Row
from pipeline.datasets.findings import Checked, CheckPayload, DamagedShardError, Findings
from pipeline.datasets.paths import INDEX_FILE, MANIFEST_FILE, Read, escaped_id, file_digest, read_file
from pipeline.datasets.samples import Sample, iterable_dataset
from pipeline.errors import UserError
from pipeline.recipes.attacks import AttackTable
from pipeline.recipes.tables import MAX_SHARD_SIZE
from pipeline.storage import Store
from pipeline.storage.trusted_locations import absolute
from pipeline.tasks.labels import LabelSpace
from pipeline.tasks.schema import Task
from pipeline.text import printable, shown
from pipeline.transforms.family import Condition, Draws, Family
from pipeline.transforms.registry import FAMILIES

if TYPE_CHECKING:
    import datasets

MAX_PAYLOAD_BYTES = 2**28
"""Maximum payload size of a sample in bytes. Rows of a manifest with a larger size are refused."""

OK_ROWS: manifests.Filters = {"status": [manifests.OK]}
"""Filter for the samples that did not fail."""

SAMPLES_TOGETHER = 256
"""Number of samples that may be read together."""

MAX_CHUNKS = 2**20
"""Maximum number of chunks of a data set, because readers keep a list of them."""


@dataclass(frozen=True)
class Chunk:
    """Rows of the manifest that are read together: ``count`` rows from index ``first``, all of one condition.

    ``samples`` and ``frames`` are numbers of the ``ok`` rows only. ``name`` is unique in the data set.
    """

    name: str
    condition: Condition
    first: int
    count: int
    samples: int
    frames: int


class Location(NamedTuple):
    """The arguments of ``open_data_set`` that open a data set again, also in another process.

    Attributes:
        folder: Path or URL of the data set.
        data: Folder with the files of an index, or the source of a rendered data set. None for the known ones.
        pixels: Whether a rendered data set skips its encoder and decoder.
        cache: Folder of the prepared photographs of a rendered data set, or "off". None for the user's cache folder.
        clean: That of clean images which belong to it, see ``WithClean``. None for none.
    """

    folder: str
    data: str | None = None
    pixels: bool = False
    cache: str | None = None
    clean: Location | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class DataSet:
    """A finished data set.

    Attributes:
        location: Where it is, and how it was opened.
        store: The folder with the manifest.
        name: Name of the data set.
        family_name: Name of the family of its transforms.
        conditions: Conditions that it must contain, or None if only the manifest lists them.
        decoders: Fingerprints of the decoders used to build it, by name.
        resizers: Fingerprints of the resize operators used to build it, by name.
        files: The folder with its shards.
        labels: What its labels count. None if unknown.
        task: The task of its images. None if it has none.
        attack: How its adversarial images were made. None for every other family.
    """

    location: Location
    store: Store
    name: str
    family_name: str
    conditions: tuple[Condition, ...] | None
    decoders: Mapping[str, str]
    resizers: Mapping[str, str]
    files: Store
    labels: LabelSpace | None = None
    task: Task | None = None
    attack: AttackTable | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields, without what was cached since, which may be large and cannot be pickled."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __repr__(self) -> str:
        """Return the kind, the name and the folder."""
        return f"<{type(self).__name__} data set {printable(self.name)!r} in {printable(self.location.folder)}>"

    def __len__(self) -> int:
        """Return the number of samples that did not fail. Raise UserError like :meth:`rows`."""
        return sum(self.counts().values())

    def _repr_html_(self) -> str:
        """Return the numbers of samples by transform and level, for a notebook."""
        title = f"<p>{html.escape(repr(self))}</p>"
        try:
            counts = self.counts()
        except UserError as error:
            return f"{title}<p>{html.escape(str(error))}</p>"
        levels = sorted({condition.level for condition in counts})
        lines = [["samples", *(f"level {level}" for level in levels)]]
        lines += (
            [printable(name), *(f"{counts.get(Condition(name, level), 0):,}" for level in levels)]
            for name in dict.fromkeys(condition.transform for condition in counts)
        )
        cells = ("".join(f"<td>{html.escape(cell)}</td>" for cell in line) for line in lines)
        return f"{title}<table>{''.join(f'<tr>{line}</tr>' for line in cells)}</table>"

    @property
    def family(self) -> Family:
        """The family of its transforms."""
        return FAMILIES[self.family_name]

    @property
    def absolute_location(self) -> Location:
        """The location with absolute paths, for processes in other folders."""
        return self.location._replace(folder=absolute(self.location.folder))

    @property
    def main(self) -> DataSet:
        """The data set without clean images that were added to it."""
        return self

    def prepare_cache(self) -> str:
        """Create the cache of prepared photographs, if it has one, and return what it will hold, as text.

        Raises:
            UserError: Its folder cannot be used.
        """
        return ""

    def manifest_digest(self) -> str:
        """Return the SHA-256 of the manifest in hexadecimal."""
        return file_digest(self.store.path(MANIFEST_FILE))

    def content(self) -> str | None:
        """Return the digest of recipe and images, see ``content_digest``. None if it has no recipe."""
        return None

    def rows(self, where: manifests.Filters = manifests.NO_FILTERS) -> Iterator[Row]:
        """Yield rows of the manifest.

        Args:
            where: Column -> allowed values. Default: all rows.

        Raises:
            UserError: The data set is not finished, or the manifest is damaged.
        """
        return read_manifest(self.store, manifests.read_rows, where)

    def tables(self, columns: Sequence[str], where: manifests.Filters = manifests.NO_FILTERS) -> Iterator[pa.Table]:
        """Yield columns of the manifest, one row group at a time.

        Args:
            columns: Names of the columns.
            where: Column -> allowed values. Default: all rows.

        Raises:
            UserError: As for :meth:`rows`.
        """
        return read_manifest(self.store, manifests.read_tables, columns, where)

    def counts(self, where: manifests.Filters = OK_ROWS) -> dict[Condition, int]:
        """Return the number of samples of each condition, in manifest order. Raise UserError like :meth:`rows`.

        Args:
            where: Column -> allowed values. Default: the samples that did not fail.
        """
        counts = Counter[Condition]()
        for table in self.tables(("transform", "level"), where):
            groups = table.group_by(["transform", "level"], use_threads=False).aggregate([([], "count_all")])
            for each in groups.to_pylist():
                counts[Condition(each["transform"], each["level"])] += each["count_all"]
        return dict(counts)

    def chunks(self) -> Iterator[Chunk]:
        """Yield the chunks of the data set, in manifest order.

        A chunk is a shard of a built data set, or up to 1,000 rows of an indexed one. Raise UserError like
        :meth:`rows`.
        """
        names, where = ("transform", "level", "shard", "status", "frames"), f"{self.store.root}/{MANIFEST_FILE}"
        columns = read_manifest(self.store, manifests.read_columns, names)
        first, counts = 0, Counter[Condition]()
        for (transform, level, _), group in groupby(columns, key=self._chunk_of()):
            condition, oks = Condition(transform, level), list[int]()
            count = 0
            for *_, shard, status, frames in group:
                count += 1
                if count > MAX_SHARD_SIZE:
                    raise UserError(
                        f"{where} has more than {MAX_SHARD_SIZE} rows for {shown(shard)}: it is damaged; copy or "
                        "download it again"
                    )
                if status == manifests.OK:
                    oks.append(frames or 0)
            if counts.total() == MAX_CHUNKS:
                raise UserError(
                    f"{where} lists more than {MAX_CHUNKS} shards: it is damaged; copy or download it again"
                )
            yield Chunk(f"{condition}-{counts[condition]:06d}", condition, first, count, len(oks), sum(oks))
            counts[condition] += 1
            first += count

    def rows_of(self, chunk: Chunk) -> list[Row]:
        """Return the rows of a chunk. Raise UserError like :meth:`rows`."""
        return list(read_manifest(self.store, manifests.read_slice, chunk.first, chunk.count))

    def samples(self, transform: str | None = None, level: int | None = None) -> Iterator[Sample]:
        """Yield the samples that did not fail, in manifest order. The digest of each payload is checked.

        Only a few samples are in memory at a time. ``sample.pixels()`` decodes the payload; ``sample.row`` is its row
        of the manifest.

        Args:
            transform: Only samples of this transform, for example ``"fog"``. Default: all.
            level: Only samples of this level, for example 3. Default: all.

        Raises:
            UserError: The data set is not finished, has no samples of this transform and level, or is damaged.
        """
        return self.samples_in(self.chunks_of(transform, level))

    def samples_in(self, chunks: Iterable[Chunk]) -> Iterator[Sample]:
        """Yield the samples of chunks that did not fail. Raise UserError like :meth:`samples`."""
        for chunk in chunks:
            try:
                yield from self.intact_samples(self.rows_of(chunk))
            except (DamagedShardError, OSError, ValueError) as error:
                raise UserError(f"{self.store.root} is damaged: {error}; run robustshards verify") from error

    def chunks_of(self, transform: str | None = None, level: int | None = None) -> Iterator[Chunk]:
        """Yield the chunks of a transform and level. Raise UserError like :meth:`samples`."""
        check_condition(transform, level)
        found = False
        for chunk in self.chunks():
            if transform in (None, chunk.condition.transform) and level in (None, chunk.condition.level):
                found = True
                yield chunk
        if not found:
            wanted = " ".join(map(str, (part for part in (transform, level) if part is not None)))
            held = ", ".join(map(str, self.conditions or ())) or "only those listed in its manifest"
            raise UserError(f"{self.name} has no samples of {wanted or 'any transform'}; it has {held}")

    def to_hf(self, transform: str | None = None, level: int | None = None) -> datasets.IterableDataset:
        """Return the samples as an ``IterableDataset`` of Hugging Face's package ``datasets``.

        The columns are ``image`` (for sequences ``frames``, a list of images), ``label``, ``transform``, ``level`` and
        ``source_id``. Samples are read on demand, with digests checked, in manifest order. Each chunk (a shard, or
        1,000 rows) is a shard of the result, so that several processes can share it.

        Args:
            transform: Only samples of this transform. Default: all.
            level: Only samples of this level. Default: all.

        Raises:
            UserError: As for :meth:`samples`, and if the package ``datasets`` is not installed.
        """
        return iterable_dataset(self.samples_in, list(self.chunks_of(transform, level)), self.family.sequences)

    def draws(self, columns: Mapping[str, Any]) -> Draws | None:
        """Return what was drawn for a sample: name -> value. None if nothing was recorded, or if it is unknown.

        Args:
            columns: Columns of its row: ``transform``, ``level``, ``version``, ``source_id``, ``height`` and ``width``.
        """
        return None

    def verify(
        self, threads: int = 1, checked: Checked = lambda found: None, further: CheckPayload | None = None
    ) -> Findings:
        """Compare every byte with the manifest, or with the source.

        Args:
            threads: Number of shards or images read concurrently.
            checked: Function called at intervals with the results so far.
            further: A further check of each sample with an intact payload.

        Raises:
            UserError: The data set is not finished, or cannot be compared.
        """
        raise NotImplementedError

    def verify_listing(self, checked: Checked = lambda found: None) -> Findings:
        """Compare names, sizes and counts, without reading payloads. Raise UserError like :meth:`verify`."""
        raise NotImplementedError

    def intact_samples(self, rows: Iterable[Row]) -> Iterator[Sample]:
        """Yield the samples of the ``ok`` rows in ``rows``, in order. Raise UserError like :meth:`pick`."""
        sound = (row for row in rows if row.status == manifests.OK)
        while some := list(islice(sound, SAMPLES_TOGETHER)):
            yield from self.picked(some)

    def picked(self, rows: Sequence[Row]) -> Iterator[Sample]:
        """Yield the samples of ``ok`` rows, in order. Raise UserError like :meth:`pick`."""
        return map(self.pick, rows)

    def pick(self, row: Row) -> Sample:
        """Return the sample of one ``ok`` row. Raise UserError if it cannot be made or does not match the row."""
        raise NotImplementedError

    def _chunk_of(self) -> Callable[[Sequence[Any]], tuple[str, int, Any]]:
        """Return a function of (transform, level, shard) whose value is the same for all rows of a chunk."""
        return lambda row: (row[0], row[1], row[2])


def check_condition(transform: Any, level: Any) -> None:
    """Raise UserError unless they are a name and an integer, or None."""
    if not (isinstance(transform, str | None) and (level is None or is_integer(level))):
        raise UserError(
            f"invalid transform {transform!r} or level {level!r}: pass one name and one integer, for example "
            '"fog", 5; omit both to read all conditions'
        )


def escaped_ids(source_ids: pa.Array) -> pa.Array:
    """Return the starts of the keys of images, as ``escaped_id`` does."""
    if not pc.any(pc.match_substring(source_ids, ".")).as_py():
        return source_ids
    return pa.array([escaped_id(each) for each in source_ids.to_pylist()], pa.string())


def payload_size(row: Row) -> int:
    """Return the size of a payload in bytes. Raise ValueError if it is not in the allowed range."""
    if not 0 < (row.size or 0) <= MAX_PAYLOAD_BYTES:
        raise ValueError(f"has a size of {row.size} bytes in the manifest; allowed: 1 to {MAX_PAYLOAD_BYTES}")
    return row.size or 0


def read_manifest(store: Store, read: Callable[..., Iterable[Read]], *arguments: Any) -> Iterator[Read]:
    """Yield what ``read`` returns for the manifest. Convert its errors to UserError."""
    if store.size(MANIFEST_FILE) < 0:
        remedy = "run index again" if store.size(INDEX_FILE) >= 0 else "run the same build command again"
        raise UserError(f"{store.root} has no {MANIFEST_FILE}: the data set is not finished; {remedy}")
    yield from read_file(store, MANIFEST_FILE, read, *arguments)
