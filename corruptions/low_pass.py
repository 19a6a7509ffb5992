"""Low-pass filtered images: coefficients of the discrete Fourier transform above a bandwidth are removed.

ARES-Bench (arXiv 2302.14301) describes such images, but not the filter. Shape, unit, rounding and clipping are choices
of this project: frequencies are counted in cycles per image, and each channel is filtered by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isqrt
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions.catalogue import Image
from corruptions.kernels.smoothing import fourier
from corruptions.kernels.smoothing.low_pass import keep, round_channel
from corruptions.registry import find
from corruptions.validation import check_integer, to_rgb

VERSION = 1
"""Version of the filtered pixels."""


class Shape(NamedTuple):
    """A shape of filters.

    Attributes:
        reach: Returns the largest frequency q across that is kept with a frequency p down, given the bandwidth and p;
            -1 if none is.
        pass_all: Returns the smallest bandwidth that keeps all coefficients, given the largest p and q.
    """

    reach: Callable[[int, int], int]
    pass_all: Callable[[int, int], int]


def _in_circle(bandwidth: int, p: int) -> int:
    return isqrt(bandwidth * bandwidth - p * p) if p <= bandwidth else -1


def _around_circle(p: int, q: int) -> int:
    return isqrt(p * p + q * q - 1) + 1 if p or q else 0


ShapeName = Literal["circle", "square"]
"""Names of shapes that type checkers accept."""

SHAPES: Mapping[str, Shape] = {
    "circle": Shape(_in_circle, _around_circle),
    "square": Shape(lambda bandwidth, p: bandwidth if p <= bandwidth else -1, max),
}
"""Name -> shape, the default first. A filter keeps p^2 + q^2 <= B^2 (circle) or max(|p|, |q|) <= B (square)."""

DEFAULT = next(iter(SHAPES))
"""Name of the default shape."""


class Spectra(NamedTuple):
    """An image as its Fourier transform, from which images of all bandwidths are made.

    Attributes:
        channels: Spectrum of each channel, float64 (3, 2, H, W // 2 + 1).
        width: Width of the image in pixels.
    """

    channels: NDArray[np.float64]
    width: int

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self.channels.nbytes


def low_pass(image: NDArray[np.uint8], bandwidth: int, *, shape: ShapeName = "circle") -> Image:
    """Return an image without its frequencies above a bandwidth.

    Values are rounded to the nearest level, halves up, and clipped. Bandwidth 0 leaves the mean of each channel. At
    :func:`pass_all` and above, the result equals the image.

    Args:
        image: uint8 array, 0..255: RGB (H, W, 3), or grey (H, W) or (H, W, 1), which is repeated to three channels. It
            may have any size. The array is not modified.
        bandwidth: Largest kept frequency in cycles per image, 0 or more.
        shape: Set of kept frequencies: ``"circle"`` or ``"square"``.

    Returns:
        A new C-contiguous uint8 RGB array (H, W, 3).

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument has an invalid shape or value.
    """
    return limited(spectra(image), bandwidth, shape=shape)


def pass_all(height: int, width: int, shape: str = DEFAULT) -> int:
    """Return the smallest bandwidth that leaves images unchanged.

    Args:
        height: Height of the images in pixels.
        width: Width of the images in pixels.
        shape: Name of a shape.

    Raises:
        ValueError: If the shape is unknown.
    """
    return find("shape", SHAPES, shape).pass_all(height // 2, width // 2)


def spectra(image: NDArray[np.uint8]) -> Spectra:
    """Return the Fourier transform of an image.

    Args:
        image: uint8 array as in :func:`low_pass`.

    Raises:
        TypeError: If it is not a uint8 array.
        ValueError: If its shape is invalid.
    """
    rgb = to_rgb(image, 1)
    planes = (np.ascontiguousarray(rgb[:, :, channel], np.float64) for channel in range(3))
    return Spectra(np.stack([fourier.forward(plane) for plane in planes]), rgb.shape[1])


def limited(image: Spectra, bandwidth: int, *, shape: str = DEFAULT) -> Image:
    """Return an image without its frequencies above a bandwidth, from its Fourier transform.

    ``limited(spectra(image), bandwidth)`` equals ``low_pass(image, bandwidth)``; the transform can be used for several
    bandwidths.

    Args:
        image: Result of :func:`spectra`. It is not modified.
        bandwidth: Largest kept frequency in cycles per image, 0 or more.
        shape: Name of a shape.

    Returns:
        A new C-contiguous uint8 RGB array (H, W, 3).

    Raises:
        TypeError: If the bandwidth is not an integer.
        ValueError: If the bandwidth is negative, or the shape is unknown.
    """
    reach, largest = find("shape", SHAPES, shape).reach, check_integer(bandwidth, "bandwidth")
    if largest < 0:
        raise ValueError(f"bandwidth must be 0 or more, not {largest}")
    channels, _, height, frequencies = image.channels.shape
    limits = np.array([min(reach(largest, min(y, height - y)), frequencies - 1) for y in range(height)], np.int64)
    out = np.empty((height, image.width, channels), np.uint8)
    for channel, spectrum in enumerate(image.channels):
        kept = keep(spectrum, limits)
        round_channel(fourier.inverse(kept, image.width), out, channel)
    return out
