"""Low-pass sets: recipes, levels, builds, and frequency bias from photographs to the report."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch import nn

import robustshards as rs
from corruptions import low_pass
from corruptions.preparation import fixed_size
from pipeline.errors import UserError
from pipeline.recipes import library
from pipeline.recipes.levels import MAX_RANGE, parse_levels, shown_levels
from pipeline.recipes.schema import Recipe
from tests.corruptions.test_low_pass import grating
from tests.factories.data_sets import data_digests

pytestmark = pytest.mark.usefixtures("workers_here")

SQUARE = {"prepare": {"steps": [["square", 224]]}}
"""Preparation that leaves images of 224 x 224 unchanged."""


# Levels as text


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("1,3,5", [1, 3, 5]),
        ("1-4,159", [1, 2, 3, 4, 159]),
        (" 2 - 3 , 7", [2, 3, 7]),
        ("5-5", [5]),
        ("0-1,1-2", [0, 1, 1, 2]),
        ("-3", [-3]),  # refused as a level of every family
    ],
)
def test_levels_may_be_ranges(text: str, levels: list[int]) -> None:
    assert parse_levels(text) == levels


@pytest.mark.parametrize("text", ["", "1,", "1-", "a-b", "1-2-3", "1.5.2", "1..3", "9" * 5000, "1-" + "9" * 5000])
def test_other_texts_are_invalid_levels(text: str) -> None:
    with pytest.raises(UserError, match=r"invalid levels '.*': use comma-separated integers or ranges") as caught:
        parse_levels(text)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("text", ["5-1", f"0-{MAX_RANGE}", "1-999999999"])
def test_ranges_are_increasing_and_limited(text: str) -> None:
    with pytest.raises(UserError, match=f"invalid range '{text}' of levels: use increasing ends, for example 1-64"):
        parse_levels(text)


@pytest.mark.parametrize(
    ("levels", "text"),
    [
        ([1, 2, 3, 4, 5], "1, 2, 3, 4, 5"),
        ([*range(1, 65), *range(68, 113, 4), 159], "1-64, 68, 72 ... 112, 159"),
        ([*range(513)], "0-512"),
        ([1, 2, 3, 10, 11, 12, 13, 14, 15], "1, 2, 3, 10-15"),
        ([7], "7"),
        ([], ""),
    ],
)
def test_long_runs_are_shown_as_ranges(levels: list[int], text: str) -> None:
    assert shown_levels(levels) == text


# Recipes


@pytest.mark.parametrize(
    ("name", "side", "count"),
    [("low-pass", 224, 77), ("low-pass-299", 299, 86), ("low-pass-64", 64, 33), ("low-pass-32", 32, 17)],
)
def test_shipped_recipes_end_with_the_unfiltered_images(name: str, side: int, count: int) -> None:
    recipe = library.load(name)
    assert fixed_size(recipe.prepare.steps) == (side, side)
    assert len(set(recipe.transforms.levels)) == count
    assert max(recipe.transforms.levels) == low_pass.pass_all(side, side)
    assert (recipe.encoder.name, recipe.shape) == ("png", "circle")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"transforms": {"levels": [1, 2, 3]}}, "transforms.levels: 159 is missing; the largest level must be 159"),
        ({"transforms": {"levels": [1, 159, 160]}}, "transforms.levels: 160 is too large"),
        ({"transforms": {"levels": [159, 513]}}, "transforms.levels: 513 is unknown; allowed: 0-512"),
        (
            {"transforms": {"shape": "square"}},
            "159 is too large; the largest level must be 112.*224 x 224.*shape square",
        ),
        ({"transforms": {"shape": "hexagon"}}, "transforms.shape: 'hexagon' is unknown; allowed: circle, square"),
        ({"prepare": {"steps": [["square", 64]]}}, "159 is too large; the largest level must be 46"),
        ({"prepare": {"steps": [["shorter_side", 256]]}}, "low-pass needs images of one size: end with a step such as"),
        ({"prepare": {"steps": []}}, "low-pass needs images of one size"),
    ],
)
def test_recipes_that_cannot_be_measured_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        library.load("low-pass").changed(**changes)


def canonical(recipe: Recipe) -> Recipe:
    return recipe.canonical({}, {}, {})


def test_the_shape_is_written_for_filters_only() -> None:
    recipe = library.load("low-pass")
    content = {**recipe.model_dump(mode="json"), "name": "own"}
    content["transforms"] = {key: value for key, value in content["transforms"].items() if key != "shape"}
    without = Recipe.model_validate_json(json.dumps(content))
    assert (without.transforms.shape, canonical(without).transforms.shape) == (None, "circle")
    assert 'shape = "circle"' in canonical(recipe).to_toml()
    for name in ("imagenet-c", "low-pass-clean"):
        assert "shape" not in canonical(library.load(name)).to_toml()


@pytest.mark.parametrize(
    ("steps", "size"),
    [
        ((("shorter_side", 256), ("center_crop", 224)), (224, 224)),
        ((("center_fraction", 0.875), ("square", 299)), (299, 299)),
        ((("square", 64), ("trim", 2)), (60, 60)),
        ((("shorter_side", 256),), None),
        ((("center_fraction", 0.5),), None),
        ((), None),
    ],
)
def test_the_size_after_steps_may_depend_on_the_photograph(
    steps: tuple[tuple[str, float], ...], size: tuple[int, int] | None
) -> None:
    assert fixed_size(steps) == size


# Builds


def test_levels_are_added_to_a_set(photographs: Path, tmp_path: Path) -> None:
    for name, levels in (("parts", "2-3,46"), ("parts", ["1-3", 12, 46]), ("at once", "1-3,12,46")):
        assert rs.build("low-pass-64", photographs, tmp_path / name, severities=levels, limit=2).complete
    assert data_digests(tmp_path / "parts") == data_digests(tmp_path / "at once")
    with pytest.raises(UserError, match="46 is missing"):
        rs.build("low-pass-64", photographs, tmp_path / "other", severities="1-3")


# From gratings to frequency bias


class Contrast(nn.Module):
    """A model that answers 1 where the standard deviation of an image exceeds one level, else 0."""

    def __init__(self) -> None:
        super().__init__()
        self.level = nn.Parameter(torch.tensor(1 / 255))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits (N, 2) for images 0..1."""
        excess = images.flatten(1).std(dim=1) - self.level
        return torch.stack([-excess, excess], dim=1)


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "levels"), [("circle", "1-64,159"), ("square", "1-8,19-21,112")])
def test_gratings_have_their_frequency_as_bias(shape: str, levels: str, tmp_path: Path) -> None:
    folder = tmp_path / "gratings" / "1"
    folder.mkdir(parents=True)
    for cycles in (3, 7, 20):
        Image.fromarray(grating(0, cycles)).save(folder / f"{cycles}.png")
    fields = {**SQUARE, "transforms": {"shape": shape}}
    built = rs.build(
        "low-pass", folder.parent, tmp_path / "data", severities=levels, fields=fields, executor="local", workers=1
    )
    assert built.complete
    evaluation = rs.evaluate(
        Contrast(), tmp_path / "data", tmp_path / "results", mean=(0, 0, 0), std=(1, 1, 1), batch_size=3
    )
    figures = evaluation.figures()
    assert [figures[name] for name in ("f_bias", "f_bias (settled)")] == [10, 10]
    assert figures["area above the curve"] == pytest.approx(10)
    (bias,) = evaluation.report().table("f_bias").to_pylist()
    assert (bias["low"], bias["high"], bias["images"]) == (3, 20, 3)
    assert "pass_all = 112" in (tmp_path / "results" / "evaluation.toml").read_text()
