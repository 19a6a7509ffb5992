"""Pillow's BICUBIC resize to a whole fraction of the size, in its 22-bit fixed-point arithmetic, bit-exact."""

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import inlined, kernel
from corruptions.kernels.sampling.pixelate import BITS

SHARPNESS = -0.5
"""Parameter of Pillow's cubic."""

REACH = 2
"""Pixels of the result that the cubic reaches in each direction."""

HALF = np.int32(1 << (BITS - 1))
"""A half in fixed point, which rounds the sums."""


@inlined
def cubic(x):
    """Return the weight of an input at distance ``x``, in pixels of the result."""
    x = abs(x)
    if x < 1.0:
        return ((SHARPNESS + 2.0) * x - (SHARPNESS + 3.0)) * x * x + 1
    return (((x - 5) * x + 8) * x - 4) * SHARPNESS if x < REACH else 0.0


@kernel
def shrink_columns(pixels, factor):
    """Return an image with a column for each ``factor`` columns, transposed, uint8 (W / factor, H, 3)."""
    height, width, _ = pixels.shape
    flat, out = pixels.reshape(height, 3 * width), np.empty((width // factor, height, 3), np.uint8)
    weights, fixed = np.empty(2 * REACH * factor + 1), np.empty(2 * REACH * factor + 1, np.int32)
    support, inverse = REACH * float(factor), 1.0 / float(factor)
    for x in range(width // factor):
        centre = (x + 0.5) * factor
        first, last = max(int(centre - support + 0.5), 0), min(int(centre + support + 0.5), width)
        total = 0.0
        for k in range(last - first):
            weights[k] = cubic((k + first - centre + 0.5) * inverse)
            total += weights[k]
        for k in range(last - first):
            weight = weights[k] * (1.0 / total) * (1 << BITS)
            fixed[k] = np.int32(weight - 0.5 if weight < 0 else weight + 0.5)
        for y in range(height):
            red, green, blue = HALF, HALF, HALF
            for k in range(last - first):
                at = 3 * (first + k)
                red = np.int32(red + np.int32(flat[y, at] * fixed[k]))
                green = np.int32(green + np.int32(flat[y, at + 1] * fixed[k]))
                blue = np.int32(blue + np.int32(flat[y, at + 2] * fixed[k]))
            out[x, y, 0] = min(max(red >> BITS, 0), 255)
            out[x, y, 1] = min(max(green >> BITS, 0), 255)
            out[x, y, 2] = min(max(blue >> BITS, 0), 255)
    return out


def shrink_bicubic(image: NDArray[np.uint8], factor: int) -> NDArray[np.uint8]:
    """Return an image shrunk by a whole factor.

    Args:
        image: uint8 (H, W, 3). Both sides are multiples of the factor.
        factor: Pixels of the image for each pixel of the result, along both sides.

    Returns:
        uint8 (H / factor, W / factor, 3).
    """
    shrunk: NDArray[np.uint8] = shrink_columns(shrink_columns(image, factor), factor)
    return shrunk
