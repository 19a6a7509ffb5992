"""Four floats as one vector: numba vectorises long loops, not the four lanes of a single pixel."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

LANES = 4
"""Floats of a vector: R, G, B and one unused."""


@intrinsic
def add_between(typing_context, total, at, source, index, weight):
    """``total[at:at + 4] += a + weight * (b - a)``, a = ``source[index:index + 4]`` and b the four floats after it.

    ``total`` and ``source`` are one-dimensional contiguous float32 arrays; each step is rounded, none are fused.
    """
    signature = types.void(total, types.uintp, source, types.uintp, types.float32)

    def generate(context: Any, builder: ir.IRBuilder, typed: Any, arguments: Any) -> Any:
        total_value, at_value, source_value, index_value, weight_value = arguments
        vector = ir.VectorType(ir.FloatType(), LANES)

        def pointer(array_type: Any, value: Any, offset: Any) -> Any:
            data = context.make_array(array_type)(context, builder, value).data
            return builder.bitcast(builder.gep(data, [offset]), vector.as_pointer())

        low = pointer(typed.args[2], source_value, index_value)
        high = pointer(typed.args[2], source_value, builder.add(index_value, ir.Constant(index_value.type, LANES)))
        target = pointer(typed.args[0], total_value, at_value)
        a, b, before = (builder.load(place, align=4) for place in (low, high, target))
        weights: Any = ir.Constant(vector, ir.Undefined)
        for lane in range(LANES):
            weights = builder.insert_element(weights, weight_value, ir.Constant(ir.IntType(32), lane))
        between = builder.fadd(a, builder.fmul(weights, builder.fsub(b, a)))
        builder.store(builder.fadd(before, between), target, align=4)
        return context.get_dummy_value()

    return signature, generate
