"""Exports, read with third-party libraries and compared with the shards."""

import hashlib
import io
import re
import shutil
import subprocess
import tarfile
import tomllib
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path

import cv2
import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from pipeline.datasets.export import LAYOUTS, export
from pipeline.datasets.samples import pixel_digest
from pipeline.errors import UnfinishedError, UserError
from tests.conftest import Run
from tests.factories.data_sets import exported, payload, rows_of
from tests.factories.indexed_sets import change_rows, index_of, write_folders, write_image

FOUR = ("imagefolder", "cifar-npy", "parquet", "imagenet-s-folder")
"""Layouts of single images."""


def names(column: str, values: Sequence[str], message: str | None = None) -> list[tuple[object, ...]]:
    """Return rows for a column of the manifest with these values, in both layouts of files for each sample."""
    layouts = ("imagefolder", "imagenet-s-folder") if column == "source_id" else ("imagefolder",)
    return [
        (layout, column, value, message or re.escape(ascii(value)))
        for layout in layouts
        for value in values
        if (layout, value) != ("imagefolder", "/x{place}")  # a folder without a name
    ]


@pytest.mark.parametrize(
    ("layout", "column", "value", "message"),
    [
        *names("class_name", ["../../../x", "/x", "a\\..\\x"], "is outside of"),
        *names("class_name", ["cat{place}"], "label 0 has two class names, 'cat0' and 'cat1'"),
        *names("transform", ["", ".", "..", "a/b", "export.toml", "x\ny", ".hidden"]),
        *names(
            "source_id",
            ["../../x{place}", "/x{place}", "x\0{place}", "a\nb{place}", ".x{place}"],
            "is outside of|is not a valid file name",
        ),
        (
            "imagefolder",
            "source_id",
            "cat/{place}" + "x" * 251,
            r"cannot write .*xx.png: File name too long; the layout",
        ),
    ],
)
def test_names_in_a_manifest_that_are_no_names_of_files_are_refused(
    tmp_path: Path, layout: str, column: str, value: str, message: str
) -> None:
    data = index_of(write_folders(tmp_path / "data", ["cat"], ["fog/1"]))
    change_rows(data, **{column: lambda place, row: value.format(place=place)})
    with pytest.raises(UserError, match=message):
        export(str(data), layout, str(tmp_path / "a" / "out"))
    assert not [path for path in (tmp_path / "a").rglob("*") if path.suffix in (".png", ".npy")]
    assert column != "transform" or not (tmp_path / "a").exists()


def test_equal_file_names_are_joined_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = index_of(write_folders(tmp_path / "data", ["cat"], ["fog/1"]))
    change_rows(data, source_id=lambda place, row: ["cat/a/x", "/x"][place])
    done = export(str(data), "imagefolder", str(tmp_path / "out"))
    assert (done.written, done.there, done.samples) == (2, 0, 2)
    assert files_in(tmp_path / "out" / "fog") == ["1/cat/__x.png", "1/cat/a__x.png"]
    change_rows(data, source_id=lambda place, row: ["cat/a/x", "cat/a__x"][place])
    with pytest.raises(UserError, match=r"'cat/a/x' and 'cat/a__x' have the same file name .*a__x': rename one"):
        export(str(data), "imagefolder", str(tmp_path / "other"))
    change_rows(data, source_id=lambda place, row: ["cat/Image", "cat/image"][place])
    assert export(str(data), "imagefolder", str(tmp_path / "exact")).written == 2
    monkeypatch.setattr("pipeline.datasets.export.target._ignores_case", lambda folder: True)
    with pytest.raises(UserError, match="'cat/Image' and 'cat/image' have the same file name"):
        export(str(data), "imagefolder", str(tmp_path / "folding"))


@pytest.mark.parametrize(("layout", "files"), [("frames", 6 * 31), ("mp4", 6)])
def test_sequences(sequences: Path, tmp_path: Path, robustshards: Run, layout: str, files: int) -> None:
    """The loader of ImageNet-P reads videos with OpenCV."""
    assert exported(robustshards, sequences, layout, tmp_path)["written"] == files
    for row in rows_of(sequences):
        folder = row.transform if row.level == 1 else f"{row.transform}_{row.level}"
        place = tmp_path / folder / row.class_name / row.source_id.rpartition("/")[2]
        video = cv2.VideoCapture(f"{place}.mp4")
        with tarfile.open(sequences / row.shard) as tar:
            for index in range(31):
                file = tar.extractfile(f"{row.key}.{index:03d}.jpg")
                assert file is not None
                if layout == "frames":
                    assert (place / f"{index:03d}.jpg").read_bytes() == file.read()
                    continue
                there, frame = video.read()
                assert there
                assert np.abs(frame[..., ::-1].astype(int) - np.asarray(Image.open(file))).mean() < 6
        assert not video.read()[0]


