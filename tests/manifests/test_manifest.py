from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import manifests
from manifests import Row

ROW = Row(
    key="a/1-fog-3",
    shard="shards/fog/3/fog-3-000000.tar",
    shard_sha256="ab",
    offset=512,
    size=10,
    source_id="a/1",
    source_sha256="cd",
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
    payload_sha256="ef",
    pixel_sha256="01",
    status=manifests.OK,
    error=None,
)
FAILED = replace(
    ROW, key="a/2-fog-3", offset=None, size=None, frames=None, status=manifests.FAILED, error="the file is empty"
)


def test_rows_and_facts_come_back(tmp_path: Path) -> None:
    path = tmp_path / "part.parquet"
    manifests.write_part([ROW, FAILED], {"task": "x"}, path)
    assert list(manifests.read_rows(path)) == [ROW, FAILED]
    assert manifests.read_facts(path) == {"task": "x"}


def test_columns_cover_the_design() -> None:
    wanted = "key shard offset size source_id source_sha256 label class_name transform version level profile frames"
    wanted += " height width encoder payload_sha256 pixel_sha256 status error"
    assert set(wanted.split()) <= set(manifests.COLUMNS)
    assert tuple(manifests.SCHEMA.names) == manifests.COLUMNS


def test_same_rows_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        manifests.write_part([ROW, FAILED], {"task": "x"}, tmp_path / name)
        manifests.merge([tmp_path / name] * 3, {"plan": "y"}, tmp_path / f"merged-{name}")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert (tmp_path / "merged-one").read_bytes() == (tmp_path / "merged-two").read_bytes()


def test_merging_keeps_the_order_and_collects_row_groups(tmp_path: Path) -> None:
    parts = []
    for part in range(100):
        rows = [replace(ROW, key=f"{part}-{index}") for index in range(1000)]
        parts.append(tmp_path / f"{part}.parquet")
        manifests.write_part(rows, {}, parts[-1])
    merged = tmp_path / "merged.parquet"
    assert manifests.merge(parts, {"plan": "y"}, merged) == 100_000
    keys = [row.key for row in manifests.read_rows(merged)]
    assert keys == [f"{part}-{index}" for part in range(100) for index in range(1000)]
    assert pq.ParquetFile(merged).num_row_groups == 2
    assert manifests.read_facts(merged) == {"plan": "y"}


def test_missing_damaged_and_foreign_parts_are_refused(tmp_path: Path) -> None:
    good, damaged, foreign = tmp_path / "good", tmp_path / "damaged", tmp_path / "foreign"
    manifests.write_part([ROW], {"task": "x"}, good)
    damaged.write_bytes(good.read_bytes()[:-20])
    pq.write_table(pa.table({"x": [1]}), foreign)
    for part in (tmp_path / "missing", damaged, foreign):
        with pytest.raises(manifests.MergeError, match=part.name):
            manifests.merge([good, part], {}, tmp_path / "merged")
    assert manifests.read_facts(tmp_path / "missing") == manifests.read_facts(damaged) == {}
    with pytest.raises(ValueError, match="not a readable Parquet"):
        list(manifests.read_rows(damaged))
    with pytest.raises(ValueError, match="other columns"):
        list(manifests.read_rows(foreign))


def test_nulls_only_where_the_schema_allows(tmp_path: Path) -> None:
    with pytest.raises(pa.ArrowInvalid):
        manifests.write_part([replace(ROW, key=None)], {}, tmp_path / "part")
