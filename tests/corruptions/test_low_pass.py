"""Low-pass filtered images: kept frequencies, rounding, levels that change nothing."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from corruptions import low_pass
from pipeline.images.decoders import decode
from pipeline.images.resizers import prepare
from tests.factories.images import noise

SIDE = 224
STEPS = (("shorter_side", 256), ("center_crop", SIDE))

KEPT = {0: 1, 1: 5, 2: 13, 5: 81, 10: 317, 20: 1257, 32: 3209, 64: 12853, 112: 39379, 158: 50175, 159: 50176}
"""Bandwidth -> number of coefficients that a circle keeps at 224 x 224."""


def grating(down: int, across: int, height: int = SIDE, width: int = SIDE) -> NDArray[np.uint8]:
    """Return a cosine of amplitude 100 around 128, with cycles per image down and across."""
    rows, columns = np.mgrid[:height, :width]
    wave = 128 + 100 * np.cos(2 * np.pi * (down * rows / height + across * columns / width))
    return np.repeat(np.floor(wave + 0.5).astype(np.uint8)[:, :, None], 3, axis=2)


def frequencies(side: int) -> NDArray[np.floating]:
    return np.fft.fftfreq(side, 1 / side)


def by_numpy(image: NDArray[np.uint8], kept: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return the image without the coefficients outside of ``kept`` (H, W), computed with numpy.fft."""
    values = np.fft.ifft2(np.fft.fft2(image.astype(np.float64), axes=(0, 1)) * kept[:, :, None], axes=(0, 1)).real
    return np.clip(np.floor(values + 0.5 + 2**-20), 0, 255).astype(np.uint8)