def test_hugging_face_parquet(built_once: Path, tmp_path: Path, robustshards: Run) -> None:
    import datasets

    exported(robustshards, built_once, "parquet", tmp_path / "out")
    files = sorted(map(str, (tmp_path / "out" / "data").glob("*.parquet")))
    table = datasets.load_dataset("parquet", data_files={"test": files}, split="test", cache_dir=str(tmp_path / "c"))
    assert table.features["label"].names == ["class0", "class1"]
    rows = {row.key: row for row in rows_of(built_once)}
    assert sorted(table["key"]) == sorted(rows)
    for sample in table:
        row = rows[sample["key"]]
        assert (sample["label"], sample["transform"], sample["level"]) == (row.label, row.transform, row.level)
        expected = np.asarray(Image.open(io.BytesIO(payload(built_once, row))))
        np.testing.assert_array_equal(np.asarray(sample["image"]), expected)


@pytest.mark.parametrize(
    ("data", "layout", "named"),
    [
        ("sequences", "imagefolder", "contains sequences: use mp4 or frames"),
        ("sequences", "parquet", "contains sequences"),
        ("sequences", "imagenet-s-folder", "contains sequences"),
        ("sequences", "zip", "invalid layout 'zip'; allowed: imagefolder"),
        ("built_once", "mp4", "contains single images: use imagefolder"),
        ("built_once", "frames", "contains single images: use imagefolder"),
    ],
)
def test_layouts_of_other_data_are_refused(
    request: pytest.FixtureRequest, tmp_path: Path, data: str, layout: str, named: str
) -> None:
    with pytest.raises(UserError, match=named):
        export(str(request.getfixturevalue(data)), layout, str(tmp_path))


def test_a_damaged_shard_is_an_error(built: Path, tmp_path: Path, robustshards: Run) -> None:
    row = rows_of(built)[0]
    content = bytearray((built / row.shard).read_bytes())
    content[(row.offset or 0) + 300] ^= 1
    (built / row.shard).write_bytes(content)
    export = ("export", built, "--to", "imagefolder", "--out", tmp_path / "out")
    damaged = f"its payload in {row.shard} does not match the manifest: run robustshards verify"
    assert damaged in robustshards.refuse(*export)
    (built / row.shard).unlink()
    assert f"{row.shard} is missing" in robustshards(*export).stderr


def files_in(folder: Path) -> list[str]:
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(name for name in found if not name.startswith("."))


def test_a_parquet_export_of_an_index_has_all_rows(tmp_path: Path) -> None:
    """Each indexed file counts as a shard, so Parquet files follow chunks instead of shards."""
    data = index_of(write_folders(tmp_path / "data", ["cat", "dog", "emu"]))
    assert export(str(data), "parquet", str(tmp_path / "out")).samples == 12
    names = files_in(tmp_path / "out" / "data")
    assert names == ["fog-1-000000.parquet", "fog-2-000000.parquet"]
    tables = [pq.read_table(tmp_path / "out" / "data" / name) for name in names]
    assert [len(table) for table in tables] == [6, 6]
    expected = {row.key: row.pixel_sha256 for row in rows_of(data)}
    for sample in (sample for table in tables for sample in table.to_pylist()):
        pixels = np.asarray(Image.open(io.BytesIO(sample["image"]["bytes"])))
        assert pixel_digest(pixels) == expected[sample["key"]]


