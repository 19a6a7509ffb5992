"""A finished data set as its readers see it: rows of the manifest, and the samples that they tell of.

Two kinds: what a build wrote, and what others made and :mod:`pipeline.index` wrote a manifest for.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, TypeVar

import manifests
from manifests import Row
from pipeline import places
from pipeline.encoders import ENCODERS, Npy, member_suffixes, npy_header
from pipeline.errors import UserError
from pipeline.families import FAMILIES, Family, Step
from pipeline.recipes import MAX_SHARD_SIZE, Recipe, parse
from pipeline.samples import Sample, side_members, told_columns
from pipeline.storage import SMALL_FILE, Store, is_url, local_path, open_store, read_ahead
from pipeline.storage.tars import BLOCK, TarMember, UnsafeTarError, safe_members
from pipeline.tables import StrictTable, one_of, read_toml, validated

RECIPE_FILE = "recipe.toml"
INDEX_FILE = "index.toml"
MANIFEST_FILE = "manifest.parquet"

PIXELS = "pixels"
"""The encoder of samples that lie as bare pixels in a larger array."""

UNIT_ROWS = 1000
"""Of an index: what is evaluated, and committed, at one go."""

MAX_PAYLOAD_BYTES = 2**28
"""Of one sample: a manifest that tells of a larger one is refused, and nothing read."""

MAX_UNITS = 2**20
"""Of one data set: its readers keep a list of them."""

SHOWN = 200
"""Characters of what a file says that a message repeats."""


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
class Finding:
    """A sample that was read, and what beside its payload is not as the manifest has it."""

    sample: Sample
    faults: list[Fault] = field(default_factory=list)


@dataclass(frozen=True)
class Unit:
    """A piece of a data set that is read at one go: ``count`` rows of the manifest from ``first``, all of one step.

    ``samples`` and ``frames`` count those that are ``ok``; ``name`` is unique in the data set.
    """

    name: str
    step: Step
    first: int
    count: int
    samples: int
    frames: int


@dataclass(frozen=True)
class DataSet:
    """A finished data set. ``steps`` are those that it must hold; None where only the manifest tells.

    ``decoders`` are the fingerprints of the decoders that it was made with; ``files`` is where its shards are.
    """

    store: Store
    name: str
    family_name: str
    steps: tuple[Step, ...] | None
    decoders: Mapping[str, str]
    files: Store

    @property
    def family(self) -> Family:
        """The family of its transforms."""
        return FAMILIES[self.family_name]

    def rows(self, where: manifests.Where = manifests.EVERYWHERE) -> Iterator[Row]:
        """The manifest, or the rows of it that are asked for: column -> values.

        Raises UserError where the data set is not finished or the file is damaged.
        """
        return _told(self.store, manifests.read_rows, where)

    def units(self) -> Iterator[Unit]:
        """The whole data set in pieces, in the manifest's order: its shards; of an index, up to 1,000 rows each.

        Raises UserError as :meth:`rows`.
        """
        columns = _told(self.store, manifests.read_columns, ("transform", "level", "shard", "status", "frames"))
        first, counts = 0, Counter[Step]()
        for (transform, level, _), group in groupby(columns, key=self._unit_of()):
            step, oks = Step(transform, level), list[int]()
            count = 0
            for *_, shard, status, frames in group:
                count += 1
                if count > MAX_SHARD_SIZE:
                    where = f"{self.store.root}/{MANIFEST_FILE}"
                    raise UserError(f"{where} has more than {MAX_SHARD_SIZE} rows of {shown(shard)}: it is damaged")
                if status == manifests.OK:
                    oks.append(frames or 0)
            if counts.total() == MAX_UNITS:
                raise UserError(f"{self.store.root}/{MANIFEST_FILE} names more than {MAX_UNITS} shards: it is damaged")
            yield Unit(f"{step}-{counts[step]:06d}", step, first, count, len(oks), sum(oks))
            counts[step] += 1
            first += count

    def rows_of(self, unit: Unit) -> list[Row]:
        """The rows of a piece. Raises UserError as :meth:`rows`."""
        return list(_told(self.store, manifests.read_slice, unit.first, unit.count))

    def _unit_of(self) -> Callable[[Sequence[Any]], tuple[str, int, Any]]:
        """Rows with equal values are of one piece."""
        return lambda row: (row[0], row[1], row[2])

    def read(self, shard: str, rows: Iterable[Row]) -> Iterator[Finding]:
        """The samples of a shard's ``ok`` rows, all of them and in their order.

        Raises UnsoundShardError, or OSError where the shard cannot be read.
        """
        raise NotImplementedError

    def pick(self, row: Row) -> Sample:
        """One ``ok`` sample by itself. Raises UserError where it is not there as the manifest says."""
        if row.key != f"{row.source_id}-{Step(row.transform, row.level)}":
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


@dataclass(frozen=True)
class Built(DataSet):
    """What a build wrote: WebDataset tars."""

    recipe: Recipe

    def read(self, shard: str, rows: Iterable[Row]) -> Iterator[Finding]:
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
        span = file.read(BLOCK + _bounded(row))
        tar = io.BytesIO(span + bytes(-len(span) % BLOCK + 2 * BLOCK))
        data = [_data(tar, member, row.size or 0) for member in safe_members(tar)]
        return Sample(row, dict(zip(self.suffixes(row), data, strict=True)), self.recipe.encoder)

    def suffixes(self, row: Row) -> tuple[str, ...]:
        """The suffixes of a sample's payload members."""
        return member_suffixes(self.recipe.encoder, row.frames if self.family.sequences else None)

    def _finding(self, file: BinaryIO, tar: Iterator[TarMember], row: Row) -> Finding:
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
        return Finding(Sample(row, members, self.recipe.encoder), faults)


