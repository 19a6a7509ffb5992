"""Weighted sums of neighbouring pixels of a row, written as vector instructions.

A loop over pixels of three values does not vectorise. These functions load the inputs of an output pixel at once. They
write four values per pixel; the next pixel overwrites the fourth. Therefore pixels must be written in order, and lines
and rows must have SPARE values beyond their last pixel.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from corruptions.kernels import kernel, scratch

CHANNELS = 3
"""Values of a pixel."""

LANES = 4
"""Values that are loaded and stored for a pixel."""

SPARE = 16
"""Values beyond the last pixel that may be loaded or stored."""

BYTE, SHORT, INT, FLOAT = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.FloatType()
"""Types of values."""


def _address(context: Any, builder: Any, array: tuple[Any, Any], index: Any, item: Any, size: int) -> Any:
    """Return the address of ``size`` values from ``index`` in an array, which is given as its type and its value."""
    start = builder.gep(make_array(array[0])(context, builder, array[1]).data, [index])
    return builder.bitcast(start, ir.VectorType(item, size).as_pointer())


def _part(builder: Any, vector: Any, indices: list[int]) -> Any:
    """Return a vector of these elements of a vector."""
    positions = ir.Constant(ir.VectorType(INT, len(indices)), indices)
    return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), positions)


def _times(builder: Any, value: Any, factor: int) -> Any:
    """Return an integer times a constant."""
    return builder.mul(value, ir.Constant(value.type, factor))


def _integer_sum(taps: int, item: Any, convert: Callable[[Any, Any], Any]) -> Any:
    """Return a function that writes an integer sum of 2 or 4 pixels.

    Args:
        taps: Number of pixels.
        item: Type of the values of the row.
        convert: Function of a builder and the sums (int32) that returns the values to write.
    """
    lanes = LANES * taps

    @intrinsic
    def write_sum(typing, line, at, weights, x, row):
        def generate(context, builder, signature, arguments):
            line_, weights_, row_ = ((signature.args[k], arguments[k]) for k in (0, 2, 4))
            at, x = arguments[1], arguments[3]
            wide = ir.VectorType(INT, lanes)
            levels = builder.load(_address(context, builder, line_, at, BYTE, lanes), align=1)
            own = _address(context, builder, weights_, _times(builder, x, lanes), SHORT, lanes)
            sums = builder.mul(builder.zext(levels, wide), builder.sext(builder.load(own, align=2), wide))
            pixels = taps // 2
            while pixels:  # add the second half of the pixels to the first
                first = list(range(LANES * pixels))
                second = [index + CHANNELS * pixels for index in first]
                sums = builder.add(_part(builder, sums, first), _part(builder, sums, second))
                pixels //= 2
            target = _address(context, builder, row_, _times(builder, x, CHANNELS), item, LANES)
            builder.store(convert(builder, sums), target, align=2)
            return context.get_dummy_value()

        return types.void(line, types.uint64, weights, types.uint64, row), generate

    return write_sum


FIXED_BITS = 4
"""Fraction bits that a sum of two pixels loses before it is written, so that it fits into 16 bits."""


def _to_uint16(builder: Any, sums: Any) -> Any:
    """Return ``sums >> FIXED_BITS`` as uint16."""
    shifted = builder.lshr(sums, ir.Constant(sums.type, [FIXED_BITS] * LANES))
    return builder.trunc(shifted, ir.VectorType(SHORT, LANES))


def _to_float32(builder: Any, sums: Any) -> Any:
    """Return the sums as float32."""
    return builder.sitofp(sums, ir.VectorType(FLOAT, LANES))


write_pair = _integer_sum(2, SHORT, _to_uint16)
"""Write pixel ``x`` of a uint16 row: two pixels of a line from value ``at``, times weights of :func:`spread`, with
FIXED_BITS fewer fraction bits. Arguments: line (uint8), at, weights, x, row."""

write_four = _integer_sum(4, FLOAT, _to_float32)
"""Write pixel ``x`` of a float32 row: four pixels of a line from value ``at``, times weights of :func:`spread`.
Arguments: line (uint8), at, weights, x, row."""


@kernel
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


@intrinsic
def write_shares(typing, line, at, shares, first, count, x, row):
    """Write pixel ``x`` of a float32 row: ``count`` pixels of a line from value ``at``, times ``shares[first:]``.

    Products are float32 and are added in this order.
    """

    def generate(context, builder, signature, arguments):
        line_, shares_, row_ = ((signature.args[k], arguments[k]) for k in (0, 2, 6))
        _, at, _, first, count, x, _ = arguments
        pixel = ir.VectorType(FLOAT, LANES)
        total = cgutils.alloca_once_value(builder, ir.Constant(pixel, [0.0] * LANES))
        with cgutils.for_range(builder, count) as loop:
            value = builder.add(at, _times(builder, loop.index, CHANNELS))
            levels = builder.load(_address(context, builder, line_, value, BYTE, LANES), align=1)
            share = builder.load(_address(context, builder, shares_, builder.add(first, loop.index), FLOAT, 1), align=4)
            product = builder.fmul(builder.uitofp(levels, pixel), _part(builder, share, [0] * LANES))
            builder.store(builder.fadd(builder.load(total), product), total)
        target = _address(context, builder, row_, _times(builder, x, CHANNELS), FLOAT, LANES)
        builder.store(builder.load(total), target, align=4)
        return context.get_dummy_value()

    numbers = (types.uint64, types.uint64, types.uint64)
    return types.void(line, numbers[0], shares, *numbers[1:], types.uint64, row), generate
