"""What a manifest may hold: what a file announces is checked before memory is taken for it."""

from __future__ import annotations

import binascii
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from manifests.footer import LARGEST_FOOTER, RowGroup
from manifests.schema import FAILED, OK

MOST_ROWS, MOST_ROW_GROUPS = 2**24, 2**14

MOST_FREE_ROWS, LEAST_ROW_BYTES = 2**20, 8
"""Rows that a file may have however small it is, and bytes for each where it has more: digests do not compress."""

LARGEST_GROUP_ROWS, LARGEST_GROUP_BYTES = 2**20, 2**28
"""Rows of a row group, and bytes of it once decompressed."""

LONGEST_TEXT = 2**13
"""Bytes of a text in a row."""

LONGEST_ERROR = LONGEST_TEXT // 4
"""Characters that are kept of the reason why a sample has failed."""

SHOWN = 80
"""Characters of a value that a message repeats."""

THRIFT: Mapping[str, int] = {"thrift_string_size_limit": LARGEST_FOOTER, "thrift_container_size_limit": 2**17}


class Bounds(NamedTuple):
    """The lowest and the highest whole number that a column may hold."""

    lowest: int
    highest: int


EVERY_ROW: Mapping[str, Bounds] = {
    "label": Bounds(-1, 2**20),
    "level": Bounds(0, 1000),
    "version": Bounds(0, 2**20),
}
"""Columns of every row."""

OK_ROWS: Mapping[str, Bounds] = {
    "offset": Bounds(0, 2**50),
    "size": Bounds(1, 2**28),
    "frames": Bounds(1, 1000),
    "height": Bounds(1, 2**26),
    "width": Bounds(1, 2**26),
}
"""Columns of rows that are ``ok``: what others say of a payload is not used."""

MOST_PIXELS = 2**26
"""Pixels of a sample, all frames together."""

PAYLOAD = (*OK_ROWS, "payload_sha256", "pixel_sha256")
"""Columns that a row that is ``ok`` must fill."""

DIGESTS = ("shard_sha256", "source_sha256", "payload_sha256", "pixel_sha256")
DIGEST, DIGEST_LENGTH = "^([0-9a-fA-F]{64})?$", 64
"""Empty where a failed row has none."""

LEADS_OUT = r"^$|^/|\x00|(^|/)\.\.(/|$)"
"""Names of shards that are no path inside of the data set."""


def check_announced(name: str, size: int, groups: Sequence[RowGroup]) -> None:
    """Raise ValueError where the footer of a manifest of ``size`` bytes announces more than a manifest may hold."""
    rows = sum(group.rows for group in groups)
    allowed = MOST_ROWS if rows * LEAST_ROW_BYTES <= size else MOST_FREE_ROWS
    if not 0 <= rows <= allowed:
        raise ValueError(f"{name} announces {rows} rows in {size} bytes: at most {allowed} are allowed")
    if len(groups) > MOST_ROW_GROUPS:
        raise ValueError(f"{name} announces {len(groups)} row groups: at most {MOST_ROW_GROUPS} are allowed")
    for group in groups:
        check_row_group(name, group.rows, max(group.size, sum(column.uncompressed for column in group.columns)))
        if any(column.compressed > size for column in group.columns):
            raise ValueError(f"{name} announces more compressed bytes than it has: it is damaged")


def check_row_group(name: str, rows: int, size: int) -> None:
    """Raise ValueError for a row group of so many rows and bytes, once decompressed."""
    if not 0 <= rows <= LARGEST_GROUP_ROWS:
        raise ValueError(f"{name} announces a row group of {rows} rows: at most {LARGEST_GROUP_ROWS} are allowed")
    if size > LARGEST_GROUP_BYTES:
        raise ValueError(f"{name} announces a row group of {size} bytes: at most {LARGEST_GROUP_BYTES} are allowed")


def check_indices(name: str, table: pa.Table) -> None:
    """Raise ValueError for indices beyond their dictionary, which Arrow reads as they are, and follows anywhere."""
    for column, values in zip(table.column_names, table.columns, strict=True):
        for chunk in values.chunks if pa.types.is_dictionary(values.type) else ():
            found = pc.min_max(chunk.indices).as_py()
            if found["min"] is not None and not 0 <= found["min"] <= found["max"] < len(chunk.dictionary):
                raise ValueError(f"{name}: {column} has indices beyond its dictionary: the file is damaged")


