"""Corruptions of ImageNet-C beside the published arithmetic in NumPy, SciPy, scikit-image and OpenCV: equal pixels.

The images are chosen to reach values at which truncation decides: flat, ramps, saturated, two levels, noise.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from typing import Any

import cv2
import numpy as np
import pytest
import skimage.data
from numpy.random import RandomState
from scipy import ndimage
from skimage.filters import gaussian

import corruptions
from corruptions import blur, digital, precipitation, weather
from corruptions.catalogue import PROFILE_SIDES, SEVERITIES
from corruptions.kernels.smoothing import motion
from corruptions.precipitation import MUD
from pipeline.images.resizers import prepare

Image = np.ndarray
Arithmetic = Callable[[Image, tuple[Any, ...], RandomState], np.ndarray]
"""A function of an image, the published parameters and a source of draws that returns values in 0..255."""


def images(side: int) -> Mapping[str, Image]:
    """Return images of a side by name."""
    rng, ramp = RandomState(side), np.arange(side)
    halves = np.zeros((side, side, 3), np.uint8)
    halves[: side // 2], halves[:, : side // 3, 0] = 255, 200
    return {
        "photograph": prepare(skimage.data.chelsea(), [("square", side)]),
        "flat": np.full((side, side, 3), 254, np.uint8),
        "ramp": np.ascontiguousarray(np.broadcast_to(ramp[:, None] % 256, (side, side, 3)).astype(np.uint8)),
        "slow ramp": np.ascontiguousarray(np.broadcast_to((ramp // 9)[:, None], (side, side, 3)).astype(np.uint8)),
        "saturated": halves,
        "two levels": rng.choice(np.array([0, 255], np.uint8), (side, side, 3)),
        "noise": rng.randint(0, 256, (side, side, 3)).astype(np.uint8),
    }


def motion_blur(image: Image, radius: int, sigma: float, angle: float) -> Image:
    """Return ImageMagick's motion blur: 16-bit quanta, added up in float64 tap by tap."""
    width, height = image.shape[1], image.shape[0]
    weights = np.exp(-(np.arange(2 * radius + 1.0) ** 2) / (2.0 * sigma * sigma)) / (motion.SQRT_2PI * sigma)
    total = np.zeros(image.shape)
    offsets = motion.tap_offsets(weights.size, *motion.line_step(weights.size, angle))
    for (dx, dy), weight in zip(offsets, weights / np.add.accumulate(weights)[-1], strict=True):
        rows = np.clip(np.arange(height) + dy, 0, height - 1)
        columns = np.clip(np.arange(width) + dx, 0, width - 1)
        total += weight * (257.0 * image[rows][:, columns])
    return ((total + 0.5).astype(np.int64) // 257).astype(np.uint8)


def _blur_motion(image: Image, parameters: tuple[Any, ...], rng: RandomState) -> np.ndarray:
    radius, sigma, *_ = parameters
    return motion_blur(image, radius, sigma, rng.uniform(-45, 45))


def _centre_zoom(layer: np.ndarray, factor: float) -> np.ndarray:
    side = len(layer)
    length = int(np.ceil(side / factor))
    top = (side - length) // 2
    zoomed = ndimage.zoom(layer[top : top + length, top : top + length], factor, order=1)
    trim = (len(zoomed) - side) // 2
    return zoomed[trim : trim + side, trim : trim + side]


def _snow(image: Image, parameters: tuple[Any, ...], rng: RandomState) -> np.ndarray:
    loc, scale, factor, threshold, radius, sigma, mix, *_ = parameters
    x = np.array(image, np.float32) / 255.0
    layer = _centre_zoom(rng.normal(loc, scale, image.shape[:2]), factor)
    layer[layer < threshold] = 0
    flakes = (np.clip(layer, 0, 1) * 255).astype(np.uint8)
    snow = motion_blur(flakes, radius, sigma, rng.uniform(-135, -45))[..., None] / 255.0
    grey = cv2.cvtColor(x, cv2.COLOR_RGB2GRAY)[..., None]
    x = mix * x + (1 - mix) * np.maximum(x, grey * 1.5 + 0.5)
    return np.clip(x + snow + np.rot90(snow, k=2), 0, 1) * 255


def _fog(image: Image, parameters: tuple[Any, ...], rng: RandomState) -> np.ndarray:
    amount, decay, side = parameters
    heights, step, wibble = np.zeros((side, side)), side, 100.0

    def displaced(total: np.ndarray) -> np.ndarray:
        return total / 4 + wibble * rng.uniform(-wibble, wibble, total.shape)

    while step >= 2:
        half = step // 2
        corners, centres = heights[::step, ::step], heights[half::step, half::step]
        squares = corners + np.roll(corners, -1, axis=0)
        centres[:] = displaced(squares + np.roll(squares, -1, axis=1))
        right = (centres + np.roll(centres, 1, axis=0)) + (corners + np.roll(corners, -1, axis=1))
        heights[::step, half::step] = displaced(right)
        below = (centres + np.roll(centres, 1, axis=1)) + (corners + np.roll(corners, -1, axis=0))
        heights[half::step, ::step] = displaced(below)
        step, wibble = half, wibble / decay
    heights -= heights.min()
    x = image / 255.0
    brightest = x.max()
    x += amount * (heights / heights.max())[: len(image), : len(image), None]
    return np.clip(x * brightest / (brightest + amount), 0, 1) * 255


def _spatter(image: Image, parameters: tuple[Any, ...], rng: RandomState) -> np.ndarray:
    loc, scale, sigma, threshold, amount, kind, _ = parameters
    x = np.array(image, np.float32) / 255.0
    layer = gaussian(rng.normal(loc, scale, image.shape[:2]), sigma)
    layer[layer < threshold] = 0
    if kind == MUD:
        mud = gaussian((layer > threshold).astype(np.float32), amount)
        mud[mud < 0.8] = 0
        colour = np.array([63, 42, 20], np.float32) / 255.0
        return np.clip(x * (1 - mud[..., None]) + colour * mud[..., None], 0, 1) * 255
    drops = (layer * 255).astype(np.int64).astype(np.uint8)
    water = drops * precipitation.water_thickness(drops).astype(np.float32)
    water = water / water.max() * amount if water.any() else water
    colour = np.array([175, 238, 238], np.float32) / 255.0
    return np.clip(x + water[..., None] * colour, 0, 1) * 255


def _elastic(image: Image, parameters: tuple[Any, ...], rng: RandomState) -> np.ndarray:
    alpha, sigma, jitter = parameters
    x, side = np.array(image, np.float32) / 255.0, len(image)
    centre, third = side // 2, side // 3
    corners = np.array([[centre + third] * 2, [centre + third, centre - third], [centre - third] * 2], np.float32)
    moved = corners + rng.uniform(-jitter, jitter, corners.shape).astype(np.float32)
    matrix = cv2.getAffineTransform(corners, moved)
    warped = cv2.warpAffine(x, matrix, (side, side), borderMode=cv2.BORDER_REFLECT_101)
    right, down = (
        (gaussian(rng.uniform(-1, 1, (side, side)), sigma, mode="reflect", truncate=3) * alpha).astype(np.float32)
        for _ in range(2)
    )
    rows, columns, channels = np.mgrid[:side, :side, :3]
    positions = rows + down[..., None], columns + right[..., None], channels
    return np.clip(ndimage.map_coordinates(warped, positions, order=1, mode="reflect"), 0, 1) * 255


ARITHMETIC: Mapping[str, tuple[Mapping[str, Sequence[Any]], Arithmetic]] = {
    "motion_blur": (blur.MOTION_BLUR, _blur_motion),
    "snow": (precipitation.SNOW, _snow),
    "fog": (weather.FOG, _fog),
    "spatter": (precipitation.SPATTER, _spatter),
    "elastic_transform": (digital.ELASTIC_TRANSFORM, _elastic),
}
"""Corruption -> its parameters, and its published arithmetic."""


OF_OPENCV = {"snow", "elastic_transform"}
"""Corruptions that use functions of OpenCV whose products are fused with sums only on CPUs that can do that."""
FUSED = (12, 100)
"""OpenCV's numbers of FMA3 and NEON."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ARITHMETIC)
@pytest.mark.parametrize("profile", PROFILE_SIDES)
def test_pixels_are_those_of_the_published_arithmetic(profile: str, name: str, fewer: int) -> None:
    if name in OF_OPENCV and not any(map(cv2.checkHardwareSupport, FUSED)):
        pytest.skip("OpenCV rounds otherwise on this CPU")
    if fewer > 1 and PROFILE_SIDES[profile] > 64:
        pytest.skip("the plain arithmetic of large images takes seconds")
    table, published = ARITHMETIC[name]
    for index, (kind, image) in enumerate(images(PROFILE_SIDES[profile]).items()):
        for severity in SEVERITIES if profile != "inception" else (1, 5):
            seed = 100 * index + severity
            expected = published(image, astuple(table[profile][severity - 1]), RandomState(seed)).astype(np.uint8)
            found = corruptions.corrupt(image, name, severity, profile=profile, rng=RandomState(seed))
            np.testing.assert_array_equal(found, expected, f"{kind}, severity {severity}")
