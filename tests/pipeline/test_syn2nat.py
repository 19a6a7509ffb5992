"""ImageNet-Syn2Nat through the command line: built, verified, previewed, exported, indexed, evaluated, reported."""

import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corruptions
from manifests import Row
from pipeline.datasets.built import MAX_DRAWN_SIDE, Built
from pipeline.datasets.opening import open_built
from pipeline.images.decoders import decode
from pipeline.images.resizers import prepare
from pipeline.recipes import library
from pipeline.transforms import syn2nat
from pipeline.transforms.seeds import sample_seed
from tests.conftest import Run
from tests.factories.data_sets import rows_of

IMAGES = 2
FIELDS: Mapping[str, tuple[str, ...]] = {
    "ElasticTransform": ("dx", "dy"),
    "GaussNoise": ("gauss",),
    "ISONoise": ("luminance_noise", "color_noise"),
    "MultiplicativeNoise": ("multiplier",),
}
"""Draws with a value per pixel, which samples do not record."""


@pytest.fixture(scope="module")
def candidates(tmp_path_factory: pytest.TempPathFactory, photographs: Path, robustshards: Run) -> Path:
    """Build two photographs with all candidates. Tests must not change the folder."""
    folder = tmp_path_factory.mktemp("candidates") / "data"
    command = ("build", "imagenet-syn2nat-candidates", "--source", photographs, "--out", folder, "--limit", IMAGES)
    robustshards.succeed(*command, "--workers", 2)
    return folder


def prepared(photographs: Path, row: Row) -> np.ndarray:
    recipe = library.load("imagenet-syn2nat")
    return prepare(decode((photographs / row.origin).read_bytes(), "pillow"), recipe.prepare.steps, "opencv-area")


def described(folder: Path, row: Row) -> dict[str, Any]:
    """Return the content of a sample's ``.json``."""
    with tarfile.open(folder / row.shard) as tar:
        member = tar.extractfile(f"{row.key}.json")
        assert member
        content: dict[str, Any] = json.load(member)
    return content


def test_samples_record_what_was_drawn(candidates: Path, photographs: Path) -> None:
    data_set = open_built(str(candidates))
    for row in rows_of(candidates):
        image, seed = prepared(photographs, row), sample_seed(0, row.source_id, row.transform, 1)
        drawn = corruptions.draw(image, row.transform, seed=seed)
        recorded = described(candidates, row)["draws"]
        fields = FIELDS.get(row.transform, ())
        assert recorded.keys() == drawn.keys() - set(fields)
        assert data_set.draws(row._asdict()).keys() == recorded.keys()  # type: ignore[union-attr]
        fields_alone = {name: drawn[name] for name in fields}
        again = corruptions.apply(image, row.transform, {**recorded, **fields_alone})
        np.testing.assert_array_equal(again, data_set.pick(row).pixels(), row.transform)


def test_other_families_record_no_draws(built_once: Path) -> None:
    row = rows_of(built_once)[0]
    assert "draws" not in described(built_once, row)
    assert open_built(str(built_once)).draws(row._asdict()) is None


def test_categories_divide_the_benchmark() -> None:
    assert {len(names) for names in syn2nat.CATEGORIES.values()} == {3}
    assert {name for names in syn2nat.CATEGORIES.values() for name in names} == set(corruptions.names("syn2nat"))
    assert syn2nat.CATEGORIES["colour"] == ("ChannelDropout", "ColorJitter", "ToSepia")


def test_list_shows_categories_and_draws(robustshards: Run) -> None:
    facts = json.loads(robustshards("list", "--json").stdout)
    assert facts["syn2nat"]["Perspective"] == {
        "category": "spatial",
        "set": "benchmark",
        "version": 1,
        "draws": ["jitter"],
    }
    assert facts["syn2nat"]["Border"] == {"category": "", "set": "candidates", "version": 1, "draws": []}
    assert facts["families"]["syn2nat"]["levels"] == [1]
    assert {"imagenet-syn2nat", "imagenet-syn2nat-candidates-clean"} <= set(facts["recipes"])


def test_verify_names_a_sample_whose_draws_were_changed(photographs: Path, tmp_path: Path, robustshards: Run) -> None:
    command = ("build", "imagenet-syn2nat", "--source", photographs, "--out", tmp_path / "data", "--limit", 2)
    assert robustshards(*command, "--only", "Affines").returncode == 0
    row = rows_of(tmp_path / "data")[1]
    shard = tmp_path / "data" / row.shard
    scale = json.dumps(described(tmp_path / "data", row)["draws"]["scale"]).encode()
    content = shard.read_bytes()
    assert content.count(scale) == 1
    shard.write_bytes(content.replace(scale, b"0.7".ljust(len(scale), b"1")))
    done = robustshards("verify", tmp_path / "data")
    assert done.returncode != 0
    assert f"{row.key}.json: does not match the manifest" in done.stdout + done.stderr


def test_samples_of_other_versions_stay_readable(candidates: Path) -> None:
    """Their draws cannot be computed any more, so their descriptions are not compared."""
    data_set, row = open_built(str(candidates)), rows_of(candidates)[0]
    older = row._replace(version=row.version + 1)
    assert data_set.draws(row._asdict())
    assert data_set.draws(older._asdict()) is None
    assert data_set.side_members(older._asdict())[".json"] is None
    assert isinstance(data_set, Built)


@pytest.mark.parametrize(
    "damage", [{"transform": "x"}, {"height": 5}, {"height": -1}, {"height": None}, {"width": MAX_DRAWN_SIDE + 1}]
)
def test_draws_of_damaged_rows_are_unknown(candidates: Path, damage: Mapping[str, Any]) -> None:
    row = rows_of(candidates)[0]._replace(**damage)
    assert open_built(str(candidates)).draws(row._asdict()) is None


def test_preview_shows_what_was_drawn(candidates: Path, tmp_path: Path, robustshards: Run) -> None:
    robustshards.succeed("preview", candidates, "--out", tmp_path / "page.html", "--images", 1)
    page = (tmp_path / "page.html").read_text()
    row = rows_of(candidates)[0]
    scale = described(candidates, row)["draws"]["scale"]
    assert f'<span title="scale {scale}">scale {scale}</span>' in page
    assert page.count("<img loading") == 40
