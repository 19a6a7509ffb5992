"""Elastic distortion: an affine map by OpenCV, then smooth random displacements by SciPy, both sampled bilinearly.

The second sampling is computed in float32, with a proven bound of its error (ERROR). Values that the bound leaves
undecided are computed again in the published arithmetic (:func:`published_level`).

Vectors hold a pixel and one more number, or two pixels and two more numbers. Results for the additional numbers are
overwritten by the next pixel. Arrays are longer by PADDING for them.
"""

import numpy as np

from corruptions.kernels import inlined, kernel, scratch
from corruptions.kernels.doubts import truncate_decided
from corruptions.kernels.planes import PIXEL, to_unit
from corruptions.kernels.sampling.fixed_sampling import PADDING
from corruptions.kernels.smoothing.waves import mirror_index
from corruptions.kernels.vectors import fma, larger, load_eight, load_four, multiply_add, smaller, split_pixels, store

ERROR = np.float32(2.0**-13)
"""Bound of the error of a level that :func:`sample` computes, derived there."""

ZERO, HALF, ONE, TWO = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2)
WHITE = np.float32(255)

FAR = np.float32(2**20)
"""Positions farther from the origin are replaced by this distance. Only degenerate affine maps have them."""

VECTOR = 16
"""Pixels that OpenCV's warpAffine computes at once. It places the remaining ones of a row in another order of sums."""


@kernel
def warp_positions(row, y, at):
    """Write the coordinates, float32, at which OpenCV 5's warpAffine samples row ``y`` of an image.

    ``row`` is a row of the inverse map, three float32. Products are fused with the sum that follows.
    """
    down, main = y * row[1], at.size // VECTOR * VECTOR
    for x in range(main):
        at[x] = fma(np.float32(np.int32(x)), row[0], down + row[2])
    for x in range(main, at.size):
        at[x] = fma(np.float32(np.int32(x)), row[0], down) + row[2]


@inlined
def wrap(at, period):
    """Return a float32 whole number modulo ``period``, without branches."""
    turns = np.floor(multiply_add(at, ONE / period, HALF / period))  # the half keeps these away from whole numbers
    return at - period * turns


@inlined
def within(at, least, most):
    """Return the nearest float32 in a range, also for NaN."""
    above = at if at > least else least
    return above if above < most else most


@kernel
def locate_on_edge(at_x, at_y, shape, xs, ys, starts, steps_x, steps_y):
    """Compute where OpenCV's reflect-101 samples each position: mirrored at the edge pixels.

    The fractions beyond the left and upper neighbour are written to ``xs`` and ``ys``, where that neighbour begins in
    an array of pixels to ``starts``, and the steps from there to the other neighbours to ``steps_x`` and ``steps_y``.
    They are negative where the image is mirrored.
    """
    period_x, period_y = np.float32(2 * (shape[1] - 1)), np.float32(2 * (shape[0] - 1))
    right, below = np.int32(PIXEL), np.int32(PIXEL * shape[1])
    for x in range(starts.size):
        column, row = within(at_x[x], -FAR, FAR), within(at_y[x], -FAR, FAR)
        left, top = np.floor(column), np.floor(row)
        xs[x], ys[x] = column - left, row - top
        left, top = wrap(left, period_x), wrap(top, period_y)
        right_half, lower_half = left >= HALF * period_x, top >= HALF * period_y
        left, top = period_x - left if right_half else left, period_y - top if lower_half else top
        starts[x] = np.int32(top) * below + np.int32(left) * right
        steps_x[x], steps_y[x] = -right if right_half else right, -below if lower_half else below


@inlined
def mirrored_start(at, fraction, side):
    """Return the smaller neighbour and the fraction beyond it of a position, mirrored half a pixel beyond the edges."""
    period = TWO * side
    at = wrap(at, period)
    turned = at >= side
    at, fraction = period - TWO - at if turned else at, ONE - fraction if turned else fraction
    start = within(at, ZERO, side - TWO)
    return start, within(fraction + (at - start), ZERO, ONE)  # between an edge and its image, both are the edge pixel


