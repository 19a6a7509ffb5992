from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from corruptions import preparation
from corruptions.preparation import Window, crop, pillow_bilinear
from pipeline.images.resizers import OPERATORS, prepare
from pipeline.recipes import library

IMAGENET = library.load("imagenet-c").prepare.steps


def noise(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(height * 10_000 + width).integers(0, 256, (height, width, 3)).astype(np.uint8)


def resized(image: np.ndarray, height: int, width: int) -> np.ndarray:
    return np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR))


def published(image: np.ndarray) -> np.ndarray:
    """Return the published preparation done by Pillow: shorter side 256, then a centre crop of 224 x 224."""
    height, width = image.shape[:2]
    rows, columns = (int(256 * height / width), 256) if width <= height else (256, int(256 * width / height))
    top, left = round((rows - 224) / 2), round((columns - 224) / 2)
    return resized(image, rows, columns)[top : top + 224, left : left + 224]


@pytest.mark.parametrize("size", [(500, 375), (375, 500), (256, 256), (333, 500), (16, 16), (17, 400), (1200, 301)])
def test_prepare_equals_the_published_preparation(size: tuple[int, int]) -> None:
    np.testing.assert_array_equal(prepare(noise(*size), IMAGENET), published(noise(*size)))


sizes = st.tuples(st.integers(1, 300), st.integers(1, 300))


@given(sizes, sizes, st.tuples(st.floats(0, 1), st.floats(0, 1)), st.tuples(st.floats(0, 1), st.floats(0, 1)))
@settings(max_examples=200, deadline=None)
def test_a_window_of_the_bilinear_resize_equals_pillow(
    before: tuple[int, int], after: tuple[int, int], corner: tuple[float, float], extent: tuple[float, float]
) -> None:
    image = noise(*before)
    top, left = (int(share * (side - 1)) for share, side in zip(corner, after, strict=True))
    height, width = after[0] - top, after[1] - left
    window = Window(top, left, *(max(int(part * side), 1) for part, side in zip(extent, (height, width), strict=True)))
    np.testing.assert_array_equal(pillow_bilinear(image, *after, window), crop(resized(image, *after), window))


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_computes_only_the_cropped_window(operator: str) -> None:
    image = noise(333, 500)
    whole = prepare(image, [("shorter_side", 256)], operator)
    np.testing.assert_array_equal(prepare(image, IMAGENET, operator), crop(whole, Window(16, 80, 224, 224)))


def test_a_crop_larger_than_the_image_raises() -> None:
    with pytest.raises(ValueError, match="224 x 224 pixels cannot be cropped from 300 x 200"):
        prepare(noise(300, 200), [("center_crop", 224)])


@given(st.integers(1, 400), st.integers(1, 400))
@settings(max_examples=30, deadline=None)
def test_every_size_gives_224_square(height: int, width: int) -> None:
    prepared = prepare(noise(height, width), IMAGENET)
    assert prepared.shape == (224, 224, 3)
    assert prepared.flags.c_contiguous
    assert prepared.flags.writeable


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("operator", ["pillow-bilinear", "pillow-bicubic"])
def test_only_the_cropped_part_of_a_strip_is_resized(
    monkeypatch: pytest.MonkeyPatch, transposed: bool, operator: str
) -> None:
    strip = noise(20, 900)
    strip = np.ascontiguousarray(strip.transpose(1, 0, 2)) if transposed else strip
    whole = prepare(strip, IMAGENET, operator)
    monkeypatch.setattr(preparation, "MAX_RESIZED_PIXELS", 256 * 1000)
    part = prepare(strip, IMAGENET, operator)
    assert np.abs(part.astype(int) - whole).max() <= 1
    assert max(prepare(strip, IMAGENET[:1], operator).shape) == 1000


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_extreme_strip_needs_little_memory(operator: str) -> None:
    assert prepare(noise(1, 60_000), IMAGENET, operator).shape == (224, 224, 3)


def test_crop_offsets_are_rounded_as_in_python() -> None:
    """(5 - 2) / 2 = 1.5 rounds to 2, (7 - 2) / 2 = 2.5 rounds to 2 as well."""
    image = noise(5, 7)
    np.testing.assert_array_equal(prepare(image, [("center_crop", 2)]), image[2:4, 2:4])


def test_fraction_and_square_steps() -> None:
    image = noise(100, 61)
    cropped = prepare(image, [("center_fraction", 0.875)])
    np.testing.assert_array_equal(cropped, image[6:93, 4:57])
    np.testing.assert_array_equal(prepare(image, [("square", 32)]), resized(image, 32, 32))


def test_prepare_does_not_modify_its_input() -> None:
    image = noise(224, 224)
    prepared = prepare(image, [("center_crop", 224)])
    prepared[:] = 0
    np.testing.assert_array_equal(image, noise(224, 224))
