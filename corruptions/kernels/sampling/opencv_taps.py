"""Which inputs OpenCV's resize reads along one axis, and their weights, for ``cv2.resize`` of 8-bit images.

The functions take the number of inputs ``size``, the outputs per input ``scale``, and the outputs to compute: ``count``
of them from ``first``. Where they use float32, so does OpenCV.
"""

import math

import numpy as np

from corruptions.kernels import inlined, kernel

ONE = np.float32(1)
UNIT = np.float32(2048)
"""A weight of 1 in fixed point."""

NEGLIGIBLE = 1e-3
"""Part of a pixel below which OpenCV leaves it out of a mean."""

TIGHTNESS = np.float32(-0.75)
"""Slope of the cubic kernel at distance 1."""


@inlined
def fixed(weight):
    """Return a float32 weight in fixed point, rounded half to even."""
    return np.int16(np.rint(weight * UNIT))


@kernel
def pair_taps(size, scale, first, count, inside, area):
    """Return the lower of the two inputs of each output, int64 (count,), and the weights of both, int16 (count, 2).

    An input may be outside of the image, unless ``inside`` is True, as for columns: OpenCV repeats the edges of rows
    and columns differently. With ``area``, they are those of INTER_AREA where a side grows, else of INTER_LINEAR:
    OpenCV then interpolates only where an output covers two inputs.
    """
    step = 1.0 / scale
    index, weights = np.empty(count, np.int64), np.empty((count, 2), np.int16)
    for k in range(count):
        if area:
            lower = math.floor((first + k) * step)
            fraction = np.float32((first + k + 1) - (lower + 1) * scale)
            fraction = fraction - np.float32(math.floor(fraction)) if fraction > 0 else np.float32(0)
        else:
            position = np.float32((first + k + 0.5) * step - 0.5)
            lower = math.floor(position)
            fraction = position - np.float32(lower)
        if inside and (lower < 0 or lower >= size - 1):
            lower, fraction = min(max(lower, 0), size - 1), np.float32(0)
        index[k] = lower
        weights[k, 0], weights[k, 1] = fixed(ONE - fraction), fixed(fraction)
    return index, weights


@kernel
def cubic_taps(scale, first, count):
    """Return the first of the four inputs of each output of INTER_CUBIC, int64 (count,), and int16 weights (count, 4).

    Inputs may be outside of the image.
    """
    step = 1.0 / scale
    index, weights = np.empty(count, np.int64), np.empty((count, 4), np.int16)
    outer = (TIGHTNESS, np.float32(5) * TIGHTNESS, np.float32(8) * TIGHTNESS, np.float32(4) * TIGHTNESS)
    cube, square = TIGHTNESS + np.float32(2), TIGHTNESS + np.float32(3)
    for k in range(count):
        position = np.float32((first + k + 0.5) * step - 0.5)
        lower = math.floor(position)
        x = position - np.float32(lower)
        far, near = x + ONE, ONE - x
        before = ((outer[0] * far - outer[1]) * far + outer[2]) * far - outer[3]
        left = (cube * x - square) * x * x + ONE
        right = (cube * near - square) * near * near + ONE
        index[k] = lower - 1
        weights[k, 0], weights[k, 1] = fixed(before), fixed(left)
        weights[k, 2], weights[k, 3] = fixed(right), fixed(ONE - before - left - right)
    return index, weights


@kernel
def area_shares(size, scale, first, count):
    """Return the inputs of each output of INTER_AREA and their shares, for a side that shrinks.

    Returns:
        Where the entries of each output begin, int64 (count + 1,), and of each entry the input (int64) and its share of
        the output (float32).
    """
    step = 1.0 / scale
    starts, most = np.empty(count + 1, np.int64), count * (math.ceil(step) + 2)
    index, shares = np.empty(most, np.int64), np.empty(most, np.float32)
    entries = 0
    for k in range(count):
        starts[k] = entries
        begin = (first + k) * step
        end = begin + step
        cell = min(step, size - begin)
        last = min(math.floor(end), size - 1)
        whole = min(math.ceil(begin), last)
        if whole - begin > NEGLIGIBLE:
            index[entries], shares[entries] = whole - 1, np.float32((whole - begin) / cell)
            entries += 1
        for i in range(whole, last):
            index[entries], shares[entries] = i, np.float32(1.0 / cell)
            entries += 1
        if end - last > NEGLIGIBLE:
            index[entries], shares[entries] = last, np.float32(min(end - last, 1.0, cell) / cell)
            entries += 1
    starts[count] = entries
    return starts, index[:entries], shares[:entries]
