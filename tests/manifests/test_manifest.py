"""Writing, merging and reading of manifests."""

from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import dataset

import manifests
from manifests.footer import MAX_FOOTER, read_footer
from tests.factories.manifest_rows import FAILED, ROW


def test_rows_and_facts_are_read_as_written(tmp_path: Path) -> None:
    path = tmp_path / "part.parquet"
    manifests.write_part([ROW, FAILED], {"task": "x"}, path)
    assert list(manifests.read_rows(path)) == [ROW, FAILED]
    assert manifests.read_facts(path) == {"task": "x"}


def test_schema_has_the_documented_columns() -> None:
    wanted = "key shard offset size source_id source_sha256 label class_name transform version level profile frames"
    wanted += " height width encoder payload_sha256 pixel_sha256 status error"
    assert set(wanted.split()) <= set(manifests.COLUMNS)
    assert tuple(manifests.SCHEMA.names) == manifests.COLUMNS


def test_conditions_beyond_a_number_share_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row group for each of more than about 5,400 conditions would make the footer larger than readers accept."""
    monkeypatch.setattr("manifests.files._MAX_APART", 2)
    levels = [1, 2, 3, 4]
    for level in levels:
        manifests.write_part([ROW._replace(level=level)], {}, tmp_path / f"{level}")
    manifests.merge([[tmp_path / f"{level}"] for level in levels], {}, tmp_path / "merged")
    assert [group.rows for group in manifests.read_row_groups(tmp_path / "merged")] == [1, 1, 2]
    assert [row.level for row in manifests.read_rows(tmp_path / "merged")] == levels
    assert list(manifests.read_columns(tmp_path / "merged", ["level"], {"level": [2, 4]})) == [(2,), (4,)]


@pytest.mark.parametrize("name", ["key", "shard", "source_id", "origin", "class_name", "profile", "encoder"])
def test_long_texts_do_not_fill_the_footer(name: str, tmp_path: Path) -> None:
    """2,048 row groups with texts of 240 characters had a footer that readers refuse."""
    sizes = []
    for length in (1, 4000):
        manifests.write_part([ROW._replace(**{name: "x" * length})], {}, tmp_path / "part")
        manifests.merge([[tmp_path / "part"]] * 10, {}, tmp_path / "merged")
        with (tmp_path / "merged").open("rb") as file:
            sizes.append(len(read_footer(file)) / 10)
    assert sizes[1] - sizes[0] < 50
    assert sizes[1] < MAX_FOOTER / 2**11


def test_equal_rows_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        manifests.write_part([ROW, FAILED], {"task": "x"}, tmp_path / name)
        manifests.merge([[tmp_path / name] * 3], {"plan": "y"}, tmp_path / f"merged-{name}")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert (tmp_path / "merged-one").read_bytes() == (tmp_path / "merged-two").read_bytes()


PARTS = {("fog", 1): 3, ("fog", 3): 70, ("frost", 3): 2}
ROWS_PER_PART = 1000
KEYS = [(*condition, str(row)) for condition, parts in PARTS.items() for row in range(parts * ROWS_PER_PART)]


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three conditions in parts of 1,000 rows; one condition has more rows than fit a row group."""
    folder = tmp_path_factory.mktemp("merged")
    groups = []
    for (transform, level), parts in PARTS.items():
        groups.append([folder / f"{transform}-{level}-{part}" for part in range(parts)])
        for part, path in enumerate(groups[-1]):
            first = part * ROWS_PER_PART
            rows = [
                ROW._replace(key=f"{first + index}", transform=transform, level=level) for index in range(ROWS_PER_PART)
            ]
            manifests.write_part(rows, {}, path)
    assert manifests.merge(groups, {"plan": "y"}, folder / "merged") == (75_000, {"plan": "y"})
    return folder / "merged"


def test_merge_keeps_the_order_and_separates_conditions_by_row_groups(merged: Path) -> None:
    assert [(row.transform, row.level, row.key) for row in manifests.read_rows(merged)] == KEYS
    assert manifests.read_facts(merged) == {"plan": "y"}
    metadata = pq.read_metadata(merged)
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    assert [group.num_rows for group in groups] == [3_000, 66_000, 4_000, 2_000]
    columns = [manifests.COLUMNS.index(name) for name in ("transform", "level")]
    bounds = [[group.column(column).statistics for column in columns] for group in groups]
    conditions = [["fog", 1], ["fog", 3], ["fog", 3], ["frost", 3]]
    assert [[each.min for each in pair] for pair in bounds] == conditions
    assert [[each.max for each in pair] for pair in bounds] == conditions


def test_repeating_columns_use_dictionaries_and_the_others_zstd(merged: Path) -> None:
    metadata = pq.read_metadata(merged)
    columns = [metadata.row_group(1).column(index) for index in range(metadata.num_columns)]
    encoding = {each.path_in_schema: (each.has_dictionary_page, each.compression) for each in columns}
    distinct = {"key", "offset", "size", "source_id", "source_sha256", "origin", "payload_sha256", "pixel_sha256"}
    compressed, dictionary = (False, "ZSTD"), (True, "UNCOMPRESSED")
    assert encoding == {name: compressed if name in distinct else dictionary for name in manifests.COLUMNS}
    assert sum(each.total_compressed_size for each in columns if each.path_in_schema not in distinct) < 20_000