@kernel
def locate_beside_edge(right, down, y, shape, xs, ys, indices):
    """Compute where each pixel of row ``y``, moved by (right, down), is sampled.

    The index of the upper left neighbour is written to ``indices``, and the fractions beyond it to ``xs`` and ``ys``.
    They are off by at most 2**-24: whole numbers and fractions of the displacement are kept apart, and both the
    fraction of a negative number and its difference from 1 are rounded once, by at most 2**-25.
    """
    height, width, row = np.float32(shape[0]), np.float32(shape[1]), np.float32(y)
    for x in range(indices.size):
        across, along = np.floor(right[x]), np.floor(down[x])
        left, xs[x] = mirrored_start(np.float32(np.int32(x)) + across, right[x] - across, width)
        top, ys[x] = mirrored_start(row + along, down[x] - along, height)
        indices[x] = np.int32(top) * np.int32(shape[1]) + np.int32(left)


@inlined
def blend(a, b, c, d, x, y):
    """Return the interpolation of upper left, upper right, lower left and lower right, as OpenCV 5's warpAffine."""
    upper, lower = fma(b - a, x, a), fma(d - c, x, c)
    return fma(lower - upper, y, upper)


@kernel
def sample_warped(source, xs, ys, starts, steps_x, steps_y, target):
    """Write a row of warped pixels, float32, from what :func:`locate_on_edge` returns."""
    for x in range(np.uint64(xs.size)):
        upper, right = np.int64(starts[x]), np.int64(steps_x[x])
        lower = upper + np.int64(steps_y[x])
        a, b = load_four(source, np.uint64(upper)), load_four(source, np.uint64(upper + right))
        c, d = load_four(source, np.uint64(lower)), load_four(source, np.uint64(lower + right))
        store(target, PIXEL * x, blend(a, b, c, d, xs[x], ys[x]))


@kernel
def sample(source, white, width, xs, ys, indices, row):
    """Write lower bounds of published levels, interleaved, to ``row``. The upper bounds are 2 ERROR higher.

    ``white`` is the value of white in ``source``. The published value is fl(255 fl(t)), where t interpolates the four
    pixels, fl(p / ``white``), in float64, and fl rounds to float32.

    - Let u be 2**-17, the largest error of rounding a number below 256 to float32. The published value differs from
      255 t by at most 2 u. The fractions are off by 2**-24, which makes at most 2 u along each axis. Three operations
      along each axis are rounded, the subtraction of ERROR, the later sum with 2 ERROR, and either the product with
      ``scale`` or p / ``white``, because one of these numbers is 1: each by at most u. Thus the published value differs
      from the computed one by at most 2 + 4 + 6 + 3 = 15 u, and ERROR is 16 u.
    - Rounding is monotone. Thus the published value is at least fl(255 w) for the least of the four pixels, w, and
      equals it if all four are equal, so that flat areas are decided. This is the level itself if they are levels.
    """
    scale, pitch = WHITE / white, PIXEL * np.uint64(width)
    for x in range(np.uint64(xs.size)):
        at = PIXEL * np.uint64(indices[x])
        uppers, lowers = load_eight(source, at), load_eight(source, at + pitch)
        left, right = split_pixels(multiply_add(lowers - uppers, ys[x], uppers))
        level = multiply_add(multiply_add(right - left, xs[x], left), scale, -ERROR)
        left, right = split_pixels(smaller(uppers, lowers))
        level = larger(level, smaller(left, right) * scale)
        store(row, PIXEL * x, level)


@inlined
def reflected(at, side):
    """Return a float64 coordinate mirrored half a pixel beyond the edges, as by SciPy: in -1..side."""
    at = at - 2 * side * np.floor(at / (2 * side)) if abs(at) >= 2 * side else at
    return -1 - at if at < 0 else 2 * side - 1 - at if at > side - 1 else at


@kernel
def published_level(source, shape, white, y, x, channel, right, down):
    """Return a value of pixel (x, y), moved by (right, down), as SciPy's map_coordinates of order 1 computes it."""
    height, width = shape
    at_x, at_y = reflected(x + np.float64(right), width), reflected(y + np.float64(down), height)
    left, top = np.floor(at_x), np.floor(at_y)
    far_x, far_y = at_x - left, at_y - top
    first, second = mirror_index(np.int64(left), width), mirror_index(np.int64(left) + 1, width)
    upper, lower = mirror_index(np.int64(top), height) * width, mirror_index(np.int64(top) + 1, height) * width
    values = source[channel :: np.int64(PIXEL)]
    total = np.float32(values[upper + first]) / white * (1 - far_y) * (1 - far_x)
    total += np.float32(values[upper + second]) / white * (1 - far_y) * far_x
    total += np.float32(values[lower + first]) / white * far_y * (1 - far_x)
    total += np.float32(values[lower + second]) / white * far_y * far_x
    return np.uint8(np.int32(min(np.float32(total), ONE) * WHITE))


