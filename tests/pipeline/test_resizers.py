import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from corruptions import preparation
from corruptions.preparation import Window, crop, pillow_bilinear
from pipeline.errors import SampleError, UserError
from pipeline.images.encoders import Png
from pipeline.images.resizers import OPERATORS, opencv_operator, prepare
from pipeline.recipes import library
from pipeline.recipes.schema import Recipe
from pipeline.render.renderer import Renderer
from pipeline.render.warm_up import try_transforms
from tests.factories.images import noise

IMAGENET = library.load("imagenet-c").prepare.steps


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
shares = st.tuples(st.floats(0, 1), st.floats(0, 1))


def window_of(size: tuple[int, int], corner: tuple[float, float], extent: tuple[float, float]) -> Window:
    """Return a window of an image of this size, given as shares of its sides."""
    top, left = (int(share * (side - 1)) for share, side in zip(corner, size, strict=True))
    height, width = size[0] - top, size[1] - left
    return Window(top, left, *(max(int(part * side), 1) for part, side in zip(extent, (height, width), strict=True)))


@given(sizes, sizes, shares, shares)
@settings(max_examples=200)
def test_a_window_of_the_bilinear_resize_equals_pillow(
    before: tuple[int, int], after: tuple[int, int], corner: tuple[float, float], extent: tuple[float, float]
) -> None:
    image, window = noise(*before), window_of(after, corner, extent)
    np.testing.assert_array_equal(pillow_bilinear(image, *after, window), crop(resized(image, *after), window))


OPENCV: Mapping[str, int] = {
    "opencv-bilinear": cv2.INTER_LINEAR,
    "opencv-area": cv2.INTER_AREA,
    "opencv-bicubic": cv2.INTER_CUBIC,
}
"""Operators of our own that compute OpenCV's pixels."""

on_x86 = pytest.mark.skipif(
    platform.machine().lower() not in {"x86_64", "amd64"},
    reason="OpenCV's pixels differ on other CPUs; the committed digests cover ours",
)


@contextmanager
def without_ipp() -> Iterator[None]:
    """Exclude Intel's IPP, whose INTER_CUBIC differs between x86-64 CPUs, from OpenCV in this thread."""
    used = cv2.ipp.useIPP()
    cv2.ipp.setUseIPP(False)
    try:
        yield
    finally:
        cv2.ipp.setUseIPP(used)


def by_opencv(operator: str, image: np.ndarray, height: int, width: int) -> np.ndarray:
    return cv2.resize(image, (width, height), interpolation=OPENCV[operator])


def assert_equals_opencv(operator: str, image: np.ndarray, size: tuple[int, int], window: Window | None = None) -> None:
    window = window or Window(0, 0, *size)
    with without_ipp():
        expected = crop(by_opencv(operator, image, *size), window)
    np.testing.assert_array_equal(OPERATORS[operator].resize(image, *size, window), expected)


thin = st.integers(1, 9)
side = st.one_of(thin, st.integers(1, 300))
factors = st.tuples(st.integers(1, 5), st.integers(1, 5))


@on_x86
@pytest.mark.parametrize("operator", OPENCV)
@given(st.tuples(side, side), st.tuples(side, side), shares, shares, st.booleans())
@settings(max_examples=150)
def test_own_operators_equal_opencv(
    operator: str,
    before: tuple[int, int],
    after: tuple[int, int],
    corner: tuple[float, float],
    extent: tuple[float, float],
    extreme: bool,
) -> None:
    image = noise(*before)
    image = np.where(image < 128, 0, 255).astype(np.uint8) if extreme else image
    assert_equals_opencv(operator, image, after)
    assert_equals_opencv(operator, image, after, window_of(after, corner, extent))


@on_x86
@pytest.mark.parametrize("operator", OPENCV)
@given(st.tuples(st.integers(1, 60), st.integers(1, 60)), factors, shares, shares)
@settings(max_examples=60)
def test_own_operators_equal_opencv_for_whole_factors(
    operator: str,
    size: tuple[int, int],
    factor: tuple[int, int],
    corner: tuple[float, float],
    extent: tuple[float, float],
) -> None:
    larger = (size[0] * factor[0], size[1] * factor[1])
    assert_equals_opencv(operator, noise(*larger), size, window_of(size, corner, extent))
    assert_equals_opencv(operator, noise(*size), larger, window_of(larger, corner, extent))


