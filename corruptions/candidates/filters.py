"""Candidates that filter an image. Filters mirror it at its edges, except MedianBlur."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from corruptions.candidates.catalogue import Draws
from corruptions.catalogue import Image
from corruptions.draws import DrawSource
from corruptions.kernels.drawing.rasters import line_pixels
from corruptions.kernels.smoothing import correlation, means, median
from corruptions.margins import with_margins


def rows_of(image: Image) -> NDArray[np.uint8]:
    """Return a view of an image as rows, uint8 (H, W * 3)."""
    return image.reshape(len(image), -1)


def draw_side(sides: Sequence[int]) -> Callable[[DrawSource, Image, None], dict[str, Any]]:
    """Return a function that draws the side of a filter in pixels, each equally likely."""

    def draw(source: DrawSource, image: Image, setting: None) -> dict[str, Any]:
        return {"ksize": sides[source.integer(0, len(sides))]}

    return draw


BOX_SIDES = (5, 7, 9)
"""Sides of the box in pixels."""


def box_mean(image: Image, side: int) -> Image:
    """Return the mean of the side x side pixels around each pixel, rounded to nearest with halves up.

    Args:
        image: uint8 (H, W, 3).
        side: Side of the box in pixels. If it is even, the box reaches one pixel farther to the left and upwards.

    Returns:
        A new uint8 array (H, W, 3).
    """
    source, divide, out = (
        with_margins(image, side // 2, (side - 1) // 2),
        means.division(side * side),
        np.empty_like(image),
    )
    sums: NDArray[Any] = np.empty((2, source.shape[1]), np.uint16 if divide.dtype == np.float32 else np.uint32)
    means.box_means(source, side, divide, sums, rows_of(out))
    return out


def blur_box(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image blurred by a box."""
    return box_mean(image, draws["ksize"])


def emboss(image: Image, setting: None, draws: Draws) -> Image:
    """Return the differences along one diagonal, added to the image."""
    s, out = np.float32(draws["strength"]), np.empty_like(image)
    weights = np.array([[-1 - s, -s, 0], [-s, 1, s], [0, s, 1 + s]], np.float32)
    correlation.correlate_3x3(with_margins(image, 1, 1), weights, rows_of(out))
    return out


MIN_GAUSSIAN, MAX_GAUSSIAN = 9, 13
"""Range of the drawn side of GaussianBlur in pixels. An even side becomes the next odd one."""

HALF_GAUSSIANS: Mapping[int, tuple[int, ...]] = {
    9: (60, 51, 30, 13, 4),
    11: (52, 45, 31, 17, 7, 2),
    13: (44, 41, 30, 19, 10, 5, 1),
}
"""Side of the filter -> its weights in 256ths from the centre on. Quirk: sigma is 0.15 * side + 0.35 (OpenCV)."""


def draw_gaussian(source: DrawSource, image: Image, setting: None) -> dict[str, Any]:
    """Draw the side of the filter in pixels."""
    side = source.integer(MIN_GAUSSIAN, MAX_GAUSSIAN + 1)
    return {"ksize": side + (side + 1) % 2}


def blur_gaussian(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image smoothed by a Gaussian."""
    half, out = np.array(HALF_GAUSSIANS[draws["ksize"]], np.uint16), np.empty_like(image)
    correlation.smooth(with_margins(image, half.size - 1, half.size - 1), half, rows_of(out))
    return out


MEDIAN_SIDES = (5, 7, 9, 11)
"""Sides of the square in pixels."""


def blur_median(image: Image, setting: None, draws: Draws) -> Image:
    """Return the median of the square around each pixel, per channel. Edge pixels are repeated outside of the image."""
    side = draws["ksize"]
    source = with_margins(image, side // 2, side // 2, cv2.BORDER_REPLICATE)
    rows, columns = np.arange(side).reshape(-1, 1) * source.shape[1], np.arange(side) * image.shape[2]
    taps = (rows + columns).reshape(-1).astype(np.uint64)
    out = np.empty((len(image), source.shape[1]), np.uint8)
    median.medians(source.reshape(-1), taps, out.reshape(-1)[: source.size - int(taps[-1])])
    return np.ascontiguousarray(out[:, : rows_of(image).shape[1]]).reshape(image.shape)


LINE_SIDES = (11, 13, 15, 17)
"""Sides in pixels of the square that contains the line."""


def draw_line(source: DrawSource, image: Image, setting: None) -> dict[str, Any]:
    """Draw the side of the square and two different pixels in it, as (x, y)."""
    side = LINE_SIDES[source.integer(0, len(LINE_SIDES))]
    x0, x1 = source.integers(0, side, (2,)).tolist()
    if x0 == x1:
        y0 = source.integer(0, side)
        y1 = (y0 + source.integer(1, side)) % side
    else:
        y0, y1 = source.integers(0, side, (2,)).tolist()
    return {"ksize": side, "start": (x0, y0), "end": (x1, y1)}


def blur_line(image: Image, setting: None, draws: Draws) -> Image:
    """Return the mean of the pixels on a line near each pixel."""
    side = draws["ksize"]
    pixels = np.empty(side, np.int64)
    taps = pixels[: line_pixels((*draws["start"], *draws["end"]), side, side, pixels)]
    out = np.empty_like(image)
    means.tap_means(with_margins(image, side // 2, side // 2), side, taps, means.division(taps.size), rows_of(out))
    return out


NEIGHBOURS = np.float32(8)
"""Number of neighbours of a pixel, of which each has weight -1 in the sharpened image."""


def sharpen(image: Image, setting: None, draws: Draws) -> Image:
    """Return a mixture of the image and the sharpened image. It is darker than the image."""
    alpha, lightness = np.float32(draws["alpha"]), np.float32(draws["lightness"])
    weights, out = np.full((3, 3), -alpha), np.empty_like(image)
    weights[1, 1] = np.float32(1) - alpha + alpha * (NEIGHBOURS + lightness)
    correlation.correlate_3x3(with_margins(image, 1, 1), weights, rows_of(out))
    return out