def largest_difference(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> int:
    return int(np.abs(one.astype(int) - other).max())


@pytest.mark.parametrize(
    ("image", "shape", "gone", "back"),
    [
        (grating(0, 10), "circle", 9, 10),
        (grating(0, 10), "square", 9, 10),
        (grating(10, 0), "circle", 9, 10),
        (grating(6, 8), "circle", 9, 10),
        (grating(6, 8), "square", 7, 8),
    ],
)
def test_gratings_vanish_below_their_frequency(image: NDArray[np.uint8], shape: str, gone: int, back: int) -> None:
    assert (low_pass.low_pass(image, gone, shape=shape) == 128).all()
    for bandwidth in (back, back + 1, 112):
        assert largest_difference(low_pass.low_pass(image, bandwidth, shape=shape), image) <= 1


@pytest.mark.parametrize("shape", low_pass.SHAPES)
def test_the_pass_all_bandwidth_keeps_every_level(shape: str, photographs: Path) -> None:
    images = [noise(SIDE, SIDE, seed=seed) for seed in range(20)]
    files = sorted(photographs.rglob("*.*"))[:5]
    images += [prepare(decode(file.read_bytes(), "pillow"), STEPS, "pillow-bilinear") for file in files]
    assert len(images) == 25
    for image in images:
        np.testing.assert_array_equal(
            low_pass.low_pass(image, low_pass.pass_all(SIDE, SIDE, shape), shape=shape), image
        )


def test_the_bandwidth_below_lacks_the_highest_frequency() -> None:
    rows, columns = np.mgrid[:SIDE, :SIDE]
    checkerboard = np.repeat(((rows + columns) % 2 * 255).astype(np.uint8)[:, :, None], 3, axis=2)
    assert (low_pass.low_pass(checkerboard, 158) == 128).all()
    np.testing.assert_array_equal(low_pass.low_pass(checkerboard, 159), checkerboard)
    assert (low_pass.low_pass(checkerboard, 111, shape="square") == 128).all()
    np.testing.assert_array_equal(low_pass.low_pass(checkerboard, 112, shape="square"), checkerboard)


@pytest.mark.parametrize(
    ("shape", "expected"), [("circle", [159, 211, 46, 23, 2, 0]), ("square", [112, 149, 32, 16, 1, 0])]
)
def test_the_pass_all_bandwidth_depends_on_the_side(shape: str, expected: list[int]) -> None:
    sides = (224, 299, 64, 32, 2, 1)
    assert [low_pass.pass_all(side, side, shape) for side in sides] == expected
    assert low_pass.pass_all(30, 41) == 25  # 15 and 20 cycles


@pytest.mark.parametrize("bandwidth", KEPT)
def test_pixels_are_those_of_the_definition(bandwidth: int) -> None:
    image, squares = noise(SIDE, SIDE), frequencies(SIDE) ** 2
    kept = squares[:, None] + squares <= bandwidth**2
    assert kept.sum() == KEPT[bandwidth]
    np.testing.assert_array_equal(low_pass.low_pass(image, bandwidth), by_numpy(image, kept))


@pytest.mark.parametrize("size", [(299, 299), (33, 16), (16, 47), (101, 64), (1, 9), (1, 1)])
def test_sides_may_be_odd_and_unequal(size: tuple[int, int]) -> None:
    image = noise(*size)
    down, across = np.abs(frequencies(size[0]))[:, None], np.abs(frequencies(size[1]))
    for bandwidth in (0, 3, 8, 20):
        circle, square = down**2 + across**2 <= bandwidth**2, np.maximum(down, across) <= bandwidth
        np.testing.assert_array_equal(low_pass.low_pass(image, bandwidth), by_numpy(image, circle))
        np.testing.assert_array_equal(low_pass.low_pass(image, bandwidth, shape="square"), by_numpy(image, square))
    for shape in low_pass.SHAPES:
        largest = low_pass.pass_all(*size, shape)
        np.testing.assert_array_equal(low_pass.low_pass(image, largest + 5, shape=shape), image)
        assert largest == 0 or (low_pass.low_pass(image, largest - 1, shape=shape) != image).any()


def test_filtering_again_changes_no_level_and_keeps_the_mean() -> None:
    """Where values were clipped, neither holds; this image has none at these bandwidths."""
    rows, columns = np.mgrid[:SIDE, :SIDE]
    image = (noise(SIDE, SIDE) // 4 + ((rows * columns // 97) % 60)[:, :, None] + 60).astype(np.uint8)
    for bandwidth in (0, 4, 16, 40, 100):
        once = low_pass.low_pass(image, bandwidth)
        assert once.min() > 0
        assert once.max() < 255
        assert largest_difference(low_pass.low_pass(once, bandwidth), once) <= 1
        assert np.abs(once.mean(axis=(0, 1)) - image.mean(axis=(0, 1))).max() <= 0.5


def test_halves_are_rounded_up() -> None:
    """The mean of two levels is exactly a half, whatever the errors of the transform are."""
    for low in (0, 7, 127, 254):
        image = np.full((SIDE, SIDE, 3), low, np.uint8)
        image[:, ::2] += 1
        assert (low_pass.low_pass(image, 0) == low + 1).all()


def test_values_are_clipped() -> None:
    image = np.zeros((64, 64, 3), np.uint8)
    image[:, 32:] = 255
    filtered = low_pass.low_pass(image, 8)
    assert (filtered.min(), filtered.max()) == (0, 255)  # overshoots of the edge do not wrap around
    assert largest_difference(filtered[:, 44:52], image[:, 44:52]) < 25


def test_one_transform_serves_all_bandwidths() -> None:
    image = noise(64, 48)
    before, spectra = image.copy(), low_pass.spectra(image)
    for bandwidth in (20, 3, 50, 3):
        np.testing.assert_array_equal(low_pass.limited(spectra, bandwidth), low_pass.low_pass(image, bandwidth))
    np.testing.assert_array_equal(image, before)
    assert spectra.nbytes == 3 * 2 * 64 * 25 * 8


def test_grey_images_are_repeated() -> None:
    grey = noise(32, 32)[:, :, 0]
    colours = low_pass.low_pass(grey, 5)
    assert colours.shape == (32, 32, 3)
    np.testing.assert_array_equal(colours, low_pass.low_pass(np.repeat(grey[:, :, None], 3, axis=2), 5))


def test_invalid_arguments_are_named() -> None:
    image = noise(16, 16)
    with pytest.raises(ValueError, match="bandwidth must be 0 or more, not -1"):
        low_pass.low_pass(image, -1)
    with pytest.raises(TypeError, match=r"bandwidth must be an integer, not 2\.5"):
        low_pass.low_pass(image, 2.5)
    with pytest.raises(ValueError, match="unknown shape 'hexagon'; allowed: circle, square"):
        low_pass.low_pass(image, 2, shape="hexagon")
    with pytest.raises(TypeError, match="image must be uint8"):
        low_pass.low_pass(image.astype(float), 2)