@dataclass(frozen=True)
class Indexed(DataSet):
    """What others made: files, members of tars, or rows of arrays, each a range of bytes in a "shard" of theirs."""

    def _unit_of(self) -> Callable[[Sequence[Any]], tuple[str, int, Any]]:
        seen: Counter[tuple[str, int]] = Counter()

        def piece(row: Sequence[Any]) -> tuple[str, int, int]:
            place = (row[0], row[1])
            seen[place] += 1
            return (*place, (seen[place] - 1) // UNIT_ROWS)

        return piece

    def read(self, shard: str, rows: Iterable[Row]) -> Iterator[Finding]:
        """Each range of bytes by itself."""
        with self.files.open(shard) as file:
            for row in rows:
                if row.status == manifests.OK:
                    try:
                        sample = self._pick(file, row)
                    except ValueError as error:
                        raise UnsoundShardError(Fault(row.key, str(error))) from error
                    yield Finding(sample)

    def _pick(self, file: BinaryIO, row: Row) -> Sample:
        file.seek(row.offset or 0)
        return found_payload(row, file.read(_bounded(row)))


def found_payload(row: Row, data: bytes) -> Sample:
    """The sample of an indexed data set that ``data`` is; bare pixels become an array of their own."""
    if row.encoder != PIXELS:
        if row.encoder not in ENCODERS:
            allowed = ", ".join((*ENCODERS, PIXELS))
            raise ValueError(f"has the encoder {shown(row.encoder)} in the manifest; allowed: {allowed}")
        encoder = ENCODERS[row.encoder](name=row.encoder)
        return Sample(row, {encoder.suffix: data}, encoder)
    npy = Npy()
    frames = () if row.frames == 1 else (row.frames or 0,)
    return Sample(row, {npy.suffix: npy_header((*frames, row.height or 0, row.width or 0, 3)) + data}, npy)


def _bounded(row: Row) -> int:
    """The bytes of a payload. Raises ValueError for more than any sample has."""
    if not 0 < (row.size or 0) <= MAX_PAYLOAD_BYTES:
        raise ValueError(f"has {row.size} bytes in the manifest; 1 to {MAX_PAYLOAD_BYTES} can be")
    return row.size or 0


class IndexTable(StrictTable):
    """``index.toml``: where the files of somebody else's data set are, and what they hold.

    ``manifest`` is the sha256 of the manifest, since nothing else tells the labels of such files; empty in older ones.
    """

    name: str
    family: Annotated[str, one_of(FAMILIES)]
    layout: Literal["folders", "tars", "arrays"]
    location: str
    manifest: str = ""


def open_data_set(folder: str, data: str | None = None) -> DataSet:
    """Open the data set that was built or indexed into a folder.

    Args:
        folder: Path or URL of the data set.
        data: Path or URL of the files of an index, where the user names it. Without it, an index is only believed
            where its files are in or below its own folder, or where this user made it on this machine.

    Raises:
        UserError: There is no readable data set, or nobody may say where its files are.
    """
    store = open_store(folder)
    if store.size(INDEX_FILE) >= 0:
        where = f"{store.root}/{INDEX_FILE}"
        table = validated(IndexTable, read_toml(_settings(store, INDEX_FILE), where), where)
        if (
            table.manifest
            and store.size(MANIFEST_FILE) >= 0
            and file_digest(store.path(MANIFEST_FILE)) != table.manifest
        ):
            raise UserError(
                f"the manifest {store.root}/{MANIFEST_FILE} is not the one that index wrote: its sha256 is not that in "
                f"{INDEX_FILE}; run index again, or copy both files again"
            )
        return Indexed(store, table.name, table.family, None, {}, _files_of_index(store, table.location, data))
    recipe = read_recipe(store)
    if data is not None:
        raise UserError(f"{folder} was built and holds its own shards: omit --data {data}, which is for indexes")
    return Built(store, recipe.name, recipe.transforms.family, recipe.steps(), recipe.decoders, store, recipe)


def open_built(folder: str) -> Built:
    """As :func:`open_data_set`, for what needs the recipe. Raises UserError for an indexed data set."""
    store = open_store(folder)
    if store.size(INDEX_FILE) >= 0:
        raise UserError(f"{folder} is an index of files that others made: it has no recipe to make them by")
    recipe = read_recipe(store)
    return Built(store, recipe.name, recipe.transforms.family, recipe.steps(), recipe.decoders, store, recipe)


def read_recipe(store: Store) -> Recipe:
    """The recipe that a data set was built by. Raises UserError where there is none."""
    if store.size(RECIPE_FILE) < 0:
        raise UserError(f"{store.root} is no data set: it has no {RECIPE_FILE}")
    return parse(_settings(store, RECIPE_FILE), f"{store.root}/{RECIPE_FILE}")


def _settings(store: Store, name: str) -> bytes:
    """Return the content of a small file of a data set. Raises UserError."""
    try:
        return store.read(name, limit=SMALL_FILE)
    except OSError as error:
        raise UserError(f"{store.root}/{name} cannot be read: {error.strerror or error}") from error


def _files_of_index(store: Store, location: str, data: str | None) -> Store:
    """Return where the files of an index are: no file of a data set may send its reader anywhere. Raises UserError."""
    if data is not None:
        return _folder_of_files(data, f"--data {data}")
    if is_url(location) or (is_url(store.root) and location.startswith("/")):
        place, inside = location, False
    elif is_url(store.root):
        place, inside = f"{store.root}/{location}", ".." not in location.split("/")
    else:
        folder = local_path(store.root).resolve()
        place = _resolved(folder, location)
        inside = local_path(place).is_relative_to(folder)
    if inside or places.recall(store.root, "data") == places.absolute(place):
        return _folder_of_files(place, f"the location {shown(location)} in {store.root}/{INDEX_FILE}")
    raise UserError(
        f"{store.root}/{INDEX_FILE} names {shown(location)} as the location of its files: files outside of the index's "
        "folder are only read where the user says so; give --data PATH, the folder that holds them"
    )


def _folder_of_files(place: str, named: str) -> Store:
    if not is_url(place) and not os.path.isdir(local_path(place)):  # unlike Path.is_dir, False for any bad name
        raise UserError(f"{named} is not a folder: give with --data PATH the folder that holds the files of the index")
    return open_store(place)


def _resolved(folder: Path, location: str) -> str:
    """Return the path that an index of this machine names, its links followed. Raises UserError."""
    try:
        return str((folder / local_path(location)).resolve())
    except (OSError, RuntimeError) as error:
        raise UserError(f"the location {shown(location)} in {folder}/{INDEX_FILE} cannot be used: {error}") from error


def shown(text: str) -> str:
    """Return what a file says, fit for a message: escaped, and not too long."""
    return ascii(text if len(text) <= SHOWN else text[:SHOWN] + "...")


def file_digest(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def facts_of_parts(store: Store, folder: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The parts of a manifest or of predictions that are there, and the facts of each; of damaged ones none."""
    for part in read_ahead(store, store.listing(folder, ".parquet")):
        yield part[0], manifests.part_facts(part)


def _told(store: Store, read: Callable[..., Iterable[Read]], *arguments: Any) -> Iterator[Read]:
    """What is read of a merged manifest, its faults told as the user's."""
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


def _expect(tar: Iterator[TarMember], row: Row, suffix: str) -> TarMember:
    """The next member, which must be this one. Raises UnsoundShardError."""
    member, name = next(tar, None), row.key + suffix
    if member is None or member.name != name:
        got = "the end" if member is None else member.name
        raise UnsoundShardError(Fault(row.shard, f"has {got} where {name} belongs"))
    return member


def _data(file: BinaryIO, member: TarMember, limit: int) -> bytes:
    """A member's data; nothing where it is larger than it may be."""
    if member.size > limit:
        return b""
    file.seek(member.offset)
    return file.read(member.size)
