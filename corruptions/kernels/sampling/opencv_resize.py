"""OpenCV's resize of 8-bit RGB images with INTER_LINEAR, INTER_AREA and INTER_CUBIC, computed only for a window.

The bytes are those of OpenCV 5 on x86-64. On ARM, OpenCV's own bytes differ. Those of INTER_CUBIC also differ between
x86-64 CPUs if OpenCV uses Intel's IPP; this module computes them as OpenCV does without IPP.

Columns are resampled before rows. A row of the image is resampled once, and kept for the outputs that need it next.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import LINE, copy, inlined, kernel, scratch
from corruptions.kernels.planes import CHANNELS, PIXEL, nearest_level
from corruptions.kernels.sampling.opencv_taps import UNIT, area_shares, cubic_taps, pair_taps
from corruptions.kernels.vectors import (
    load_eighth,
    load_four,
    load_half,
    load_quarter,
    split_pixels,
    store,
    to_floats,
    to_shorts,
    to_words,
)

LANES = 4
"""Values that are loaded and stored for a pixel."""

SPARE = 16
"""Values beyond the last pixel that may be loaded or stored. Pixels are written in order: the next one overwrites the
fourth value of a pixel."""

FIXED_BITS = np.int32(4)
"""Fraction bits that a sum of two pixels loses before it is written, so that it fits into 16 bits."""

HIGH = np.uint32(16)
"""Bits that a product loses in the vertical pass of INTER_LINEAR."""

LAST_BITS = np.uint16(2)
"""Fraction bits that remain after both passes of INTER_LINEAR."""

CUBIC_BITS = np.int32(22)
"""Fraction bits after both passes of INTER_CUBIC."""

CUBIC_UNIT = np.float32(1) / (UNIT * UNIT)
"""A level in units of the sums of INTER_CUBIC."""

CUBIC_BLOCK = 8
"""OpenCV rounds the last values of a row of INTER_CUBIC as integers, if they do not fill a block of this size."""

WHOLE = float(np.finfo(np.float64).eps)
"""Distance from an integer below which INTER_AREA regards a factor as whole."""


@dataclass(frozen=True)
class ResizedAxis:
    """One axis of a resize, and the outputs to compute."""

    size: int
    """Number of inputs."""
    target: int
    """Number of outputs of the complete result."""
    scale: float
    """Outputs per input, as passed to OpenCV or computed by it."""
    first: int
    """First output to compute."""
    count: int
    """Number of outputs to compute."""


@inlined
def clipped(index, size):
    """Return the nearest index within 0..size - 1."""
    return min(max(index, 0), size - 1)


@inlined
def cubic_weight(weight):
    """Return an integer weight of a row in levels, float32."""
    return np.float32(weight) * CUBIC_UNIT


@inlined
def aligned(width):
    """Return the length of rows of ``width`` values and spare ones, so that each row begins at a cache line."""
    return -(-(width + SPARE) // LINE) * LINE


@inlined
def sum_halves(pixels):
    """Return a vector of pixels with the second half of them added to the first."""
    first, second = split_pixels(pixels)
    return first + second


@inlined
def spread(weights):
    """Return the integer weights (N, taps) of N pixels, one per loaded value, int16 (N * LANES * taps,)."""
    count, taps = weights.shape
    lanes = LANES * taps
    out = scratch(count * lanes, np.int16)
    out[:] = 0
    for x in range(count):
        for k in range(CHANNELS * taps):
            out[lanes * x + k] = weights[x, k // CHANNELS]
    return out


@inlined
def offsets(index, start):
    """Return the position in a line, in values, of each pixel; the line begins with pixel ``start``."""
    out = np.empty(index.size, np.uint64)
    for i in range(index.size):
        out[i] = CHANNELS * (index[i] - start)
    return out


@kernel
def interpolate_pairs(flat, pitch, size, columns, across, rows, down):
    """Return uint8 (h, w * 3): each output is a weighted sum of 2 x 2 inputs.

    Args:
        flat: uint8 values of the image.
        pitch: Distance between two rows of the image, in values.
        size: Height and width of the image.
        columns: The left of the two columns of each output (w,).
        across: Weights of both columns (w, 2).
        rows: The upper of the two rows of each output (h,), which may be outside of the image.
        down: Weights of both rows (h, 2).
    """
    width = CHANNELS * columns.size
    out = np.empty((rows.size, width), np.uint8)
    start, stop = columns[0], min(columns[-1] + 2, size[1])
    line = scratch(CHANNELS * (stop - start) + SPARE, np.uint8)
    line[:] = 0
    used = line[: CHANNELS * (stop - start)]
    weights, at = spread(across), offsets(columns, start)
    ring = scratch(2 * aligned(width), np.uint16).reshape(2, aligned(width))
    shares = scratch(2 * aligned(width), np.uint16).reshape(2, aligned(width))
    held = np.full(2, -1)
    for y in range(rows.size):
        for y_in in (clipped(rows[y], size[0]), clipped(rows[y] + 1, size[0])):
            if held[y_in % 2] != y_in:
                held[y_in % 2] = y_in
                copy(flat[pitch * y_in + CHANNELS * start : pitch * y_in + CHANNELS * stop], used)
                target = ring[y_in % 2]
                for x in range(np.uint64(columns.size)):
                    pixels = to_words(load_eighth(line, at[x])) * to_words(
                        load_quarter(weights, np.uint64(2 * LANES) * x)
                    )
                    store(target, PIXEL * x, to_shorts(sum_halves(pixels) >> FIXED_BITS))
        upper, lower = ring[clipped(rows[y], size[0]) % 2], ring[clipped(rows[y] + 1, size[0]) % 2]
        # The compiler uses the instruction for upper halves of products only for weights that are loaded.
        upper_share, lower_share, row = shares[0], shares[1], out[y]
        upper_share[:] = down[y, 0]
        lower_share[:] = down[y, 1]
        for x in range(width):
            above = np.uint16((np.uint32(upper[x]) * np.uint32(upper_share[x])) >> HIGH)
            below = np.uint16((np.uint32(lower[x]) * np.uint32(lower_share[x])) >> HIGH)
            row[x] = np.uint8(np.uint16(above + below + np.uint16(2)) >> LAST_BITS)
    return out


@kernel
def interpolate_cubic(flat, pitch, size, columns, across, rows, down, blocks_end):
    """Return uint8 (h, w * 3): each output is a weighted sum of 4 x 4 inputs.

    The arguments are those of :func:`interpolate_pairs` for four columns and rows, of which ``columns`` and ``rows``
    have the first. Columns may be outside of the image, too. Values from ``blocks_end`` on are rounded as integers.
    """
    width = CHANNELS * columns.size
    out = np.empty((rows.size, width), np.uint8)
    start, stop = columns[0], columns[-1] + 4
    left, right = max(start, 0), min(stop, size[1])
    line = scratch(CHANNELS * (stop - start) + SPARE, np.uint8)
    line[:] = 0
    used = line[CHANNELS * (left - start) : CHANNELS * (right - start)]
    weights, at = spread(across), offsets(columns, start)
    ring = scratch(4 * aligned(width), np.float32).reshape(4, aligned(width))
    held = np.full(4, -1)
    for y in range(rows.size):
        for k in range(4):
            y_in = clipped(rows[y] + k, size[0])
            if held[y_in % 4] != y_in:
                held[y_in % 4] = y_in
                copy(flat[pitch * y_in + CHANNELS * left : pitch * y_in + CHANNELS * right], used)
                for i in range(CHANNELS * (left - start) - 1, -1, -1):  # repeat the first and the last pixel
                    line[i] = line[i + CHANNELS]
                for i in range(CHANNELS * (right - start), CHANNELS * (stop - start)):
                    line[i] = line[i - CHANNELS]
                target = ring[y_in % 4]
                for x in range(np.uint64(columns.size)):
                    pixels = to_words(load_quarter(line, at[x])) * to_words(
                        load_half(weights, np.uint64(4 * LANES) * x)
                    )
                    store(target, PIXEL * x, to_floats(sum_halves(sum_halves(pixels))))
        first, second = ring[clipped(rows[y], size[0]) % 4], ring[clipped(rows[y] + 1, size[0]) % 4]
        third, fourth = ring[clipped(rows[y] + 2, size[0]) % 4], ring[clipped(rows[y] + 3, size[0]) % 4]
        a, b, c, d = np.int32(down[y, 0]), np.int32(down[y, 1]), np.int32(down[y, 2]), np.int32(down[y, 3])
        fill_cubic(first, second, third, fourth, a, b, c, d, out[y])
        for x in range(blocks_end, width):
            total = np.int32(first[x]) * a + np.int32(second[x]) * b + np.int32(third[x]) * c + np.int32(fourth[x]) * d
            out[y, x] = min(max((total + (1 << (CUBIC_BITS - 1))) >> CUBIC_BITS, 0), 255)
    return out


@inlined
def fill_cubic(first, second, third, fourth, a, b, c, d, row):
    """Write the sum of four rows times their weights, in float32 and from the last row to the first."""
    a, b, c, d = cubic_weight(a), cubic_weight(b), cubic_weight(c), cubic_weight(d)
    for x in range(row.size):
        total = fourth[x] * d
        total = third[x] * c + total
        total = second[x] * b + total
        row[x] = nearest_level(first[x] * a + total)


@kernel
def average(flat, pitch, starts, columns, across, row_starts, rows, down):
    """Return uint8 (h, w * 3): each output is the mean of the inputs that it covers, in float32.

    Args:
        flat: uint8 values of the image.
        pitch: Distance between two rows of the image, in values.
        starts: Where the entries of each output column begin (w + 1,).
        columns: Input column of each entry.
        across: Share of each entry.
        row_starts: Where the entries of each output row begin (h + 1,).
        rows: Input row of each entry.
        down: Share of each entry.
    """
    width = CHANNELS * (starts.size - 1)
    out = np.empty((row_starts.size - 1, width), np.uint8)
    start, stop = columns[0], columns[-1] + 1
    line = scratch(CHANNELS * (stop - start) + SPARE, np.uint8)
    line[:] = 0
    used, at = line[: CHANNELS * (stop - start)], offsets(columns, start)
    resampled, total = scratch(width + SPARE, np.float32), scratch(width, np.float32)
    held = -1
    for y in range(out.shape[0]):
        total[:] = 0
        for k in range(row_starts[y], row_starts[y + 1]):
            if rows[k] != held:
                held = rows[k]
                copy(flat[pitch * held + CHANNELS * start : pitch * held + CHANNELS * stop], used)
                for x in range(np.uint64(starts.size - 1)):
                    first, last = np.uint64(starts[x]), np.uint64(starts[x + np.uint64(1)])
                    sums = load_four(line, at[first]) * across[first]
                    for i in range(first + np.uint64(1), last):
                        sums = sums + load_four(line, at[i]) * across[i]
                    store(resampled, PIXEL * x, sums)
            share = down[k]
            for x in range(width):
                total[x] += resampled[x] * share
        row = out[y]
        for x in range(width):
            row[x] = nearest_level(total[x])
    return out


@kernel
def average_blocks(flat, pitch, top, left, out, block):
    """Write the means of blocks of ``block`` (height, width) inputs to ``out``, uint8 (h, w, 3), as exact integers.

    ``top`` and ``left`` are the index of the first block.
    """
    high, wide = block
    unit = np.float32(1) / np.float32(high * wide)
    sums = scratch(CHANNELS * wide * out.shape[1], np.int32)
    for y in range(out.shape[0]):
        sums[:] = 0
        for k in range(high):
            begin = pitch * ((top + y) * high + k) + CHANNELS * wide * left
            line = flat[begin : begin + sums.size]
            for i in range(sums.size):
                sums[i] += np.int32(line[i])
        for x in range(out.shape[1]):
            for c in range(CHANNELS):
                total = np.int32(0)
                for k in range(wide):
                    total = np.int32(total + sums[CHANNELS * (x * wide + k) + c])
                # OpenCV rounds blocks of 2 x 2 up, all others to even.
                mean = np.float32(total) * unit
                out[y, x, c] = (total + 2) >> 2 if high == 2 and wide == 2 else nearest_level(mean)


def flattened(image: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], int]:
    """Return the values of an image (H, W, 3) in order, read-only, and the distance between its rows in values.

    The image is not copied if its rows are contiguous. Between its rows there may be other values.
    """
    if image.strides[1:] != (CHANNELS, 1) or image.strides[0] < 0:
        image = np.ascontiguousarray(image)
    height, width, _ = image.shape
    pitch = image.strides[0]
    size = (height - 1) * pitch + CHANNELS * width
    return np.lib.stride_tricks.as_strided(image, (size,), (1,), writeable=False), pitch


def window_axes(
    image: NDArray[np.uint8], size: tuple[int, int], corner: tuple[int, int], window: tuple[int, int]
) -> tuple[ResizedAxis, ResizedAxis]:
    """Return the axes (rows, columns) for a window of an image that is resized to ``size``."""
    height, width, _ = image.shape
    return (
        ResizedAxis(height, size[0], size[0] / height, corner[0], window[0]),
        ResizedAxis(width, size[1], size[1] / width, corner[1], window[1]),
    )


def scaled_axis(size: int, scale: float) -> ResizedAxis:
    """Return the axis for all outputs of ``size`` inputs times a scale, as OpenCV rounds them."""
    target = round(size * scale)
    return ResizedAxis(size, target, scale, 0, target)


def _interpolated(image: NDArray[np.uint8], down: ResizedAxis, across: ResizedAxis, area: bool) -> NDArray[np.uint8]:
    """Return the weighted sums of 2 x 2 inputs, for INTER_AREA or INTER_LINEAR."""
    columns = pair_taps(across.size, across.scale, across.first, across.count, True, area)
    rows = pair_taps(down.size, down.scale, down.first, down.count, False, area)
    out: NDArray[np.uint8] = interpolate_pairs(*flattened(image), (down.size, across.size), *columns, *rows)
    return out.reshape(down.count, across.count, CHANNELS)


def resize_linear(
    image: NDArray[np.uint8], size: tuple[int, int], corner: tuple[int, int], window: tuple[int, int]
) -> NDArray[np.uint8]:
    """Resize an image with INTER_LINEAR and return a window of the result.

    Args:
        image: uint8 (H, W, 3).
        size: Complete result, (height, width) in pixels.
        corner: Top left corner (y, x) of the window.
        window: Size (height, width) of the window.

    Returns:
        uint8 (h, w, 3).
    """
    return _interpolated(image, *window_axes(image, size, corner, window), False)


def scale_linear(image: NDArray[np.uint8], scale: float) -> NDArray[np.uint8]:
    """Resize both sides of an image by a factor with INTER_LINEAR.

    The factor decides the positions of samples, also where the side of the result is rounded. For a factor of 0.5,
    OpenCV itself rounds the last pixels of odd sides differently.

    Args:
        image: uint8 (H, W, 3).
        scale: Factor, above 0. Both sides times the factor must be above 0.5.

    Returns:
        uint8 (h, w, 3).
    """
    height, width, _ = image.shape
    return _interpolated(image, scaled_axis(height, scale), scaled_axis(width, scale), False)


def resize_area(
    image: NDArray[np.uint8], size: tuple[int, int], corner: tuple[int, int], window: tuple[int, int]
) -> NDArray[np.uint8]:
    """Resize an image with INTER_AREA and return a window of the result.

    If both sides shrink, each output is the mean of the inputs that it covers. If a side grows, OpenCV interpolates
    along both. Arguments and result are those of :func:`resize_linear`.
    """
    down, across = window_axes(image, size, corner, window)
    steps = (1.0 / down.scale, 1.0 / across.scale)
    if min(steps) < 1.0:
        return _interpolated(image, down, across, True)
    flat, pitch = flattened(image)
    if all(abs(step - round(step)) < WHOLE for step in steps):
        out = np.empty((*window, CHANNELS), np.uint8)
        average_blocks(flat, pitch, *corner, out, (round(steps[0]), round(steps[1])))
        return out
    columns, rows = (area_shares(axis.size, axis.scale, axis.first, axis.count) for axis in (across, down))
    return average(flat, pitch, *columns, *rows).reshape(*window, CHANNELS)


def resize_cubic(
    image: NDArray[np.uint8], size: tuple[int, int], corner: tuple[int, int], window: tuple[int, int]
) -> NDArray[np.uint8]:
    """Resize an image with INTER_CUBIC and return a window of the result.

    Arguments and result are those of :func:`resize_linear`.
    """
    down, across = window_axes(image, size, corner, window)
    rows, columns = (cubic_taps(axis.scale, axis.first, axis.count) for axis in (down, across))
    blocks_end = max(CHANNELS * across.target // CUBIC_BLOCK * CUBIC_BLOCK - CHANNELS * across.first, 0)
    out: NDArray[np.uint8] = interpolate_cubic(*flattened(image), (down.size, across.size), *columns, *rows, blocks_end)
    return out.reshape(*window, CHANNELS)