@pytest.mark.parametrize("layout", FOUR)
def test_an_export_of_another_manifest_is_refused(tmp_path: Path, layout: str) -> None:
    data, out = index_of(write_folders(tmp_path / "data", ["cat", "dog"])), str(tmp_path / "out")
    first = export(str(data), layout, out)
    statement = tomllib.loads((tmp_path / "out" / "export.toml").read_text())
    digest = hashlib.sha256((data / "manifest.parquet").read_bytes()).hexdigest()
    assert (statement["state"], statement["manifest"], statement["samples"]) == ("finished", digest, 8)
    before = {name: (tmp_path / "out" / name).read_bytes() for name in files_in(tmp_path / "out")}
    again = export(str(data), layout, out)
    assert (again.written, again.there, again.samples) == (0, first.written, 8)
    assert before == {name: (tmp_path / "out" / name).read_bytes() for name in files_in(tmp_path / "out")}
    grown = write_folders(tmp_path / "data", ["cat", "dog"], ["fog/1", "fog/2", "snow/1", "snow/2"])
    with pytest.raises(UserError, match=r"another export \(manifest is .*: use another folder"):
        export(str(index_of(grown)), layout, out)
    with pytest.raises(UserError, match=rf"layout is {layout}, but imagefolder-tfds was requested"):
        export(str(data), "imagefolder-tfds", out)


DAMAGES: tuple[Callable[[bytes], bytes], ...] = (
    lambda data: data[:-3] + b"\x00\x01\x02",
    lambda data: data[:-7],
    lambda data: b"",
)


@pytest.mark.parametrize("layout", FOUR)
def test_changed_files_are_written_again_and_folders_in_their_place_refused(tmp_path: Path, layout: str) -> None:
    data = index_of(write_folders(tmp_path / "data", ["cat", "dog"]))
    total = export(str(data), layout, str(tmp_path / "out")).written
    names = set(files_in(tmp_path / "out")) - {"export.toml", "classes.txt"}
    for name, damage in zip(sorted(names), cycle(DAMAGES), strict=False):
        path = tmp_path / "out" / name
        content = path.read_bytes()
        path.write_bytes(damage(content))
        done = export(str(data), layout, str(tmp_path / "out"))
        assert (done.written, done.there) == (1, total - 1)
        assert path.read_bytes() == content
        path.unlink()
        path.mkdir()
        with pytest.raises(UserError, match=rf"{re.escape(str(path))}: .*remove it"):
            export(str(data), layout, str(tmp_path / "out"))
        path.rmdir()
        export(str(data), layout, str(tmp_path / "out"))


def test_additional_files_and_folders_are_refused(tmp_path: Path) -> None:
    data, out = str(index_of(write_folders(tmp_path / "data", ["cat", "dog"]))), tmp_path / "out"
    export(data, "imagefolder", str(out))
    write_image(out / "fog/1/cat/more.png")
    with pytest.raises(UserError, match="contains 9 files instead of 8"):
        export(data, "imagefolder", str(out))
    (out / "fog" / "1" / "ant").mkdir()
    with pytest.raises(UserError, match=r"fog/1 contains the folder 'ant', which readers would count.*remove it"):
        export(data, "imagefolder", str(out))


@pytest.mark.parametrize(
    ("layout", "theirs"),
    [
        ("imagefolder", "fog/1/cat/image0.png"),
        ("imagefolder", "cat/mine.png"),  # a source of images
        ("cifar-npy", "labels.npy"),
        ("parquet", "notes.txt"),
    ],
)
def test_folders_with_other_files_are_refused(tmp_path: Path, layout: str, theirs: str) -> None:
    data, mine = index_of(write_folders(tmp_path / "data", ["cat"])), tmp_path / "out" / theirs
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(UserError, match=r"contains .* but no export\.toml.*: use an empty folder"):
        export(str(data), layout, str(tmp_path / "out"))
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"name = ", b"name = 3", b"state = 'finished'"])
def test_an_invalid_export_record_is_refused(tmp_path: Path, content: bytes) -> None:
    data = index_of(write_folders(tmp_path / "data", ["cat"]))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "export.toml").write_bytes(content)
    with pytest.raises(UserError, match=r"export\.toml is not"):
        export(str(data), "imagefolder", str(tmp_path / "out"))


def test_outputs_inside_the_data_set_are_refused(tmp_path: Path) -> None:
    data = index_of(write_folders(tmp_path / "data", ["cat"]))
    for place in (data, data / "out", tmp_path / "data", tmp_path / "data" / "fog" / "new"):
        with pytest.raises(UserError, match=r"inside the folder of the data set.*choose a folder outside"):
            export(str(data), "imagefolder", str(place))
    with pytest.raises(UserError, match="a path is empty"):
        export(str(data), "imagefolder", "")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match=r"cannot write to .*file"):
        export(str(data), "imagefolder", str(tmp_path / "file"))
    assert files_in(tmp_path / "data") == [f"fog/{level}/cat/image{place}.png" for level in (1, 2) for place in (0, 1)]


