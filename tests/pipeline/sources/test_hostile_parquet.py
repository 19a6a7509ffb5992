"""Parquet files that are damaged, are decompression bombs, do not match each other, or have invalid labels."""

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import UserError
from pipeline.sources import hf_parquet
from pipeline.sources.kinds import open_source
from pipeline.storage import LocalStore
from tests.factories import layouts
from tests.factories.layouts import png, write

STRUCT = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def described(table: pa.Table, features: Any) -> pa.Table:
    """Return a table with features as Hugging Face datasets writes them."""
    return table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})


def parquet(path: Path, labels: object = (0, 1), names: Sequence[str] = (), column: str = "image", **options) -> Path:
    count = len(labels) if hasattr(labels, "__len__") else 2
    images = pa.array([{"bytes": png(index), "path": None} for index in range(count)], STRUCT)
    array = labels if isinstance(labels, pa.Array) else pa.array(labels)
    table = pa.table({column: images, "label": array})
    table = described(table, {"label": {"names": list(names)}}) if names else table
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **options)
    return path


def labels_of(location: Path) -> list[int]:
    return [image.label for image in open_source("hf-parquet", str(location))]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (pa.array([[1], [2]]), "the column label has type list<.*>; expected integers"),
        (pa.array(["cat", "dog"]), "the column label has type string"),
        (pa.array([1.0, float("nan")]), "the column label has type double"),
        (pa.array([True, False]), "the column label has type bool"),
        (pa.array([0, 2**62]), "x.parquet, column label, has the invalid label 4611686018427387904"),
        (pa.array([0, 2**64 - 1], pa.uint64()), "has the invalid label 18446744073709551615"),
        (pa.array([0, -7]), "has the invalid label -7: labels are integers from 0 to 1000000"),
    ],
)
def test_invalid_labels_raise(tmp_path: Path, labels: pa.Array, message: str) -> None:
    with pytest.raises(UserError, match=message):
        labels_of(parquet(tmp_path / "x.parquet", labels))


def test_a_downloaded_repository_is_detected(tmp_path: Path) -> None:
    """It has a card and a folder ``data``; suffixes can be in upper case, and other files are counted."""
    parquet(tmp_path / "data" / "test-00000-of-00001.PARQUET")
    for name in ("README.md", "dataset_infos.json", ".gitattributes"):
        write(tmp_path / name, "x")
    source = open_source("auto", str(tmp_path))
    assert [image.label for image in source] == [0, 1]
    assert source.ignored == {".md": 1, ".json": 1}


BREEDS = {"breed": {"_type": "ClassLabel", "names": ["a"]}, "image": {"_type": "Image"}}
"""Features with labels in a column whose name is not known. Its images would silently be unlabelled."""


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"image": [1, 2]}), "the column image has type int64; expected bytes"),
        (pa.table({"image": [{"path": "x"}]}), "the column image has type struct<path: string>"),
        (pa.table({"label": [0]}), "has no image column: expected one of image"),
        (pa.table([[b"1"], [b"2"]], names=["image", "image"]), "has the column image more than once"),
        (described(pa.table({"image": [png(0)], "breed": [3]}), BREEDS), "column 'breed': rename it to one of .*label"),
        (pa.table({"image": pa.nulls(10_001, pa.binary()), "label": pa.nulls(10_001)}), r"declares 10001 rows in \d+ "),
        (pa.table({"image": pa.nulls(40_000, pa.binary()), "label": range(40_000)}), r"declares 40000 rows in \d+ "),
    ],
)
def test_tables_without_images_or_with_too_many_rows_raise(tmp_path: Path, table: pa.Table, message: str) -> None:
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(UserError, match=message):
        labels_of(tmp_path)


def test_converted_webdataset_shards_and_binary_views_are_read(tmp_path: Path) -> None:
    table = pa.table({"jpg": pa.array([png(0), png(1)], pa.binary_view()), "cls": [7, 1], "__key__": ["a", "b"]})
    pq.write_table(table, tmp_path / "x.parquet")
    source = open_source("hf-parquet", str(tmp_path))
    assert [(image.label, source.read(image)) for image in source] == [(7, png(0)), (1, png(1))]


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"x" * 100, b"PAR1" + b"\xff" * 8 + struct.pack("<I", 2**31 - 1) + b"PAR1"]
)
def test_damaged_files_raise(tmp_path: Path, content: bytes) -> None:
    write(tmp_path / "x.parquet", content)
    with pytest.raises(UserError, match=r"x\.parquet in .* is not a valid Parquet file"):
        open_source("hf-parquet", str(tmp_path))


