"""The columns of a manifest."""

from collections.abc import Mapping
from typing import Any, NamedTuple, get_type_hints

import pyarrow as pa

OK = "ok"
FAILED = "failed"


class Row(NamedTuple):
    """The manifest row of one sample. All digests are SHA-256 in lower-case hexadecimal.

    The defaults are those of a failed sample of which nothing is known.

    Attributes:
        key: Key of the sample in its shard: class folder, file name, transform and level.
        shard: Path of the tar inside of the data set.
        shard_sha256: Digest of the tar.
        offset: Offset of the payload in the tar, in bytes. In a rendered data set, which has no tars, the index of the
            source image in the listing. None if the sample failed.
        size: Size of the payload in bytes. For a sequence with one member per frame: from the first byte of the first
            frame to the last byte of the last one, including the tar headers between them. None if the sample failed.
        source_id: Id of the source image.
        source_sha256: Digest of the source image. None if it could not be read.
        origin: Path of the source image inside of the source.
        label: Class index; -1 for sources without labels.
        class_name: Name of the class; empty for sources without class names.
        transform: Corruption, perturbation, or pair of decoder and resize operator.
        version: Version of the transform. Every change of its pixels increases it.
        level: Severity or difficulty; 0 for transforms without levels.
        profile: Name of the parameter tables, for example ``imagenet``.
        decoder: Decoder of the source image.
        resize: Resize operator.
        frames: Number of frames; 1 for an image. None if the sample failed.
        height: Height in pixels. None if the sample failed.
        width: Width in pixels. None if the sample failed.
        encoder: Format of the payload, with its settings.
        payload_sha256: Digest of the payload members, joined. None if the sample failed.
        pixel_sha256: Digest of the decoded pixels (uint8, C order, shape ([frames,] height, width, 3)). If it differs
            for an equal ``payload_sha256``, the decoder differs, not the data. None if the sample failed, and in rows
            of a rendered data set, as are ``size`` and ``payload_sha256``.
        status: ``ok`` or ``failed``.
        error: The reason of the failure; None if ``status`` is ``ok``.
    """

    key: str = ""
    shard: str = ""
    shard_sha256: str = ""
    offset: int | None = None
    size: int | None = None
    source_id: str = ""
    source_sha256: str | None = None
    origin: str = ""
    label: int = -1
    class_name: str = ""
    transform: str = ""
    version: int = 0
    level: int = 0
    profile: str = ""
    decoder: str = ""
    resize: str = ""
    frames: int | None = None
    height: int | None = None
    width: int | None = None
    encoder: str = ""
    payload_sha256: str | None = None
    pixel_sha256: str | None = None
    status: str = FAILED
    error: str | None = None


COLUMNS = Row._fields


class ListedImage(NamedTuple):
    """A row of a listing: one source image of a data set that is rendered when it is read.

    Attributes:
        source_id: Id of the image.
        source_sha256: SHA-256 of the image. None if it could not be read.
        origin: Path of the image inside of the source.
        label: Class index; -1 for sources without labels.
        class_name: Name of the class; empty for sources without class names.
        length: Size of the image in the source, in bytes.
        left: Left edge of its box in pixels. None for the whole image, as for the other edges.
        top: Top edge.
        right: Right edge, exclusive.
        bottom: Bottom edge, exclusive.
        status: ``ok``; ``failed`` if it cannot be read, or is known to be damaged.
        error: The reason of the failure; None if ``status`` is ``ok``.
    """

    source_id: str
    source_sha256: str | None
    origin: str
    label: int
    class_name: str
    length: int
    left: int | None
    top: int | None
    right: int | None
    bottom: int | None
    status: str
    error: str | None


_TYPES: Mapping[Any, pa.Field] = {
    str: pa.field("", pa.string(), nullable=False),
    str | None: pa.field("", pa.string()),
    int: pa.field("", pa.int64(), nullable=False),
    int | None: pa.field("", pa.int64()),
}


def _schema_of(record: type) -> pa.Schema:
    return pa.schema([_TYPES[kind].with_name(name) for name, kind in get_type_hints(record).items()])


SCHEMA = _schema_of(Row)
"""The Arrow schema of a manifest, derived from :class:`Row`."""

LISTING = _schema_of(ListedImage)
"""The Arrow schema of a listing, derived from :class:`ListedImage`."""
