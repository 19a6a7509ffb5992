"""Limits of a manifest, which may come from an untrusted source: sizes are checked before memory is allocated."""

import binascii
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from manifests.footer import MAX_FOOTER, RowGroup
from manifests.schema import FAILED, OK

MAX_ROWS, MAX_ROW_GROUPS = 2**24, 2**14
"""Maximum numbers of rows and of row groups of a manifest."""

MAX_ROWS_OF_SMALL_FILE, MIN_ROW_BYTES = 2**20, 8
"""A file with more rows than this must have at least this many bytes per row, since digests do not compress."""

MAX_GROUP_ROWS, MAX_GROUP_BYTES = 2**20, 2**28
"""Maximum number of rows of a row group, and its maximum size after decompression, in bytes."""

MAX_TEXT = 2**13
"""Maximum size of a text, in bytes."""

MAX_ERROR = MAX_TEXT // 4
"""Number of characters to which the error of a failed sample is shortened."""

MAX_QUOTED = 80
"""Number of characters of an invalid value that an error message quotes."""

THRIFT: Mapping[str, int] = {"thrift_string_size_limit": MAX_FOOTER, "thrift_container_size_limit": 2**17}
"""Limits for Arrow's own reader of footers."""


class Bounds(NamedTuple):
    """The minimum and the maximum of an integer column."""

    lowest: int
    highest: int


EVERY_ROW: Mapping[str, Bounds] = {"label": Bounds(-1, 2**20), "level": Bounds(0, 2**20), "version": Bounds(0, 2**20)}
"""Bounds that hold for every row."""

OK_ROWS: Mapping[str, Bounds] = {
    "offset": Bounds(0, 2**50),
    "size": Bounds(1, 2**28),
    "frames": Bounds(1, 1000),
    "height": Bounds(1, 2**26),
    "width": Bounds(1, 2**26),
}
"""Bounds that hold for rows with the status ``ok``. Failed rows have no payload, and these columns are not used."""

MAX_SAMPLE_PIXELS = 2**26
"""Maximum number of pixels of a sample, summed over frames."""

PAYLOAD = (*OK_ROWS, "payload_sha256", "pixel_sha256")
"""Columns that are required in rows with the status ``ok``."""

DIGESTS = ("shard_sha256", "source_sha256", "payload_sha256", "pixel_sha256")
DIGEST, DIGEST_LENGTH = "^([0-9a-fA-F]{64})?$", 64
"""Pattern and length of a digest; failed rows may have empty ones."""

OUTSIDE_PATH = r"^$|^/|\x00|(^|/)\.\.(/|$)"
"""Pattern of shard names that are empty, absolute, or lead out of the data set."""


def check_footer(name: str, size: int, groups: Sequence[RowGroup]) -> None:
    """Raise ValueError if a size in the footer of a file of ``size`` bytes exceeds the limit of a manifest."""
    rows = sum(group.rows for group in groups)
    allowed = MAX_ROWS if rows * MIN_ROW_BYTES <= size else MAX_ROWS_OF_SMALL_FILE
    if not 0 <= rows <= allowed:
        raise ValueError(f"{name} declares {rows} rows in {size} bytes: at most {allowed} are allowed")
    if len(groups) > MAX_ROW_GROUPS:
        raise ValueError(f"{name} declares {len(groups)} row groups: at most {MAX_ROW_GROUPS} are allowed")
    for group in groups:
        check_row_group(name, group.rows, max(group.size, sum(column.uncompressed for column in group.columns)))
        if any(column.compressed > size for column in group.columns):
            raise ValueError(f"{name} declares more compressed bytes than the file has: it is damaged")


def check_row_group(name: str, rows: int, size: int) -> None:
    """Raise ValueError if a row group has too many rows, or too many bytes after decompression."""
    if not 0 <= rows <= MAX_GROUP_ROWS:
        raise ValueError(f"{name} declares a row group of {rows} rows: at most {MAX_GROUP_ROWS} are allowed")
    if size > MAX_GROUP_BYTES:
        raise ValueError(f"{name} declares a row group of {size} bytes: at most {MAX_GROUP_BYTES} are allowed")


def check_indices(name: str, table: pa.Table) -> None:
    """Raise ValueError if an index is outside of the dictionary of its column: Arrow itself would read there."""
    for column, values in zip(table.column_names, table.columns, strict=True):
        for chunk in values.chunks if pa.types.is_dictionary(values.type) else ():
            extremes = pc.min_max(chunk.indices).as_py()
            if extremes["min"] is not None and not 0 <= extremes["min"] <= extremes["max"] < len(chunk.dictionary):
                raise ValueError(f"{name}: {column} has indices outside of its dictionary: the file is damaged")


