"""The public functions for all candidates: names, reference outputs, arguments and errors."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corruptions
from tests.corruptions.candidates import goldens
from tests.factories.images import assert_corrupted_copy, blocks

NAMES = (
    *("Affines", "Blur", "Border", "ChannelDropout", "CoarseDropout", "ColorJitter", "Cutout", "Downscale"),
    *("ElasticTransform", "Emboss", "Flip", "GaussianBlur", "GaussNoise", "GridDistortion", "HueSaturationValue"),
    *("ImageCompression", "InvertImg", "ISONoise", "JpegCompression", "MedianBlur", "MotionBlur"),
    *("MultiplicativeNoise", "OpticalDistortion", "Perspective", "Posterize", "RandomBrightness", "RandomContrast"),
    *("RandomFog", "RandomGamma", "RandomGridShuffle", "RandomRain", "RandomShadow", "RandomSnow", "RandomSunFlare"),
    *("RGBShift", "Rotate", "Sharpen", "Solarize", "ToSepia", "Transpose"),
)
"""In published order."""

SIZES = ((130, 131), (135, 257), (301, 149))
"""Sides other than 224, with odd ones."""

WITHOUT_DRAWS = {"Border", "Downscale", "InvertImg", "Posterize", "Solarize", "ToSepia"}
"""Candidates without a random part."""


def test_names_are_those_of_the_publication_in_order() -> None:
    assert len(NAMES) == 40
    assert corruptions.names("candidates") == NAMES
    chosen = corruptions.names("syn2nat")
    assert len(set(chosen)) == 18
    assert set(chosen) <= set(NAMES)
    assert chosen[:3] == ("Solarize", "RandomSunFlare", "RandomShadow")
    assert chosen[-3:] == ("ColorJitter", "ChannelDropout", "ToSepia")
    assert len(corruptions.names("all")) == 19


@pytest.mark.parametrize("name", NAMES)
def test_outputs_equal_the_references(name: str, references: Path) -> None:
    found = list(goldens.load(references, name))
    assert found
    for golden in found:
        result = corruptions.apply(golden.image, name, golden.draws)
        np.testing.assert_array_equal(result, golden.expected, golden.key)


@pytest.mark.parametrize("name", NAMES)
def test_corrupt_equals_apply_with_the_draws(name: str) -> None:
    for size in SIZES:
        image = blocks(*size)
        before = image.copy()
        draws = corruptions.draw(image, name, seed=9)
        kept = deepcopy(draws)
        result = corruptions.apply(image, name, draws)
        np.testing.assert_equal(draws, kept)
        assert np.array_equal(result, corruptions.corrupt(image, name, seed=9))
        assert_corrupted_copy(result, image, before)
        assert not np.array_equal(result, image)
        assert (not draws) == (name in WITHOUT_DRAWS)


@pytest.mark.parametrize("name", NAMES)
def test_lists_replace_tuples_and_arrays(name: str) -> None:
    def listed(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.tolist()
        return [listed(each) for each in value] if isinstance(value, list | tuple) else value

    image = blocks(130, 131)
    draws = corruptions.draw(image, name, seed=4)
    result = corruptions.apply(image, name, {key: listed(value) for key, value in draws.items()})
    assert np.array_equal(result, corruptions.apply(image, name, draws))


@pytest.mark.parametrize("name", NAMES)
def test_equal_seeds_give_equal_images_in_every_layout(name: str) -> None:
    image = blocks(140, 150)
    expected = corruptions.corrupt(image, name, seed=3)
    read_only = image.copy()
    read_only.flags.writeable = False
    for other in (read_only, np.asfortranarray(image)):
        assert np.array_equal(corruptions.corrupt(other, name, 1, profile="imagenet", seed=3), expected)
    assert np.array_equal(corruptions.corruptor(name)(image, 3), expected)
    if name not in WITHOUT_DRAWS:
        assert any(
            not np.array_equal(corruptions.corrupt(image, name, seed=seed), expected) for seed in (4, 5, 2**128 - 1)
        )


@pytest.mark.parametrize("name", ["Affines", "Posterize", "Solarize"])
def test_grey_equals_three_equal_channels(name: str) -> None:
    grey = blocks(140, 150)[..., 0]
    expected = corruptions.corrupt(np.repeat(grey[..., None], 3, axis=2), name, seed=4)
    assert np.array_equal(corruptions.corrupt(grey, name, seed=4), expected)
    draws = corruptions.draw(grey, name, seed=4)
    assert np.array_equal(corruptions.apply(grey[..., None], name, draws), expected)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"image": [[1]]}, TypeError, "image must be a numpy array, not list"),
        ({"image": np.zeros((130, 129, 3), np.uint8)}, ValueError, "at least 130 x 130, not 130 x 129"),
        (
            {"name": "Affine"},
            ValueError,
            "unknown corruption 'Affine' .did you mean 'Affines'.*; allowed: gaussian_noise, .*, Affines, Blur",
        ),
        ({"severity": 2}, ValueError, "severity must be 1, the only one, not 2"),
        ({"severity": True}, TypeError, "severity must be an integer, not True"),
        ({"profile": "tiny"}, ValueError, "profile must be 'imagenet' for 'Rotate', not 'tiny'"),
        ({"profile": "mnist"}, ValueError, "unknown profile 'mnist'; allowed: imagenet"),
        ({"seed": -1}, ValueError, r"seed must be 0 <= seed < 2\*\*128, not -1"),
        ({"rng": np.random.RandomState(1)}, ValueError, "rng is not supported by 'Rotate', .* use seed"),
        ({"options": None}, TypeError, "options must be corruptions.Options, not NoneType"),
    ],
)
def test_corrupt_names_the_value_and_what_is_allowed(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    call: dict[str, Any] = {"image": blocks(140, 150), "name": "Rotate", **arguments}
    with pytest.raises(error, match=message):
        corruptions.corrupt(call.pop("image"), call.pop("name"), **call)


@pytest.mark.parametrize(
    ("draws", "error", "message"),
    [
        ({}, ValueError, "draws of 'Rotate' must have angle, not none"),
        ({"angle": 1, "scale": 2}, ValueError, "draws of 'Rotate' must have angle, not angle, scale"),
        ([("angle", 1)], TypeError, "draws must be a mapping as returned by corruptions.draw, not list"),
        ({"angle": np.nan}, ValueError, "draw 'angle' must have finite numbers of at most 16777216, not nan"),
        ({"angle": [(1, -np.inf)]}, ValueError, "draw 'angle' must have finite numbers .*, not -inf"),
        ({"angle": np.array([1.0, 2**24 + 2])}, ValueError, "draw 'angle' must have finite numbers"),
        ({"angle": True}, ValueError, "draw 'angle' must have finite numbers .*, not True"),
    ],
)
def test_apply_names_missing_and_unknown_draws(draws: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        corruptions.apply(blocks(140, 150), "Rotate", draws)
    with pytest.raises(ValueError, match="draws of 'Border' must have no keys, not angle"):
        corruptions.apply(blocks(140, 150), "Border", {"angle": 1})


def test_apply_accepts_what_was_recorded_beside_the_draws_of_this_candidate_only() -> None:
    image = blocks(140, 150)
    draws = corruptions.draw(image, "Perspective")
    expected = corruptions.apply(image, "Perspective", draws)
    assert np.array_equal(corruptions.apply(image, "Perspective", {**draws, "scale": 0.2}), expected)
    with pytest.raises(ValueError, match="draws of 'Perspective' must have jitter, not scale"):
        corruptions.apply(image, "Perspective", {"scale": 0.2})
    with pytest.raises(ValueError, match="must have jitter, not jitter, var"):
        corruptions.apply(image, "Perspective", {**draws, "var": 1})


def test_apply_rejects_draws_of_another_size() -> None:
    draws = corruptions.draw(blocks(140, 151), "ElasticTransform")
    with pytest.raises(ValueError, match=r"draw 'dx' must have shape 140 x 150, not \(140, 151\); draw again"):
        corruptions.apply(blocks(140, 150), "ElasticTransform", draws)


@pytest.mark.parametrize("function", [corruptions.draw, lambda image, name: corruptions.apply(image, name, {})])
def test_draw_and_apply_reject_other_names_and_small_images(function: Any) -> None:
    with pytest.raises(ValueError, match="unknown transform with draws 'fog'; allowed: Affines, "):
        function(blocks(140, 150), "fog")
    with pytest.raises(ValueError, match="at least 130 x 130, not 129 x 150"):
        function(blocks(129, 150), "Border")


def test_draw_rejects_invalid_seeds() -> None:
    with pytest.raises(ValueError, match="seed must be"):
        corruptions.draw(blocks(140, 150), "Rotate", seed=2**128)
