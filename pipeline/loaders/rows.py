"""Rows of a manifest with random access, held as Arrow columns: about 0.6 KB per row."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

import manifests
from manifests import Row
from pipeline.datasets.base import DataSet
from pipeline.datasets.opening import open_data_set
from pipeline.datasets.stored import condition_runs
from pipeline.datasets.with_clean import WithClean, with_clean
from pipeline.errors import UserError
from pipeline.loaders.orders import Order
from pipeline.loaders.protocols import IN_OUT, find
from pipeline.loaders.schedule import Schedule, checked_parameters, schedule_of
from pipeline.sources.base import UNLABELLED
from pipeline.text import counted, shown
from pipeline.transforms.family import Condition

MAX_HELD = 2**17
"""Maximum number of rows of a stream that a process holds."""

FEW_ROWS = 8
"""Number of rows below which it is faster to convert each value on its own."""

ROBUSTBENCH = "robustbench-5000"
"""Name of the 5,000 validation images of ImageNet that RobustBench uses."""

_VALIDATION_IMAGE = re.compile(r"ILSVRC2012_val_0*(\d+)")


def joined(tables: Iterable[pa.Table]) -> pa.Table:
    """Return tables with all columns of the manifest as one, whose columns have one chunk each."""
    parts = list(tables)
    if any(part.schema != parts[0].schema for part in parts):  # a text is dictionary-encoded in some row groups only
        parts = [part.cast(manifests.SCHEMA) for part in parts]
    columns = pa.concat_tables(parts).unify_dictionaries().columns if parts else manifests.SCHEMA.empty_table().columns
    del parts
    for number, column in enumerate(columns):  # one after another, so that only one column is in memory twice
        columns[number] = column.combine_chunks()
    return pa.table(columns, names=list(manifests.COLUMNS))


def rows_of(table: pa.Table, positions: Sequence[int]) -> list[Row]:
    """Return the rows at positions of a table that :func:`joined` returned."""
    if len(positions) < FEW_ROWS:
        return [Row(*(column[position].as_py() for column in table.columns)) for position in positions]
    return list(manifests.table_rows(table.take(pa.array(positions)).combine_chunks()))


def rows_at(tables: Iterable[pa.Table], positions: NDArray[np.int64]) -> Iterator[Row]:
    """Yield the rows at positions of tables, in the order of ``positions``; one table at a time is held in full."""
    ascending = np.argsort(positions, kind="stable")
    wanted = positions[ascending]

    def kept() -> Iterator[pa.Table]:
        start = 0
        for table in tables:
            low, high = np.searchsorted(wanted, [start, start + table.num_rows])
            if low < high:
                yield table.take(pa.array(wanted[low:high] - start))
            start += table.num_rows

    places = np.empty_like(ascending)
    places[ascending] = np.arange(len(ascending))
    yield from manifests.table_rows(joined(kept()).take(pa.array(places)).combine_chunks())


def filters(
    transform: str | None = None, level: int | None = None, ids: Collection[str] | None = None
) -> manifests.Filters:
    """Return filters for the samples that did not fail, of one transform, level and collection of source images."""
    chosen: dict[str, Any] = {"status": [manifests.OK], "transform": [transform], "level": [level], "source_id": ids}
    return {name: values for name, values in chosen.items() if values not in (None, [None])}


def check_ids(ids: Iterable[str] | None) -> frozenset[str] | None:
    """Return ids of source images, or None for all; raise UserError for other values."""
    if ids is None:
        return None
    listed = [ids] if isinstance(ids, str) or not isinstance(ids, Iterable) else list(ids)
    if not listed or not all(isinstance(each, str) for each in listed):
        raise UserError(f"invalid ids {shown(repr(ids))}: pass the values of source_id to use, at least one")
    return frozenset(listed)


def check_samples(tables: Iterable[pa.Table], ids: frozenset[str] | None, unlabelled: bool, name: str) -> None:
    """Raise UserError if chosen source images are missing, or samples have no labels unless these are accepted.

    The tables need the column ``label`` and, if ids are chosen, ``source_id``.
    """
    found, without = set[str](), 0
    for table in tables:
        if ids is not None:
            found.update(pc.unique(table["source_id"].cast(pa.string())).to_pylist())
        without += pc.sum(pc.equal(table["label"], UNLABELLED)).as_py() or 0
    if ids is not None and (missing := sorted(ids - found)):
        raise UserError(
            f"{name} has no samples of {len(missing)} of the {len(ids)} ids, for example {shown(missing[0])}: use "
            "values of the column source_id of its manifest"
        )
    if without and not unlabelled:
        raise UserError(
            f"{name} has {counted(without, 'image')} without labels, so no accuracy can be computed: pass "
            f"unlabelled=True to get {UNLABELLED} as their label"
        )


def with_clean_images(data_set: DataSet, protocol: str | None, given: Mapping[str, Any]) -> DataSet:
    """Return the data set that a protocol shows: with clean images, if it mixes them in.

    Raises:
        UserError: The clean images are missing, or do not belong to the data set.
    """
    if find(protocol).name != IN_OUT:
        return data_set
    clean = checked_parameters(find(protocol), given)["clean"]
    if clean is None:
        raise UserError(
            f"the protocol {IN_OUT} mixes clean images in: give the parameter clean, the folder of a data set of them, "
            "for example of the recipe imagenet-c-clean"
        )
    return with_clean(data_set, clean if isinstance(clean, DataSet) else open_data_set(clean))


def read_schedule(
    data_set: DataSet,
    protocol: str | None,
    given: Mapping[str, Any],
    seed: int,
    *,
    conditions: Any = None,
    ids: Iterable[str] | None = None,
    subset: str | None = None,
    unlabelled: bool = True,
) -> tuple[Schedule, frozenset[str] | None, int]:
    """Return what a protocol shows of a data set, the ids of its source images, and how many of a subset are missing.

    Args:
        data_set: The data set, from :func:`with_clean_images`.
        protocol: Name of the protocol. None: continual.
        given: Parameters of the protocol, as values or text.
        seed: Seed of the orders.
        conditions: Conditions to show, as for ``Stream``. Default: those of the protocol.
        ids: Ids of the source images to show. Default: all. The ids that are returned are then None as well.
        subset: Name of a subset of them.
        unlabelled: Whether to accept samples without labels.

    Raises:
        UserError: An argument is invalid, or the data set lacks something that the protocol needs.
    """
    parameters = checked_parameters(find(protocol), given)
    listed = parameters.get("listed")
    if sum(each is not None for each in (ids, subset, listed)) > 1:
        raise UserError("invalid ids, subset and listed: pass one of them")
    named, missing = subset_ids(data_set, subset)
    chosen = check_ids(ids if listed is None else listed) if named is None else named
    found = defaultdict[Condition, list[NDArray[np.int32]]](list)
    ranks = defaultdict[Condition, list[NDArray[np.int32]]](list)
    names = None if listed is None else pa.array(listed)

    def kept() -> Iterator[pa.Table]:
        for table in data_set.tables(("transform", "level", "label", "source_id"), filters(ids=chosen)):
            for condition, part in condition_runs(table):
                found[condition].append(part["label"].to_numpy().astype(np.int32))
                if names is not None:
                    ranks[condition].append(pc.index_in(part["source_id"].cast(pa.string()), names).to_numpy())
            yield table

    check_samples(kept(), chosen, unlabelled, data_set.name)
    labels = {condition: np.concatenate(parts) for condition, parts in found.items()}
    schedule = schedule_of(labels, protocol, given, seed, data_set.name, conditions)
    if listed is not None:
        places = {condition: np.argsort(np.concatenate(parts)) for condition, parts in ranks.items()}
        digest = hashlib.sha256("\n".join(listed).encode("utf-8", "surrogatepass")).hexdigest()[:12]
        schedule = replace(schedule, listed=places, parameters={**schedule.parameters, "listed": digest})
    if isinstance(data_set, WithClean):
        digest = data_set.clean.manifest_digest()[:12]
        schedule = replace(schedule, parameters={**schedule.parameters, "clean": digest})
    return schedule, chosen, missing


def stream_rows(data_set: DataSet, schedule: Schedule, ids: frozenset[str] | None, wanted: Order) -> Iterator[Row]:
    """Yield the rows of the samples with these numbers in a stream, which ascend, of all or only some source images."""
    ends = np.cumsum(schedule.sizes)
    for entry, (step, size, end) in enumerate(zip(schedule.steps, schedule.sizes, ends, strict=True)):
        low, high = np.searchsorted(wanted, [end - size, end])
        for start in range(low, high, MAX_HELD):
            places = schedule.order(entry)[wanted[start : min(start + MAX_HELD, high)] - (end - size)]
            tables = (data_set.tables(manifests.COLUMNS, filters(*condition, ids)) for condition in step)
            yield from rows_at(chain.from_iterable(tables), places)


def write_order(data_set: DataSet, schedule: Schedule, ids: frozenset[str] | None, batch_size: int, path: str) -> None:
    """Write a Parquet file with a row for each sample of a stream, in order. Raise UserError if it is not writable."""
    names = dict[Condition, pa.Array]()
    for condition in schedule.shown:
        tables = data_set.tables(("source_id",), filters(*condition, ids))
        names[condition] = pa.concat_arrays(
            chunk for table in tables for chunk in table["source_id"].cast(pa.string()).chunks
        )
    schema = pa.schema(
        [
            *((name, pa.int64()) for name in ("batch", "entry")),
            *((name, pa.string()) for name in ("transform", "source_id")),
            *((name, pa.int64()) for name in ("level", "label")),
        ]
    )
    stops, first = schedule.batches(batch_size)[:, 1], 0
    try:
        with open(path, "wb") as file, pq.ParquetWriter(file, schema) as writer:
            for entry, which, index, labels in schedule.samples():
                step = schedule.steps[entry]
                starts = np.cumsum([0, *(len(names[condition]) for condition in step[:-1])])
                listed = pa.concat_arrays([names[condition] for condition in step])
                columns = {
                    "batch": np.searchsorted(stops, np.arange(first, first + len(index)), side="right"),
                    "entry": np.full(len(index), entry),
                    "transform": np.array([condition.transform for condition in step], object)[which],
                    "source_id": listed.take(pa.array(starts[which] + index)),
                    "level": np.array([condition.level for condition in step])[which],
                    "label": labels,
                }
                writer.write_table(pa.table(columns, schema))
                first += len(index)
    except OSError as error:
        raise UserError(f"cannot write {shown(path)}: {error.strerror or error}") from error


def subset_ids(data_set: DataSet, subset: str | None) -> tuple[frozenset[str] | None, int]:
    """Return the ids of the source images in a named subset, and the number of its images that are missing.

    Raises:
        UserError: There is no such subset, or the data set has none of its images.
    """
    if subset is None:
        return None, 0
    if subset != ROBUSTBENCH:
        raise UserError(f"invalid subset {shown(repr(subset))}: use {ROBUSTBENCH}, or ids")
    with (files(__package__) / f"{ROBUSTBENCH}.npy").open("rb") as file:
        numbers, found = frozenset(np.load(file).tolist()), dict[int, str]()
    for table in data_set.tables(("source_id",), filters()):
        for id_ in pc.unique(table["source_id"].cast(pa.string())).to_pylist():
            if (match := _VALIDATION_IMAGE.search(id_)) and int(match[1]) in numbers:
                found[int(match[1])] = id_
    if not found:
        raise UserError(
            f"{data_set.name} has none of the images of {subset}: use a source of ImageNet's validation images, whose "
            "names are ILSVRC2012_val_ and a number"
        )
    return frozenset(found.values()), len(numbers) - len(found)