def test_only_files_that_are_not_hidden_are_read_whatever_their_names(tmp_path: Path) -> None:
    file = parquet(tmp_path / "x.parquet" / "a[1]*.parquet")  # a folder like a file, a file like a pattern
    for name in (".hidden/b.parquet", "__MACOSX/a.parquet", "._a.parquet", "@eaDir/a.parquet/x.parquet"):
        write(tmp_path / name, b"junk")
    assert labels_of(tmp_path) == labels_of(file) == [0, 1]


def test_a_file_may_have_no_rows(tmp_path: Path) -> None:
    for number, labels in enumerate(([], [1], [])):
        parquet(tmp_path / f"test-{number:05}-of-00003.parquet", pa.array(labels, pa.int64()))
    assert labels_of(tmp_path) == [1]


def test_labels_are_null_or_have_class_names(tmp_path: Path) -> None:
    assert labels_of(parquet(tmp_path / "x.parquet", pa.array([None, 1, -1]))) == [-1, 1, -1]
    assert labels_of(parquet(tmp_path / "y.parquet", pa.nulls(2))) == [-1, -1]
    with pytest.raises(UserError, match="row 1, has the label 2, but only 2 classes have names"):
        labels_of(parquet(tmp_path / "z.parquet", [0, 2], ["ant", "bee"]))
    for number, name in enumerate(("a" * 9000, "\ud800")):
        with pytest.raises(UserError, match=r"row 0, is of the class .* must be UTF-8 and have at most 8192 bytes"):
            labels_of(parquet(tmp_path / f"{number}.parquet", [0], [name]))


def test_truncated_and_overwritten_files_raise(tmp_path: Path) -> None:
    path = parquet(tmp_path / "x.parquet", list(range(20)), compression="zstd")
    content = path.read_bytes()
    path.write_bytes(content[:-100])
    with pytest.raises(UserError, match="is not a valid Parquet file"):
        labels_of(path)
    path.write_bytes(content[:4] + b"\xff" * 60 + content[64:])
    with pytest.raises(UserError, match=r"x\.parquet"):
        labels_of(path)


def test_a_broken_link_raises(tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"b\.parquet"):
        labels_of(tmp_path)


@pytest.mark.parametrize(
    "names",
    [
        ("train-00000-of-00001", "test-00000-of-00001"),
        ("data/train", "data/test"),
        ("train/0", "validation/0"),
        ("plain_text/cifar.Train.0", "plain_text/cifar.dev.0"),
        ("val_0", "test_0"),
    ],
)
def test_files_of_several_splits_raise(tmp_path: Path, names: tuple[str, str]) -> None:
    for name in names:
        parquet(tmp_path / f"{name}.parquet")
    with pytest.raises(UserError, match=r"more than one split: .*give one file, one folder, or a pattern"):
        open_source("hf-parquet", str(tmp_path))
    assert len(labels_of(tmp_path / f"{names[1]}.parquet")) == 2


def test_a_pattern_selects_files(tmp_path: Path) -> None:
    folder = layouts.hf_parquet(tmp_path)
    parquet(folder / "test-00000-of-00001.parquet")
    for location in (str(folder / "validation-*.parquet"), f"file://{folder}/validation-*.parquet"):
        assert len(list(open_source("auto", location))) == 5
    first = next(iter(open_source("auto", str(folder / "t[e]st-?????-of-*"))))
    assert first.id == "test-00000-of-00001_000000"
    with pytest.raises(UserError, match="does not exist"):
        open_source("auto", str(folder / "train-*.parquet"))


def test_missing_files_of_a_numbered_set_raise(tmp_path: Path) -> None:
    parquet(tmp_path / "test-00000-of-00003.parquet")
    parquet(tmp_path / "test-00002-of-00003.parquet")
    with pytest.raises(UserError, match=r"contains 2 of 3 files test-\*-of-00003\.parquet: download the missing files"):
        open_source("hf-parquet", str(tmp_path))
    assert len(labels_of(tmp_path / "test-*.parquet")) == 4