@on_x86
@pytest.mark.parametrize("operator", OPENCV)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1500, 2000), (256, 341)),
        ((2049, 1367), (1366, 911)),
        ((1, 5000), (3, 3001)),
        ((4099, 2), (256, 1)),
        ((3, 7), (2500, 11)),
        ((2048, 2048), (256, 256)),
        ((224, 224), (224, 224)),
        ((32, 80), (8, 20)),  # INTER_CUBIC rounds the last values of rows as integers
        ((144, 148), (36, 37)),
    ],
)
def test_own_operators_equal_opencv_for_special_sizes(
    operator: str, before: tuple[int, int], after: tuple[int, int]
) -> None:
    assert_equals_opencv(operator, noise(*before), after)


@on_x86
@given(st.tuples(side, side), st.tuples(side, side))
@settings(max_examples=60)
def test_opencv_bicubic_is_within_one_level_of_opencv_with_ipp(before: tuple[int, int], after: tuple[int, int]) -> None:
    image = noise(*before)
    ours = OPERATORS["opencv-bicubic"].resize(image, *after, Window(0, 0, *after)).astype(int)
    assert np.abs(ours - by_opencv("opencv-bicubic", image, *after)).max() <= 1


@pytest.mark.parametrize("operator", OPENCV)
def test_views_are_resized_like_copies(operator: str) -> None:
    image = noise(90, 130)
    image.flags.writeable = False
    for view in (image[3:80, 5:120], image[::-1], image[:, ::-1], image[::3, ::2], image.transpose(1, 0, 2)):
        resize, window = OPERATORS[operator].resize, Window(1, 2, 30, 40)
        np.testing.assert_array_equal(resize(view, 37, 61, window), resize(view.copy(), 37, 61, window))


@on_x86
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("operator", ["opencv-bilinear", "opencv-area"])
def test_own_operators_treat_strips_like_operators_of_opencv(
    monkeypatch: pytest.MonkeyPatch, operator: str, transposed: bool
) -> None:
    monkeypatch.setattr(preparation, "MAX_RESIZED_PIXELS", 100 * 1000)
    strip = noise(20, 901)
    strip = np.ascontiguousarray(strip.transpose(1, 0, 2)) if transposed else strip
    size = (2253, 50) if transposed else (50, 2253)
    window = preparation.centre_window(*size, 48, 48)
    expected = opencv_operator(OPENCV[operator]).resize(strip, *size, window)
    np.testing.assert_array_equal(OPERATORS[operator].resize(strip, *size, window), expected)


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_computes_only_the_cropped_window(operator: str) -> None:
    image = noise(333, 500)
    whole = prepare(image, [("shorter_side", 256)], operator)
    np.testing.assert_array_equal(prepare(image, IMAGENET, operator), crop(whole, Window(16, 80, 224, 224)))


def test_a_crop_larger_than_the_image_raises() -> None:
    with pytest.raises(ValueError, match="224 x 224 pixels cannot be cropped from 300 x 200"):
        prepare(noise(300, 200), [("center_crop", 224)])


@given(st.integers(1, 400), st.integers(1, 400))
@settings(max_examples=30)
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


def cropping(*conditions: tuple[str, float]) -> Recipe:
    return library.load("imagenet-c").changed(
        prepare={"steps": conditions}, transforms={"only": ["contrast"], "levels": [1]}
    )


def test_only_images_smaller_than_the_crop_fail() -> None:
    cropped = cropping(("center_crop", 224.0))
    renderer = try_transforms(cropped, None)
    (condition,) = cropped.conditions()
    with pytest.raises(SampleError, match="224 x 224 pixels cannot be cropped from 223 x 300"):
        renderer.members(Png().encode(np.zeros((223, 300, 3), np.uint8)), "", condition)
    assert list(renderer.members(Png().encode(np.zeros((224, 300, 3), np.uint8)), "", condition)) == [".jpg"]


def test_a_preparation_that_fails_for_every_image_is_refused() -> None:
    with pytest.raises(UserError, match=r"\[prepare\].*224 x 224 pixels cannot be cropped from 200 x 200"):
        try_transforms(cropping(("shorter_side", 200.0), ("center_crop", 224.0)), None)


def test_sequences_from_small_images_fail() -> None:
    cropped = library.load("imagenet-p").changed(prepare={"steps": (("center_crop", 224.0),)})
    renderer = Renderer(cropped)
    with pytest.raises(SampleError, match="cannot be cropped"):
        renderer.prepare(np.zeros((100, 300, 3), np.uint8))