def check_values(name: str, columns: Mapping[str, pa.Array]) -> None:
    """Raise ValueError for values that no sound manifest holds: column -> values of the same rows.

    What holds for rows that are ``ok`` is checked where ``status`` is among the columns.
    """
    for fault in _faults(columns):
        raise ValueError(f"{name}: {fault}")


def _faults(columns: Mapping[str, pa.Array]) -> Iterator[str]:
    """Yield what is wrong; nothing is unfolded from a dictionary before its texts are known to be short."""
    for column, values in columns.items():
        distinct = values.dictionary if isinstance(values, pa.DictionaryArray) else values
        if pa.types.is_string(distinct.type):
            longest = pc.max(pc.binary_length(distinct)).as_py() or 0
            if longest > LONGEST_TEXT:
                yield f"{column} holds a text of {longest} bytes: at most {LONGEST_TEXT} are allowed"
        if column in EVERY_ROW:
            yield from _out_of_bounds(column, distinct, EVERY_ROW[column])
        elif column in DIGESTS and not _are_digests(distinct):
            wrong = pc.invert(pc.match_substring_regex(distinct, DIGEST))
            yield f"{_first(column, distinct, wrong)}: 64 hexadecimal digits are allowed"
        elif column == "shard" and pc.any(leads_out := pc.match_substring_regex(distinct, LEADS_OUT)).as_py():
            yield f"{_first(column, distinct, leads_out)}: a path inside of the data set is allowed"
        elif column == "status" and not pc.all(known := pc.is_in(distinct, pa.array([OK, FAILED]))).as_py():
            yield f"{_first(column, distinct, pc.invert(known))}: {OK} and {FAILED} are allowed"
    if "status" in columns:
        is_ok = pc.equal(unfolded(columns["status"]), OK)
        yield from _faults_of_ok_rows({name: columns[name] for name in PAYLOAD if name in columns}, is_ok)


def _faults_of_ok_rows(columns: Mapping[str, pa.Array], is_ok: pa.Array) -> Iterator[str]:
    some_failed = not pc.all(is_ok).as_py()
    of_ok = {name: unfolded(values) for name, values in columns.items()}
    if some_failed:
        of_ok = {name: values.filter(is_ok) for name, values in of_ok.items()}
    for column, values in of_ok.items():
        if values.null_count or (column in DIGESTS and pc.min(pc.binary_length(values)).as_py() == 0):
            yield f"{column} is empty in a row that is {OK}"
        if column in OK_ROWS:
            yield from _out_of_bounds(column, values, OK_ROWS[column])
    if of_ok.keys() >= {"frames", "height", "width"}:
        # Each is within its bounds by now, so that the products stay within 64 bits.
        image = pc.multiply(of_ok["height"], of_ok["width"])
        pixels = pc.max(pc.multiply(of_ok["frames"], image)).as_py() or 0
        if pixels > MOST_PIXELS:
            yield f"frames x height x width is {pixels}: at most {MOST_PIXELS} are allowed"


def unfolded(values: pa.Array) -> pa.Array:
    """Return the values of a dictionary's indices; others as they are."""
    return values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values


def _out_of_bounds(column: str, values: pa.Array, bounds: Bounds) -> Iterator[str]:
    found = pc.min_max(values).as_py()
    for value in (found["min"], found["max"]):
        if value is not None and not bounds.lowest <= value <= bounds.highest:
            yield f"{column} is {value}: {bounds.lowest} to {bounds.highest} are allowed"


def _first(column: str, values: pa.Array, wrong: pa.Array) -> str:
    value: str = values.filter(wrong)[0].as_py()
    return f"{column} is {value[:SHOWN]!a}"


def _are_digests(values: pa.StringArray) -> bool:
    """Whether all are 64 hexadecimal digits or empty; by their bytes, since a pattern takes six times as long."""
    lengths = pc.unique(pc.binary_length(values)).drop_null().to_pylist()
    if not set(lengths) <= {0, DIGEST_LENGTH}:
        return False
    _, offsets, content = values.buffers()
    if content is None or not len(values):
        return True
    places = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    try:
        binascii.unhexlify(content[int(places[0]) : int(places[-1])])
    except binascii.Error:
        return False
    return True
