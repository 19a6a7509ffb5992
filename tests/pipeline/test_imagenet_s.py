"""System noise through the command line: built, verified, exported, compared with ``render``."""

import json
from pathlib import Path

import numpy as np
import pytest

import manifests
from pipeline.transforms.imagenet_s import PAIRS, render
from tests.conftest import Run


@pytest.fixture(scope="module")
def built_s(tmp_path_factory: pytest.TempPathFactory, photographs: Path, robustshards: Run) -> Path:
    """Build four photographs with the 13 pairs of the paper. Tests must not change the folder."""
    folder = tmp_path_factory.mktemp("imagenet-s") / "data"
    command = ("build", "imagenet-s", "--source", photographs, "--out", folder, "--limit", 4, "--workers", 2)
    robustshards.succeed(*command)
    return folder


def test_arrays_equal_render(built_s: Path, photographs: Path) -> None:
    rows = list(manifests.read_rows(built_s / "manifest.parquet"))
    assert len(rows) == 13 * 4
    for row in rows:
        assert (row.transform, row.level) == (f"{row.decoder}_{row.resize}", 0)
        assert (row.height, row.width, row.encoder) == (224, 224, "npy layout=hwc")
        with open(built_s / row.shard, "rb") as shard:
            shard.seek(row.offset or 0)
            array = np.load(shard)
        pair = PAIRS[row.transform]
        np.testing.assert_array_equal(array, render((photographs / row.origin).read_bytes(), pair.decoder, pair.resize))


def test_samples_can_be_rebuilt(built_s: Path, robustshards: Run) -> None:
    assert robustshards("verify", built_s, "--deep", "--samples", 20).returncode == 0


def test_the_full_grid_extends_the_paper_set(built_s: Path, photographs: Path, robustshards: Run) -> None:
    command = ("build", "imagenet-s", "--source", photographs, "--out", built_s, "--limit", 4, "--grid", "full")
    facts = json.loads(robustshards(*command, "--dry-run", "--json").stdout)
    assert (facts["shards"], facts["shards_before"]) == (33, 13)


def test_channels_first_arrays_and_other_decoders_are_built(
    photographs: Path, tmp_path: Path, robustshards: Run
) -> None:
    command = ("build", "imagenet-s", "--source", photographs, "--out", tmp_path, "--limit", 2)
    robustshards.succeed(*command, "--only", "turbo-fast_opencv-area", "--set", "encoder.layout=CHW")
    for row in manifests.read_rows(tmp_path / "manifest.parquet"):
        assert row.encoder == "npy layout=chw"
        with open(tmp_path / row.shard, "rb") as shard:
            shard.seek(row.offset or 0)
            assert np.load(shard).shape == (3, 224, 224)


def test_export_writes_arrays_and_a_list_per_pair(built_s: Path, tmp_path: Path, robustshards: Run) -> None:
    command = ("export", built_s, "--to", "imagenet-s-folder", "--out", tmp_path / "s", "--json")
    facts = json.loads(robustshards(*command).stdout)
    assert (facts["written"], facts["there"]) == (13 * 4 + 13, 0)
    rows = list(manifests.read_rows(built_s / "manifest.parquet"))
    for row in rows:
        array = np.load(tmp_path / "s" / row.transform / f"{row.source_id}.npy")
        assert array.shape == (224, 224, 3)
        index = (tmp_path / "s" / f"{row.transform}.txt").read_text().splitlines()
        assert f"{row.source_id}.npy {row.label}" in index
        assert len(index) == 4
    (tmp_path / "s" / rows[5].transform / f"{rows[5].source_id}.npy").write_bytes(b"half")
    facts = json.loads(robustshards(*command).stdout)
    assert (facts["written"], facts["there"]) == (1, 13 * 4 + 13 - 1)


def test_every_recipe_accepts_a_decoder_and_a_resize_operator(
    small_source: Path, tmp_path: Path, robustshards: Run
) -> None:
    command = ("build", "imagenet-c-clean", "--source", small_source, "--out", tmp_path / "data")
    robustshards.succeed(*command, "--decoder", "opencv", "--resize", "opencv-area")
    rows = list(manifests.read_rows(tmp_path / "data" / "manifest.parquet"))
    assert {(row.decoder, row.resize) for row in rows} == {("opencv", "opencv-area")}
