"""Editions and sources together, through the command line."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from manifests import Row
from pipeline.datasets.opening import open_data_set
from pipeline.images.resizers import prepare
from tests.conftest import Run
from tests.factories.data_sets import rows_of
from tests.factories.layouts import LAYOUTS, cifar_10, imagenet_boxes, pixels


def picture(data: Path, row: Row) -> np.ndarray:
    with open(data / row.shard, "rb") as shard:
        shard.seek(row.offset or 0)
        return np.asarray(Image.open(io.BytesIO(shard.read(row.size or 0))))


def test_clean_cifar_pixels_equal_the_source(tmp_path: Path, robustshards: Run) -> None:
    source = cifar_10(tmp_path)
    done = robustshards.succeed("build", "cifar-10-c-clean", "--source", source, "--out", tmp_path / "data")
    assert "test images of cifar-10-batches-py" in done.stderr
    data_set = open_data_set(str(tmp_path / "data"))
    for index, row in enumerate(data_set.rows()):
        assert (row.key, row.label) == (f"test_batch_{index:06d}-none-0", index % 3)
        np.testing.assert_array_equal(data_set.pick(row).pixels(), pixels(index))
    assert robustshards("verify", tmp_path / "data", "--deep", "--samples", 5).returncode == 0


def test_images_are_cropped_to_their_boxes(tmp_path: Path, robustshards: Run) -> None:
    """The published Tiny ImageNet-C was made this way."""
    source = imagenet_boxes(tmp_path)
    command = ("build", "tiny-imagenet-c-clean", "--source", source, "--source-kind", "imagenet-boxes")
    robustshards.succeed(*command, "--out", tmp_path / "data", "--encoder", "png")
    rows = rows_of(tmp_path / "data")
    assert [int(row.source_id[-1]) for row in rows] == [1, 2, 4, 5]
    for row in rows:
        index = int(row.source_id[-1]) - 1
        expected = prepare(pixels(index)[2:30, index:20], [("square", 64)])
        np.testing.assert_array_equal(picture(tmp_path / "data", row), expected)


def test_system_noise_fails_for_sources_of_pixels(tmp_path: Path, robustshards: Run) -> None:
    command = ("build", "imagenet-s", "--source", cifar_10(tmp_path), "--out", tmp_path / "data", "--grid", "decoders")
    done = robustshards(*command)
    assert done.returncode == 1
    assert {row.error for row in rows_of(tmp_path / "data")} >= {
        "test_batch#0: system-noise needs encoded images without boxes, but this source has pixels or boxes"
    }


@pytest.mark.parametrize("kind", ["hf-parquet", "webdataset", "ilsvrc2012-val-tar"])
def test_plan_reports_the_detected_source(tmp_path: Path, robustshards: Run, kind: str) -> None:
    location = LAYOUTS[kind](tmp_path)
    command = ("plan", "imagenet-c", "--source", location, "--only", "fog", "--severities", 1, "--measure", 1)
    done = robustshards(*command, "--json")
    facts = json.loads(done.stdout)
    assert (facts["source_kind"], facts["images"], facts["classes"]) == (kind, 5, 3)


def test_a_subset_is_built_with_the_same_bytes(
    built_once: Path, small_source: Path, tmp_path: Path, robustshards: Run
) -> None:
    """The bytes of an image do not depend on the other images."""
    (tmp_path / "ids.txt").write_text("class1/image3.png\nimage0\n")
    command = ("build", "imagenet-c", "--source", small_source, "--out", tmp_path / "data")
    robustshards.succeed(*command, "--only", "gaussian_noise", "--severities", 1, "--ids", tmp_path / "ids.txt")
    complete = {row.key: row.payload_sha256 for row in rows_of(built_once)}
    subset = {row.key: row.payload_sha256 for row in rows_of(tmp_path / "data")}
    assert set(subset) == {"class0/image0-gaussian_noise-1", "class1/image3-gaussian_noise-1"}
    assert subset.items() <= complete.items()