def check_values(name: str, columns: Mapping[str, pa.Array]) -> None:
    """Raise ValueError if a value exceeds the limits of a manifest.

    Args:
        name: Name of the file, for messages.
        columns: Column name -> values, of the same rows. Limits of rows with the status ``ok`` are checked only if
            ``status`` is among the columns.
    """
    for fault in _faults(columns):
        raise ValueError(f"{name}: {fault}")


def _faults(columns: Mapping[str, pa.Array]) -> Iterator[str]:
    """Yield a message for each fault; texts are checked in their dictionary, before any is decoded."""
    for column, values in columns.items():
        distinct = values.dictionary if isinstance(values, pa.DictionaryArray) else values
        if pa.types.is_string(distinct.type):
            longest = pc.max(pc.binary_length(distinct)).as_py() or 0
            if longest > MAX_TEXT:
                yield f"{column} has a text of {longest} bytes: at most {MAX_TEXT} are allowed"
        if column in EVERY_ROW:
            yield from _out_of_bounds(column, distinct, EVERY_ROW[column])
        elif column in DIGESTS and not _are_digests(distinct):
            wrong = pc.invert(pc.match_substring_regex(distinct, DIGEST))
            yield f"{_first(column, distinct, wrong)}: use 64 hexadecimal digits"
        elif column == "shard" and pc.any(outside := pc.match_substring_regex(distinct, OUTSIDE_PATH)).as_py():
            yield f"{_first(column, distinct, outside)}: use a path inside of the data set"
        elif column == "status" and not pc.all(known := pc.is_in(distinct, pa.array([OK, FAILED]))).as_py():
            yield f"{_first(column, distinct, pc.invert(known))}: use {OK} or {FAILED}"
    if "status" in columns:
        is_ok = pc.equal(decode_dictionary(columns["status"]), OK)
        yield from _faults_of_ok_rows({name: columns[name] for name in PAYLOAD if name in columns}, is_ok)


def _faults_of_ok_rows(columns: Mapping[str, pa.Array], is_ok: pa.Array) -> Iterator[str]:
    some_failed = not pc.all(is_ok).as_py()
    ok_rows = {name: decode_dictionary(values) for name, values in columns.items()}
    if some_failed:
        ok_rows = {name: values.filter(is_ok) for name, values in ok_rows.items()}
    for column, values in ok_rows.items():
        if values.null_count or (column in DIGESTS and pc.min(pc.binary_length(values)).as_py() == 0):
            yield f"{column} is empty in a row with the status {OK}"
        if column in OK_ROWS:
            yield from _out_of_bounds(column, values, OK_ROWS[column])
    if ok_rows.keys() >= {"frames", "height", "width"}:
        # The bounds of each factor have been checked, so the products fit 64 bits.
        image = pc.multiply(ok_rows["height"], ok_rows["width"])
        pixels = pc.max(pc.multiply(ok_rows["frames"], image)).as_py() or 0
        if pixels > MAX_SAMPLE_PIXELS:
            yield f"frames x height x width is {pixels}: at most {MAX_SAMPLE_PIXELS} are allowed"


def decode_dictionary(values: pa.Array) -> pa.Array:
    """Return a dictionary array as a plain array, and any other array unchanged."""
    return values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values


def _out_of_bounds(column: str, values: pa.Array, bounds: Bounds) -> Iterator[str]:
    extremes = pc.min_max(values).as_py()
    for value in (extremes["min"], extremes["max"]):
        if value is not None and not bounds.lowest <= value <= bounds.highest:
            yield f"{column} is {value}: use {bounds.lowest} to {bounds.highest}"


def _first(column: str, values: pa.Array, wrong: pa.Array) -> str:
    value: str = values.filter(wrong)[0].as_py()
    return f"{column} is {value[:MAX_QUOTED]!a}"


def _are_digests(values: pa.StringArray) -> bool:
    """Return whether every value is empty or 64 hexadecimal digits; decoding bytes is faster than a pattern."""
    lengths = pc.unique(pc.binary_length(values)).drop_null().to_pylist()
    if not set(lengths) <= {0, DIGEST_LENGTH}:
        return False
    _, offsets, content = values.buffers()
    if content is None or not len(values):
        return True
    starts = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    try:
        binascii.unhexlify(content[int(starts[0]) : int(starts[-1])])
    except binascii.Error:
        return False
    return True