def test_filters_skip_row_groups_of_other_conditions(merged: Path, tmp_path: Path) -> None:
    metadata = pq.read_metadata(merged)
    copy = tmp_path / "copy"
    copy.write_bytes(merged.read_bytes())
    with open(copy, "r+b") as file:  # destroy every row group but that of frost
        for group in range(3):
            columns = [metadata.row_group(group).column(index) for index in range(metadata.num_columns)]
            for column in columns:
                file.seek(column.dictionary_page_offset or column.data_page_offset)
                file.write(bytes(column.total_compressed_size))
    for filters in ({"transform": ["frost"]}, {"level": [3], "transform": ["frost", "snow"]}):
        rows = list(manifests.read_rows(copy, filters))
        assert [(row.transform, row.level) for row in rows] == [("frost", 3)] * 2_000
        assert [row.key for row in rows] == [str(row) for row in range(2_000)]
    assert list(manifests.read_columns(merged, ("transform", "key"), {"key": ["7", "69999"]})) == [
        ("fog", "7"),
        ("fog", "7"),
        ("fog", "69999"),
        ("frost", "7"),
    ]
    tables = list(manifests.read_tables(copy, ("level", "key"), {"transform": ["frost"], "key": ["5", "1999"]}))
    assert [table.to_pylist() for table in tables] == [[{"level": 3, "key": "5"}, {"level": 3, "key": "1999"}]]
    assert list(manifests.read_rows(copy, {"transform": ["snow"]})) == []
    with pytest.raises((ValueError, OSError)):
        list(manifests.read_rows(copy))


def test_other_parquet_readers_can_filter_by_condition(merged: Path) -> None:
    fog = pc.field("transform") == "fog"
    (fragment,) = dataset.dataset(merged).get_fragments()
    assert [each.row_groups[0].id for each in fragment.split_by_row_group(fog)] == [0, 1, 2]
    assert pq.read_table(merged, filters=[("transform", "==", "fog"), ("level", "==", 3)]).num_rows == 70_000
    query = f"SELECT count(*) FROM read_parquet('{merged}') WHERE transform = 'fog' AND level = 3"
    assert duckdb.connect().execute(query).fetchall() == [(70_000,)]
    lazy = polars.scan_parquet(merged).filter(polars.col("transform") == "fog", polars.col("level") == 3)
    assert lazy.collect().height == 70_000


def test_empty_groups_have_no_row_group(tmp_path: Path) -> None:
    for name, rows in (("empty", []), ("full", [ROW])):
        manifests.write_part(rows, {}, tmp_path / name)
    assert manifests.merge([[tmp_path / "empty"], [tmp_path / "full"], []], {}, tmp_path / "merged").rows == 1
    assert pq.read_metadata(tmp_path / "merged").num_row_groups == 1
    assert manifests.merge([[tmp_path / "empty"]], {"plan": "y"}, tmp_path / "none").rows == 0
    assert list(manifests.read_rows(tmp_path / "none")) == []
    assert manifests.read_facts(tmp_path / "none") == {"plan": "y"}


def test_merge_sums_the_named_metadata_values(tmp_path: Path) -> None:
    for name, failed in (("one", 2), ("two", 40)):
        manifests.write_part([ROW], {"failed": str(failed), "task": name}, tmp_path / name)
    groups = [[tmp_path / "one"], [("two", (tmp_path / "two").read_bytes())]]
    merged = manifests.merge(groups, {"plan": "y"}, tmp_path / "merged", summed=["failed"])
    assert merged == (2, {"plan": "y", "failed": "42"})
    assert manifests.read_facts(tmp_path / "merged") == merged.facts
    with pytest.raises(manifests.MergeError, match="one has no metadata value 'changed'"):
        manifests.merge(groups, {}, tmp_path / "merged", summed=["failed", "changed"])


def test_merge_rejects_missing_damaged_and_foreign_parts(tmp_path: Path) -> None:
    good, damaged, foreign = tmp_path / "good", tmp_path / "damaged", tmp_path / "foreign"
    manifests.write_part([ROW], {"task": "x"}, good)
    damaged.write_bytes(good.read_bytes()[:-20])
    pq.write_table(pa.table({"x": [1]}), foreign)
    for part in (tmp_path / "missing", damaged, foreign):
        with pytest.raises(manifests.MergeError, match=part.name):
            manifests.merge([[good, part]], {}, tmp_path / "merged")
    assert manifests.read_facts(tmp_path / "missing") == manifests.read_facts(damaged) == {}
    with pytest.raises(ValueError, match="not a readable Parquet"):
        list(manifests.read_rows(damaged))
    with pytest.raises(ValueError, match="other columns"):
        list(manifests.read_rows(foreign))


def test_null_in_a_required_column_raises(tmp_path: Path) -> None:
    with pytest.raises(pa.ArrowInvalid):
        manifests.write_part([ROW._replace(key=None)], {}, tmp_path / "part")
