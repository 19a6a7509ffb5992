"""Rows of manifests."""

import pyarrow as pa

import manifests
from manifests import SCHEMA, Row

ROW = Row(
    key="a/1-fog-3",
    shard="shards/fog/3/fog-3-000000.tar",
    shard_sha256="ab" * 32,
    offset=512,
    size=10,
    source_id="a/1",
    source_sha256="cd" * 32,
    origin="a/1.jpg",
    label=0,
    class_name="a",
    transform="fog",
    version=1,
    level=3,
    profile="imagenet",
    decoder="pillow",
    resize="pillow-bilinear",
    frames=1,
    height=224,
    width=224,
    encoder="jpeg quality=85 optimize=true",
    payload_sha256="ef" * 32,
    pixel_sha256="01" * 32,
    status=manifests.OK,
    error=None,
)

FAILED = ROW._replace(
    key="a/2-fog-3", offset=None, size=None, frames=None, status=manifests.FAILED, error="the file is empty"
)


def repeated(count: int, row: Row = ROW) -> pa.Table:
    """Return a table of identical rows."""
    values = row._asdict()
    columns = [pa.repeat(pa.scalar(values[name], SCHEMA.field(name).type), count) for name in SCHEMA.names]
    return pa.Table.from_arrays(columns, schema=SCHEMA)
