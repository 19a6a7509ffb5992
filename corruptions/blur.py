"""Blur corruptions: defocus, frosted glass, motion, zoom and, in the extra group, Gaussian."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corruptions.catalogue import Image, Transform, table, with_detection
from corruptions.draws import DrawSource
from corruptions.imagemagick import BACKENDS
from corruptions.kernels.sampling import glass, zoom
from corruptions.kernels.smoothing import defocus, motion
from corruptions.kernels.smoothing import gaussian_image as smoothing


@dataclass(frozen=True)
class Defocus:
    """Radius of the disk in pixels, and sigma in pixels of the Gaussian that smooths its edge."""

    radius: float
    alias: float


def blur_defocus(image: Image, parameters: Defocus, draws: None) -> Image:
    """Return the image correlated with a smoothed disk."""
    return defocus.defocus(image, parameters.radius, parameters.alias)


DEFOCUS_BLUR = table(
    Defocus,
    imagenet=[(3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)],
    inception=[(4, 0.1), (5, 0.5), (7, 0.5), (10, 0.5), (12, 0.5)],
    tiny=[(0.5, 0.6), (1, 0.1), (1.5, 0.1), (2.5, 0.01), (3, 0.1)],
    cifar=[(0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)],
)


@dataclass(frozen=True)
class Glass:
    """Sigma in pixels of the smoothing before and after, largest offset in pixels, and number of shuffle passes."""

    sigma: float
    delta: int
    iterations: int


def draw_offsets(source: DrawSource, image: Image, parameters: Glass) -> NDArray[np.integer]:
    """Draw the offset (dx, dy) of each visited pixel, int (iterations, H - 2 delta, W - 2 delta, 2).

    One call draws the same stream as the published scripts, which make one call per pixel.
    Quirk: the upper end is excluded, so offsets are in -delta..delta - 1 (published scripts).
    """
    delta = parameters.delta
    height, width = (max(side - 2 * delta, 0) for side in image.shape[:2])
    return source.integers(-delta, delta, (parameters.iterations, height, width, 2))


def blur_glass(image: Image, parameters: Glass, draws: NDArray[np.integer]) -> Image:
    """Return the image smoothed, with pixels replaced by near ones, and smoothed again."""
    smooth = smoothing.smooth_image(image, parameters.sigma)
    shuffled = glass.shuffle(smooth, draws, parameters.delta)
    return smoothing.smooth_image(shuffled, parameters.sigma)


GLASS_BLUR = table(
    Glass,
    imagenet=[(0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)],
    inception=[(0.8, 1, 3), (1, 3, 1), (1.1, 2, 4), (1.2, 4, 2), (1.6, 5, 2)],
    tiny=[(0.1, 1, 1), (0.5, 1, 1), (0.6, 1, 2), (0.7, 2, 1), (0.9, 2, 2)],
    cifar=[(0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)],
)


MIN_ANGLE, MAX_ANGLE = -45.0, 45.0
"""Range in degrees from which motion blur draws its direction."""


@dataclass(frozen=True)
class Motion:
    """Half the length of the line in pixels, sigma along it in pixels, and backend ("native" or "imagemagick").

    ``floats``: sums are truncated as floats, not in ImageMagick's 16 bits.
    """

    radius: int
    sigma: float
    motion: str = "native"
    floats: bool = False


def draw_angle(source: DrawSource, image: Image, parameters: Motion) -> float:
    """Draw the direction of the motion in degrees."""
    return source.angle(MIN_ANGLE, MAX_ANGLE)


def blur_motion(image: Image, parameters: Motion, draws: float) -> Image:
    """Return the image blurred along a line."""
    if parameters.floats:
        return motion.float_blur(image, parameters.radius, parameters.sigma, draws)
    return BACKENDS[parameters.motion](image, parameters.radius, parameters.sigma, draws)


MOTION_BLUR = table(
    Motion,
    imagenet=[(10, 3), (15, 5), (15, 8), (15, 12), (20, 15)],
    inception=[(12, 4), (17, 6), (17, 9), (17, 13), (22, 16)],
    tiny=[(10, 1), (10, 1.5), (10, 2), (10, 2.5), (12, 3)],
    cifar=[(6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)],
)


@dataclass(frozen=True)
class ZoomRange:
    """Zoom factors: start, stop (excluded) and step.

    ``black_ends``: the last row or column of a zoom is black where rounding places it beyond the image.
    """

    start: float
    stop: float
    step: float
    black_ends: bool = False


def zoom_factors(start: float, stop: float, step: float) -> tuple[float, ...]:
    """Return the zoom factors as ``numpy.arange`` computes them, which may use fused multiply-add on some CPUs.

    Quirk: because of rounding, arange(1, 1.11, 0.01) includes 1.11 although the end is excluded (published scripts).
    """
    rounded_step = (start + step) - start
    return tuple(start + index * rounded_step for index in range(math.ceil((stop - start) / step)))


SINGLE_LEVELS = ((np.arange(256) / 255.0).astype(np.float32) * np.float32(255)).astype(np.uint8)
"""Result of the single factor 1 for each level, in the published float32. It occurs below severity 0.1."""


def blur_zoom(image: Image, parameters: ZoomRange, draws: None) -> Image:
    """Return the mean of the image and its centre zoomed by each factor, including factor 1."""
    factors = zoom_factors(parameters.start, parameters.stop, parameters.step)
    return zoom.zoom_blur(image, factors, parameters.black_ends) if factors[1:] else SINGLE_LEVELS[image]


ZOOM_BLUR = table(
    ZoomRange,
    imagenet=[(1.0, 1.11, 0.01), (1.0, 1.16, 0.01), (1.0, 1.21, 0.02), (1.0, 1.26, 0.02), (1.0, 1.31, 0.03)],
    inception=[(1.0, 1.11, 0.01), (1.0, 1.16, 0.01), (1.0, 1.21, 0.02), (1.0, 1.26, 0.02), (1.0, 1.31, 0.03)],
    tiny=[(1.0, 1.06, 0.01), (1.0, 1.11, 0.01), (1.0, 1.16, 0.01), (1.0, 1.21, 0.01), (1.0, 1.26, 0.01)],
    cifar=[(1.0, 1.06, 0.01), (1.0, 1.11, 0.01), (1.0, 1.16, 0.01), (1.0, 1.21, 0.01), (1.0, 1.26, 0.01)],
)


@dataclass(frozen=True)
class Gaussian:
    """Sigma of the smoothing in pixels."""

    sigma: float


def blur_gaussian(image: Image, parameters: Gaussian, draws: None) -> Image:
    """Return the smoothed image."""
    return smoothing.smooth_image(image, parameters.sigma)


GAUSSIAN_BLUR = table(
    Gaussian,
    imagenet=[(1,), (2,), (3,), (4,), (6,)],
    inception=[(1.5,), (2.5,), (3.5,), (4.5,), (6.5,)],
    tiny=[(0.5,), (0.75,), (1,), (1.25,), (1.5,)],
    cifar=[(0.4,), (0.6,), (0.7,), (0.8,), (1,)],
)

CORRUPTIONS: tuple[Transform, ...] = (
    Transform("defocus_blur", 2, "blur", DEFOCUS_BLUR, blur_defocus),
    Transform("glass_blur", 2, "blur", GLASS_BLUR, blur_glass, draw_offsets),
    Transform("motion_blur", 2, "blur", with_detection(MOTION_BLUR, floats=True), blur_motion, draw_angle),
    Transform("zoom_blur", 2, "blur", with_detection(ZOOM_BLUR, black_ends=True), blur_zoom),
    Transform("gaussian_blur", 3, "blur", GAUSSIAN_BLUR, blur_gaussian, benchmark=False),
)
