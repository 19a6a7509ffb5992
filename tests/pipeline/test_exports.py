"""Other people's layouts, read back by their readers and compared with the shards."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import cv2
import datasets
import numpy as np
import pytest
from PIL import Image

import manifests
from manifests import Row
from tests.conftest import Run


def payload(data: Path, row: Row) -> bytes:
    with open(data / row.shard, "rb") as shard:
        shard.seek(row.offset or 0)
        return shard.read(row.size or 0)


def rows_of(data: Path) -> list[Row]:
    return list(manifests.read_rows(data / "manifest.parquet"))


def exported(robustshards: Run, data: Path, to: str, out: Path, *more: object) -> dict[str, int]:
    done = robustshards("export", data, "--to", to, "--out", out, "--json", *more)
    assert done.returncode == 0, done.stderr
    facts: dict[str, int] = json.loads(done.stdout)
    return facts


@pytest.mark.parametrize(("layout", "pattern"), [("imagefolder", "{}/{}"), ("imagefolder-tfds", "{}_{}")])
def test_imagefolder(built_once: Path, tmp_path: Path, robustshards: Run, layout: str, pattern: str) -> None:
    (tmp_path / "classes.txt").write_text("class0\nclass1\nempty\n")
    facts = exported(robustshards, built_once, layout, tmp_path / "out", "--classes", tmp_path / "classes.txt")
    rows = rows_of(built_once)
    assert facts["written"] == len(rows)
    for row in rows:
        folder = tmp_path / "out" / pattern.format(row.transform, row.level)
        assert sorted(each.name for each in folder.iterdir()) == ["class0", "class1", "empty"]
        file = folder / row.class_name / f"{row.source_id.rpartition('/')[2]}.JPEG"
        assert file.read_bytes() == payload(built_once, row)
    assert exported(robustshards, built_once, layout, tmp_path / "out")["there"] == len(rows)


def test_cifar_arrays(cifar_c: Path, tmp_path: Path, robustshards: Run) -> None:
    facts = exported(robustshards, cifar_c, "cifar-npy", tmp_path)
    assert facts["written"] == 3
    labels = np.load(tmp_path / "labels.npy")
    assert labels.dtype == np.uint8
    assert labels.tolist() == [0, 1, 2, 0, 1] * 5
    rows = rows_of(cifar_c)
    for name in ("contrast", "fog"):
        array = np.load(tmp_path / f"{name}.npy")
        assert (array.shape, array.dtype.name) == ((25, 32, 32, 3), "uint8")
        mine = [row for row in rows if row.transform == name]
        assert [row.level for row in mine] == [level for level in range(1, 6) for _ in range(5)]
        for image, row in zip(array, mine, strict=True):
            np.testing.assert_array_equal(image, np.load(io.BytesIO(payload(cifar_c, row))))
    (tmp_path / "fog.npy").unlink()
    assert exported(robustshards, cifar_c, "cifar-npy", tmp_path)["written"] == 1


def test_sequences_as_arrays(sequences: Path, tmp_path: Path, robustshards: Run) -> None:
    exported(robustshards, sequences, "cifar-npy", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".")) == [
        "export.toml",
        "gaussian_noise.npy",
        "gaussian_noise_2.npy",
        "rotate.npy",
    ]
    assert np.load(tmp_path / "rotate.npy").shape == (2, 31, 64, 64, 3)


def test_frames(sequences: Path, tmp_path: Path, robustshards: Run) -> None:
    assert exported(robustshards, sequences, "frames", tmp_path)["written"] == 6 * 31
    for row in rows_of(sequences):
        folder = row.transform if row.level == 1 else f"{row.transform}_{row.level}"
        place = tmp_path / folder / row.class_name / row.source_id.rpartition("/")[2]
        with tarfile.open(sequences / row.shard) as tar:
            for index in range(31):
                file = tar.extractfile(f"{row.key}.{index:03d}.jpg")
                assert file is not None
                assert (place / f"{index:03d}.jpg").read_bytes() == file.read()


def test_mp4_is_read_as_the_authors_read_it(sequences: Path, tmp_path: Path, robustshards: Run) -> None:
    """Their loader takes frames from OpenCV's VideoCapture."""
    assert exported(robustshards, sequences, "mp4", tmp_path)["written"] == 6
    for row in rows_of(sequences):
        folder = row.transform if row.level == 1 else f"{row.transform}_{row.level}"
        video = cv2.VideoCapture(str(tmp_path / folder / row.class_name / f"{row.source_id.rpartition('/')[2]}.mp4"))
        with tarfile.open(sequences / row.shard) as tar:
            for index in range(31):
                there, frame = video.read()
                assert there
                file = tar.extractfile(f"{row.key}.{index:03d}.jpg")
                assert file is not None
                expected = np.asarray(Image.open(file)).astype(int)
                assert np.abs(frame[..., ::-1].astype(int) - expected).mean() < 6
        assert not video.read()[0]


def test_hugging_face_parquet(built_once: Path, tmp_path: Path, robustshards: Run) -> None:
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
    ("layout", "named"),
    [
        ("imagefolder", "holds sequences: use mp4 or frames"),
        ("parquet", "holds sequences"),
        ("imagenet-s-folder", "holds sequences"),
        ("zip", "no layout is called 'zip'; allowed: imagefolder"),
    ],
)
def test_layouts_that_do_not_fit_are_refused(
    sequences: Path, tmp_path: Path, robustshards: Run, layout: str, named: str
) -> None:
    done = robustshards("export", sequences, "--to", layout, "--out", tmp_path)
    assert done.returncode == 2
    assert named in done.stderr


@pytest.mark.parametrize("layout", ["mp4", "frames"])
def test_images_are_no_sequences(built_once: Path, tmp_path: Path, robustshards: Run, layout: str) -> None:
    done = robustshards("export", built_once, "--to", layout, "--out", tmp_path)
    assert done.returncode == 2
    assert "holds single images: use imagefolder" in done.stderr


def test_a_shard_that_is_not_what_was_built_stops_it(built: Path, tmp_path: Path, robustshards: Run) -> None:
    row = rows_of(built)[0]
    content = bytearray((built / row.shard).read_bytes())
    content[(row.offset or 0) + 300] ^= 1
    (built / row.shard).write_bytes(content)
    done = robustshards("export", built, "--to", "imagefolder", "--out", tmp_path)
    assert done.returncode == 2
    assert "is not what was built: run robustshards verify" in done.stderr
    (built / row.shard).unlink()
    done = robustshards("export", built, "--to", "imagefolder", "--out", tmp_path)
    assert f"{row.shard} is missing" in done.stderr


def test_names_that_lead_out_are_refused(built: Path, tmp_path: Path, robustshards: Run) -> None:
    """A manifest that somebody else wrote may hold any class name."""
    path = built / "manifest.parquet"
    facts = manifests.read_facts(path)
    rows = [
        Row(**{**{name: getattr(row, name) for name in manifests.COLUMNS}, "class_name": "../../../x"})
        for row in rows_of(built)
    ]
    manifests.write_part(rows, facts, path)
    done = robustshards("export", built, "--to", "imagefolder", "--out", tmp_path / "a" / "b")
    assert done.returncode == 2
    assert "leads out of" in done.stderr
    assert not list(tmp_path.rglob("*.JPEG"))
