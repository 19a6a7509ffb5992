"""Data sets of families: the payloads of the library's functions, verified, exported and recognised again."""

from pathlib import Path

import numpy as np
import pytest

import robustshards as rs
from pipeline.datasets.opening import open_built, open_data_set
from pipeline.images.decoders import decode
from pipeline.images.resizers import prepare
from pipeline.recipes import library
from tests.conftest import Run
from tests.factories.data_sets import exported, rows_of

FOLDERS, ARRAYS = ("imagefolder", "imagefolder-tfds"), ("cifar-npy",)
IMAGES = 2


@pytest.mark.parametrize(
    ("name", "levels", "layouts"),
    [
        pytest.param("imagenet-syn2nat-candidates", (), (*FOLDERS, *ARRAYS), marks=pytest.mark.large),
        ("imagenet-c-bar", (), FOLDERS),
        ("cifar-10-c-bar", (), ARRAYS),
        ("imagenet-3dcc-noise", (), FOLDERS),
        ("imagenet-w", (), FOLDERS),
        ("low-pass", ("--severities", "8,159"), (*FOLDERS, *ARRAYS)),
    ],
)
def test_a_data_set_has_the_images_of_the_library_and_its_exports_are_recognised(
    name: str, levels: tuple[str, ...], layouts: tuple[str, ...], photographs: Path, tmp_path: Path, robustshards: Run
) -> None:
    recipe, data = library.load(name), tmp_path / "data"
    robustshards.succeed("build", name, "--source", photographs, "--out", data, "--limit", IMAGES, *levels)
    data_set, rows = open_built(str(data)), rows_of(data)
    assert levels or [(row.transform, row.level) for row in rows[::IMAGES]] == [*recipe.conditions()]
    for row in rows:
        image = decode((photographs / row.origin).read_bytes(), recipe.prepare.decoder)
        image = prepare(image, recipe.prepare.steps, recipe.prepare.resize)
        if row.transform == "low_pass":
            made = rs.low_pass(image, row.level)
        else:
            seed = rs.sample_seed(recipe, row.source_id, row.transform, row.level)
            made = rs.corruptions.corruptor(row.transform, row.level or 1, profile=recipe.profile)(image, seed)
        assert data_set.pick(row).payload() == recipe.encoder.encode(made), row.key
    facts = robustshards.facts("verify", data, "--deep", "--samples", len(rows))
    assert (facts["samples"], facts["faults"], facts["deep_faults"]) == (len(rows), [], [])
    for layout in layouts:
        exported(robustshards, data, layout, tmp_path / layout)
        if layout == "cifar-npy":  # as published
            dtype = np.load(tmp_path / layout / "labels.npy").dtype
            assert dtype == (np.int64 if recipe.family.name == "c-bar" else np.uint8)
        facts = robustshards.facts("index", tmp_path / layout, "--out", tmp_path / f"{layout} index", *levels)
        assert (facts["family"], facts["samples"]) == (recipe.family.name, len(rows))
        found = [(row.transform, row.level, row.pixel_sha256) for row in rows_of(tmp_path / f"{layout} index")]
        assert sorted(found) == sorted((row.transform, row.level, row.pixel_sha256) for row in rows)
        assert not open_data_set(str(tmp_path / f"{layout} index"), str(tmp_path / layout)).verify().faults
