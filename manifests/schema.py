"""What a manifest row says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, get_type_hints

import pyarrow as pa

OK = "ok"
FAILED = "failed"


class Row(NamedTuple):
    """One sample. A failed one has no place in a shard: its payload columns are null, ``error`` says why.

    ``shard`` is relative to the data set; ``offset`` and ``size`` (bytes) are those of the payload inside that tar: of
    a sequence with one member per frame, from the first byte of the first frame to the last of the last, tar headers
    between them included. ``frames`` is 1 for an image. ``payload_sha256`` is of the payload members one after another.
    ``origin`` is the file's path inside the source. ``label`` is -1 and ``class_name`` empty without class folders.
    ``decoder`` and ``resize`` are those through which the photograph was prepared.
    ``version`` is the transform's: it changes whenever its pixels do. ``pixel_sha256`` is of the decoded array's
    bytes (C order, uint8, (frames x) height x width x 3): with an equal ``payload_sha256`` it tells a changed decoder
    from changed data. Digests are lower-case hexadecimal.
    """

    key: str
    shard: str
    shard_sha256: str
    offset: int | None
    size: int | None
    source_id: str
    source_sha256: str | None
    origin: str
    label: int
    class_name: str
    transform: str
    version: int
    level: int
    profile: str
    decoder: str
    resize: str
    frames: int | None
    height: int | None
    width: int | None
    encoder: str
    payload_sha256: str | None
    pixel_sha256: str | None
    status: str
    error: str | None


COLUMNS = Row._fields

_TYPES: Mapping[Any, pa.Field] = {
    str: pa.field("", pa.string(), nullable=False),
    str | None: pa.field("", pa.string()),
    int: pa.field("", pa.int64(), nullable=False),
    int | None: pa.field("", pa.int64()),
}

SCHEMA = pa.schema([_TYPES[kind].with_name(name) for name, kind in get_type_hints(Row).items()])
"""The Arrow schema of a manifest, derived from :class:`Row`."""