def test_files_with_the_same_id_raise(tmp_path: Path) -> None:
    parquet(tmp_path / "a.b.parquet")
    parquet(tmp_path / "a_b.parquet")
    with pytest.raises(UserError, match=r"a\.b\.parquet and a_b\.parquet, which have the same id 'a_b'"):
        open_source("hf-parquet", str(tmp_path))


@pytest.mark.parametrize("options", [{"names": ("bee", "ant")}, {"column": "img"}])
def test_files_with_different_columns_or_classes_raise(tmp_path: Path, options: dict[str, Any]) -> None:
    parquet(tmp_path / "a.parquet", names=("ant", "bee"))
    parquet(tmp_path / "b.parquet", **{"names": ("ant", "bee"), **options})
    with pytest.raises(UserError, match=r"b\.parquet has other columns or class names than a\.parquet"):
        labels_of(tmp_path)


def bomb(path: Path, size: int, count: int, **options) -> Path:
    images = pa.array([bytes(size)] * count, pa.binary())
    pq.write_table(pa.table({"image": images, "label": np.zeros(count, np.int64)}), path, **options)
    return path


def test_a_dictionary_is_decoded_in_small_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of 2 MB decompresses to 200 MB, because it repeats one value."""
    monkeypatch.setattr(hf_parquet, "BATCH_BYTES", 2**24)
    path = bomb(tmp_path / "x.parquet", 2 * 10**6, 100, dictionary_pagesize_limit=2**26, compression="none")
    assert path.stat().st_size < 3 * 10**6
    source = open_source("hf-parquet", str(path))
    before = pa.total_allocated_bytes()
    peak = 0
    for image in source:
        assert image.size == 2 * 10**6
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert len(source.read(image)) == 2 * 10**6
    assert peak < 60 * 10**6


def test_a_column_with_an_extreme_compression_ratio_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = bomb(tmp_path / "x.parquet", 3 * 10**6, 100, use_dictionary=False, compression="zstd")
    with pytest.raises(UserError, match=r"its column image decompresses from \d+ to 30\d+ bytes"):
        labels_of(path)


def test_a_page_larger_than_its_footer_declares_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes in the footer can be forged, so the page headers are checked."""
    path = bomb(tmp_path / "x.parquet", 10**6, 10, use_dictionary=False, compression="zstd")
    assert len(labels_of(path)) == 10
    monkeypatch.setattr(hf_parquet, "LARGEST_PAGE", 10**6)
    with pytest.raises(UserError, match=r"a page of \d+ bytes decompresses to 100\d+ bytes; the maximum is 1000000"):
        labels_of(path)


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (2, 2, 0, 4, 1)])
def test_rows_can_be_read_in_any_order(tmp_path: Path, order: tuple[int, ...]) -> None:
    source = open_source("hf-parquet", str(layouts.hf_parquet(tmp_path)))
    images = list(source)
    assert [source.read(images[index]) for index in order] == [png(index) for index in order]


def test_a_file_is_opened_once_for_all_its_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = parquet(tmp_path / "x.parquet", list(range(6)), row_group_size=2)
    source, opened = open_source("hf-parquet", str(path)), Mock(wraps=pq.ParquetFile)
    images = list(source)
    monkeypatch.setattr(pq, "ParquetFile", opened)
    monkeypatch.setattr(LocalStore, "read", lambda *_: pytest.fail("a request of its own, in an object store"))
    assert [source.read(image) for image in images] == [png(index) for index in range(6)]
    assert opened.call_count == 1


def test_reading_a_row_of_a_changed_file_fails(tmp_path: Path) -> None:
    path = parquet(tmp_path / "x.parquet", list(range(5)))
    source = open_source("hf-parquet", str(path))
    images = list(source)
    parquet(path, [0])
    with pytest.raises(OSError, match="fewer rows than before"):
        source.read(images[4])
    path.write_bytes(b"junk")
    with pytest.raises(OSError, match="cannot read the row: UserError"):
        source.read(images[3])


def test_null_images_fail_alone(tmp_path: Path) -> None:
    pq.write_table(pa.table({"image": [b"1", None]}), tmp_path / "x.parquet")
    source = open_source("hf-parquet", str(tmp_path))
    first, second = source
    assert source.read(first) == b"1"
    with pytest.raises(OSError, match="contains no image bytes"):
        source.read(second)
