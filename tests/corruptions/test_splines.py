"""Cubic B-splines beside SciPy's, on rectangles too."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import ndimage

from corruptions.c_bar.geometry import circular_motion_blur
from corruptions.kernels.sampling import splines

SIZES = [(16, 16), (17, 40), (40, 23)]


def picture(*size: int) -> NDArray[np.uint8]:
    """Return smoothed noise, uint8 (H, W, 3)."""
    noise = np.random.RandomState(2).randint(0, 256, (*size, 3)).astype(np.float64)
    smooth = ndimage.gaussian_filter(noise, (1, 1, 0))
    return np.clip((smooth - 128) * 3 + 128, 0, 255).astype(np.uint8)


@pytest.mark.parametrize("size", SIZES)
def test_coefficients_are_those_of_scipy(size: tuple[int, int]) -> None:
    image = picture(*size)
    found = splines.coefficients(image)
    for channel in range(3):
        plane = ndimage.spline_filter(image[..., channel].astype(np.float64), 3, mode="mirror")
        expected = np.pad(plane, ((1, 2), (1, 2)), mode="reflect")
        assert np.abs(found[..., channel] - expected).max() <= 1e-4
    assert not found[..., 3].any()


@pytest.mark.parametrize("size", SIZES)
def test_turn_is_that_of_scipy(size: tuple[int, int]) -> None:
    image, angle = picture(*size), 11.0
    turn = np.array([[math.cos(math.radians(angle)), math.sin(math.radians(angle))]])
    found = splines.turn_blur(image, turn, np.ones(1, np.float32))
    planes = [ndimage.rotate(image[..., c].astype(np.float64), angle, reshape=False) for c in range(3)]
    differences = np.abs(found - np.clip(np.stack(planes, axis=2), 0, 255).astype(np.uint8).astype(int))
    assert differences.max() <= 1
    assert (differences > 0).mean() <= 0.005


@pytest.mark.parametrize("size", SIZES)
def test_zooms_are_those_of_scipy(size: tuple[int, int]) -> None:
    image, zooms = picture(*size), (1.5, 1.0, 1.25)
    found = splines.zoom_channels(image, zooms)
    for channel, zoom in enumerate(zooms):
        larger = ndimage.zoom(image[..., channel], zoom, mode="mirror", prefilter=False)
        top, left = ((large - small) // 2 for large, small in zip(larger.shape, size, strict=True))
        expected = larger[top : top + size[0], left : left + size[1]].astype(int)
        differences = np.abs(found[..., channel] - expected)
        assert differences.max() <= 1
        assert (differences > 0).mean() <= 0.03


@pytest.mark.parametrize("level", [2.8, 6.0])
def test_blur_keeps_flat_areas_and_darkens_corners(level: float) -> None:
    for grey in range(256):
        blurred = circular_motion_blur(np.full((32, 32, 3), grey, np.uint8), level, None)
        assert (blurred[8:24, 8:24] == grey).all()
    assert (blurred[0, 0] < 255).all()
