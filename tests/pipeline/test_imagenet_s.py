"""System noise through the command line: built, verified, exported, compared with ``render``."""

import io
from pathlib import Path

import numpy as np
import pytest

from pipeline.transforms.imagenet_s import PAIRS, render
from tests.conftest import Run
from tests.factories.data_sets import exported, payload, rows_of


@pytest.fixture(scope="module")
def built_s(tmp_path_factory: pytest.TempPathFactory, photographs: Path, robustshards: Run) -> Path:
    """Build four photographs with the 13 pairs of the paper. Tests must not change the folder."""
    folder = tmp_path_factory.mktemp("imagenet-s") / "data"
    command = ("build", "imagenet-s", "--source", photographs, "--out", folder, "--limit", 4, "--workers", 2)
    robustshards.succeed(*command)
    return folder


def test_arrays_equal_render_and_can_be_rebuilt(built_s: Path, photographs: Path, robustshards: Run) -> None:
    rows = rows_of(built_s)
    assert len(rows) == 13 * 4
    for row in rows:
        assert (row.transform, row.level) == (f"{row.decoder}_{row.resize}", 0)
        assert (row.height, row.width, row.encoder) == (224, 224, "npy layout=hwc")
        pair = PAIRS[row.transform]
        expected = render((photographs / row.origin).read_bytes(), pair.decoder, pair.resize)
        np.testing.assert_array_equal(np.load(io.BytesIO(payload(built_s, row))), expected)
    robustshards.succeed("verify", built_s, "--deep", "--samples", 20)


def test_the_full_grid_extends_the_paper_set(built_s: Path, photographs: Path, robustshards: Run) -> None:
    command = ("build", "imagenet-s", "--source", photographs, "--out", built_s, "--limit", 4, "--grid", "full")
    facts = robustshards.facts(*command, "--dry-run")
    assert (facts["shards"], facts["shards_before"]) == (33, 13)


def test_channels_first_arrays_and_other_decoders_are_built(
    photographs: Path, tmp_path: Path, robustshards: Run
) -> None:
    command = ("build", "imagenet-s", "--source", photographs, "--out", tmp_path, "--limit", 2)
    robustshards.succeed(*command, "--only", "turbo-fast_opencv-area", "--set", "encoder.layout=CHW")
    for row in rows_of(tmp_path):
        assert row.encoder == "npy layout=chw"
        assert np.load(io.BytesIO(payload(tmp_path, row))).shape == (3, 224, 224)


def test_export_writes_arrays_and_a_list_per_pair(built_s: Path, tmp_path: Path, robustshards: Run) -> None:
    facts = exported(robustshards, built_s, "imagenet-s-folder", tmp_path / "s")
    assert (facts["written"], facts["there"]) == (13 * 4 + 13, 0)
    for row in rows_of(built_s):
        array = np.load(tmp_path / "s" / row.transform / f"{row.source_id}.npy")
        assert array.shape == (224, 224, 3)
        index = (tmp_path / "s" / f"{row.transform}.txt").read_text().splitlines()
        assert f"{row.source_id}.npy {row.label}" in index
        assert len(index) == 4


def test_every_recipe_accepts_a_decoder_and_a_resize_operator(
    small_source: Path, tmp_path: Path, robustshards: Run
) -> None:
    command = ("build", "imagenet-c-clean", "--source", small_source, "--out", tmp_path / "data")
    robustshards.succeed(*command, "--decoder", "opencv", "--resize", "opencv-area")
    assert {(row.decoder, row.resize) for row in rows_of(tmp_path / "data")} == {("opencv", "opencv-area")}
