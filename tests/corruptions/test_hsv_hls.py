"""Conversions of pixels to HSV and HLS, and back, against OpenCV and cases by hand."""

import cv2
import numba
import numpy as np
import pytest

from corruptions.kernels.colour import hsv_hls

GRID = np.arange(0, 256, 5, dtype=np.uint8)
COLOURS = np.stack(np.meshgrid(GRID, GRID, GRID), axis=-1).reshape(-1, 64, 3)
"""Colours on a grid, in rows that OpenCV converts by vectors alone."""


def over_pixels(convert, kind=np.uint8):
    """Return a function that converts pixels (N, 3) to an array of a kind."""

    @numba.njit
    def converted(pixels):
        out = np.empty(pixels.shape, kind)
        for i in range(len(pixels)):
            out[i, 0], out[i, 1], out[i, 2] = convert(pixels[i, 0], pixels[i, 1], pixels[i, 2])
        return out

    return converted


to_hls = over_pixels(hsv_hls.to_hls, np.float32)


@numba.njit
def hls_channels(hue, lightness, saturation):
    return hsv_hls.hls_channels(hue, lightness, saturation)


COMPONENTS = cv2.cvtColor(COLOURS, cv2.COLOR_RGB2HLS), cv2.cvtColor(COLOURS, cv2.COLOR_RGB2HSV)


@pytest.mark.parametrize(
    ("convert", "pixels", "code"),
    [
        (hsv_hls.to_hls_levels, COLOURS, cv2.COLOR_RGB2HLS),
        (hsv_hls.from_hls_levels, COMPONENTS[0], cv2.COLOR_HLS2RGB),
        (hsv_hls.to_hsv, COLOURS, cv2.COLOR_RGB2HSV),
        (hsv_hls.from_hsv, COMPONENTS[1], cv2.COLOR_HSV2RGB),
    ],
    ids=["to HLS", "from HLS", "to HSV", "from HSV"],
)
def test_8_bits_equal_opencv(convert, pixels, code):
    differing = (over_pixels(convert)(pixels.reshape(-1, 3)).reshape(pixels.shape) != cv2.cvtColor(pixels, code)).any(
        axis=2
    )
    assert np.count_nonzero(differing) <= 1  # OpenCV itself differs between its code for vectors and for single pixels


def test_hls_of_floats_equals_opencv():
    expected = cv2.cvtColor(COLOURS.astype(np.float32) * np.float32(1 / 255), cv2.COLOR_RGB2HLS).reshape(-1, 3)
    assert np.abs(to_hls(COLOURS.reshape(-1, 3)) - expected).max(axis=0) == pytest.approx(0, abs=4e-5)


@pytest.mark.parametrize(
    ("colour", "hue"),
    [((255, 0, 0), 0), ((9, 255, 9), 120), ((0, 0, 3), 240), ((200, 200, 0), 60), ((255, 0, 255), 300), ((7, 7, 7), 0)],
)
def test_hues_in_degrees(colour, hue):
    assert to_hls(np.array([colour], np.uint8))[0, 0] == pytest.approx(hue, abs=1e-4)


@pytest.mark.parametrize(
    ("hue", "sector", "middle"),
    [
        (0.25, 0, 0.25),
        (1.25, 1, 0.75),
        (5.5, 5, 0.5),
        (6.25, 0, 0.25),
        (13.25, 1, 0.75),
        (-0.25, 0, -0.25),
        (-2.5, 0, -0.5),
    ],
)
def test_hues_beyond_a_turn_wrap_but_negative_ones_do_not(hue, sector, middle):
    channels = hls_channels(np.float32(hue), np.float32(0.5), np.float32(1))
    assert channels == (sector, 1, middle, 0)