@pytest.mark.parametrize("link", ["fog", "fog/1/cat", ".partial", ".lock"])
def test_links_to_outside_of_the_output_are_refused(tmp_path: Path, link: str) -> None:
    data = index_of(write_folders(tmp_path / "data", ["cat"]))
    export(str(data), "imagefolder", str(tmp_path / "out"))
    (tmp_path / "else").mkdir()
    place = tmp_path / "out" / link
    shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
    place.symlink_to(tmp_path / "else")
    with pytest.raises(UserError, match=r"is outside of|is a link"):
        export(str(data), "imagefolder", str(tmp_path / "out"))
    assert files_in(tmp_path / "else") == []


def test_names_with_spaces_precede_the_label(tmp_path: Path) -> None:
    data = index_of(write_folders(tmp_path / "data", ["big cat"], ["fog/1"]))
    export(str(data), "imagenet-s-folder", str(tmp_path / "out"))
    lines = (tmp_path / "out" / "fog" / "1.txt").read_text().splitlines()
    assert [line.rsplit(" ", 1) for line in lines] == [["big cat/image0.npy", "0"], ["big cat/image1.npy", "0"]]


def test_arrays_with_different_labels_are_refused(tmp_path: Path) -> None:
    data = index_of(write_folders(tmp_path / "data", ["cat", "dog"], ["fog/1", "snow/1"]))
    change_rows(data, label=lambda place, row: place)
    with pytest.raises(UserError, match=r"fog.npy and snow.npy would have different labels|snow.npy and fog.npy"):
        export(str(data), "cifar-npy", str(tmp_path / "out"))
    some = index_of(write_folders(tmp_path / "some", ["cat"], ["fog/1", "fog/5"]))
    assert "severities 1, 5" in export(str(some), "cifar-npy", str(tmp_path / "some-out")).warnings[0]


def test_failed_samples_are_skipped_and_counted(tmp_path: Path) -> None:
    data = index_of(write_folders(tmp_path / "data", ["cat"], ["fog/1"]))
    change_rows(data, status=lambda place, row: ["ok", "failed"][place])
    for layout in ("imagefolder", "parquet"):
        for _ in range(2):
            done = export(str(data), layout, str(tmp_path / layout))
            assert (done.samples, done.passed_over, done.facts()["passed_over"]) == (1, 1, 1)
            assert list(done.lines())[-1].endswith("; skipped 1 failed sample")
    change_rows(data, status=lambda place, row: "failed")
    with pytest.raises(UserError, match="no samples to export"):
        export(str(data), "imagefolder", str(tmp_path / "none"))


@pytest.fixture(scope="module")
def large_sets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return data sets of images and of sequences that are larger than a disk of 256 KB."""
    folder = tmp_path_factory.mktemp("large")
    images = index_of(write_folders(folder / "images", ["cat", "dog"], ["fog/1", "fog/2"], side=160))
    (folder / "sequences").mkdir()
    frames = np.random.default_rng(0).integers(0, 256, (3, 4, 160, 160, 3)).astype(np.uint8)
    np.save(folder / "sequences" / "rotate.npy", frames)
    return images, index_of(folder / "sequences")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_exports_resume_after_a_full_disk(large_sets: tuple[Path, Path], small_disk: Path, layout: str) -> None:
    data, out = str(large_sets[layout in ("mp4", "frames")]), small_disk / "out"
    with pytest.raises(
        UnfinishedError, match="No space left on device; free disk space, then run the same command again"
    ):
        export(data, layout, str(out))
    assert tomllib.loads((out / "export.toml").read_text())["state"] == "unfinished"
    with pytest.raises(UserError, match="contains an unfinished export: run the same export command again first"):
        index_of(out)
    half = {name: (out / name).read_bytes() for name in files_in(out)}
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    done = export(data, layout, str(out))
    assert done.there == len(set(half) - {"export.toml", "classes.txt"})
    assert tomllib.loads((out / "export.toml").read_text())["state"] == "finished"
    assert not list(out.rglob("*.partial"))