@kernel
def affine_inverse(height, width, jitter):
    """Return the (2, 3) map that takes three corners of a centred square, moved by ``jitter``, back to their positions.

    Quirk: the row of the centre is used as its x coordinate and the column as its y coordinate (published scripts).
    This has an effect only on images that are not square.

    Args:
        height: Height of the image in pixels.
        width: Width of the image in pixels.
        jitter: Displacements of the corners (3, 2) in pixels.
    """
    a, b, s = height // 2, width // 2, min(height, width) // 3
    indices = np.array([[a + s, b + s], [a + s, b - s], [a - s, b - s]], np.float32)
    moved = (indices + jitter.astype(np.float32)).astype(np.float64)
    u, v, middle = moved[0] - moved[1], moved[1] - moved[2], moved[1]
    scale = 2 * s / (u[0] * v[1] - u[1] * v[0])
    inverse = np.empty((2, 3))
    inverse[0, 0], inverse[0, 1] = -u[1] * scale, u[0] * scale
    inverse[1, 0], inverse[1, 1] = v[1] * scale, -v[0] * scale
    inverse[0, 2] = a + s - (inverse[0, 0] * middle[0] + inverse[0, 1] * middle[1])
    inverse[1, 2] = b - s - (inverse[1, 0] * middle[0] + inverse[1, 1] * middle[1])
    return inverse


@kernel
def warp(image, inverse):
    """Return uint8 (H, W, 3) sampled at ``inverse`` @ (x, y, 1), mirrored, float32 (H * W * 3 + PADDING,) in 0..1.

    ``inverse`` is float32 (2, 3).
    """
    shape = image.shape[:2]
    width = shape[1]
    levels = image.reshape(-1)
    source, out = scratch(levels.size + PADDING, np.float32), np.empty(levels.size + PADDING, np.float32)
    for i in range(levels.size):
        source[i] = to_unit(levels[i], np.float32)
    at_x, at_y = scratch(width, np.float32), scratch(width, np.float32)
    xs, ys = scratch(width, np.float32), scratch(width, np.float32)
    starts, steps_x, steps_y = scratch(width, np.int32), scratch(width, np.int32), scratch(width, np.int32)
    row_x, row_y = (inverse[0, 0], inverse[0, 1], inverse[0, 2]), (inverse[1, 0], inverse[1, 1], inverse[1, 2])
    for y in range(shape[0]):
        warp_positions(row_x, np.float32(y), at_x)
        warp_positions(row_y, np.float32(y), at_y)
        locate_on_edge(at_x, at_y, shape, xs, ys, starts, steps_x, steps_y)
        sample_warped(source, xs, ys, starts, steps_x, steps_y, out[3 * y * width :])
    return out


@kernel
def displace(source, right, down):
    """Return an image after displacement, truncated, uint8 (H, W, 3).

    Args:
        source: Values of :func:`warp`, or levels, uint8 (H * W * 3 + PADDING,).
        right: float32 (H, W). Pixel (x, y) is sampled at (x, y) + (right, down).
        down: float32 (H, W).
    """
    shape = right.shape
    width, white = shape[1], WHITE if source.itemsize == 1 else ONE
    out = np.empty((*shape, 3), np.uint8)
    xs, ys, indices = scratch(width, np.float32), scratch(width, np.float32), scratch(width, np.int32)
    levels, found = scratch(3 * width + PADDING, np.float32), np.empty(3 * width, np.int64)
    for y in range(shape[0]):
        across, along, target = right[y], down[y], out[y].reshape(-1)
        locate_beside_edge(across, along, y, shape, xs, ys, indices)
        sample(source, white, width, xs, ys, indices, levels)
        for i in found[: truncate_decided(levels[: 3 * width], ZERO, TWO * ERROR, target, found)]:
            x, channel = i // 3, i % 3
            target[i] = published_level(source, shape, white, y, x, channel, across[x], along[x])
    return out
