"""Vectors of numbers as values in kernels, for code that the compiler cannot vectorise by itself.

A loop does not vectorise if the compiler cannot exclude that its outputs overlap its inputs. These vectors are loaded
and stored explicitly, and have the operators + - *. A vector fills a cache line; the compiler divides it on CPUs with
shorter vectors. Each element is rounded as a single number would be.
"""

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.cgutils import get_or_insert_function
from numba.core.datamodel import models
from numba.extending import intrinsic, overload, register_model
from numba.np.arrayobj import make_array

from corruptions.kernels import LINE

instructions: Any = intrinsic
"""Decorator of functions of numba types that return a signature and the function that writes the instructions."""

ELEMENTS = {
    types.float32: ir.FloatType(),
    types.float64: ir.DoubleType(),
    types.int64: ir.IntType(64),
    types.int32: ir.IntType(32),
    types.int16: ir.IntType(16),
    types.uint16: ir.IntType(16),
    types.uint8: ir.IntType(8),
}
"""Types of elements. Integers can be loaded, added and converted to float32."""


class Vector(types.Type):
    """The type of vectors with elements of one type."""

    def __init__(self, element: Any, parts: int = 1) -> None:
        """Create the type of vectors that fill 1 / ``parts`` of a cache line."""
        self.element = element
        self.lanes = LINE * 8 // element.bitwidth // parts
        super().__init__(name=f"Vector({element}, {self.lanes})")


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    """The representation of a vector in compiled code."""

    def __init__(self, manager: Any, kind: Vector) -> None:
        """Create the representation."""
        super().__init__(manager, kind, ir.VectorType(ELEMENTS[kind.element], kind.lanes))


def _pointer(context: Any, builder: Any, signature: Any, arguments: Any, kind: Any) -> Any:
    """Return the address of a vector or number, where the first arguments are an array and an index."""
    array = make_array(signature.args[0])(context, builder, arguments[0])
    start = builder.gep(array.data, [arguments[1]])
    return builder.bitcast(start, context.get_value_type(kind).as_pointer())


def _loader(parts: int) -> Any:
    """Return a function that loads vectors which fill 1 / ``parts`` of a cache line."""

    @instructions
    def load_vector(typing, array, index):
        kind = Vector(array.dtype, parts)

        def generate(context, builder, signature, arguments):
            pointer = _pointer(context, builder, signature, arguments, kind)
            return builder.load(pointer, align=kind.element.bitwidth // 8)

        return kind(array, types.uint64), generate

    return load_vector


load = _loader(1)
"""Return the vector that begins at an index of a contiguous array."""

load_half = _loader(2)
"""Return half a vector. It crosses a cache line less often if the index is not a multiple of its length."""

load_quarter = _loader(4)
"""Return a quarter of a vector."""

load_eighth = _loader(8)
"""Return an eighth of a vector."""


@instructions
def lanes_of(typing, array):
    """Return how many elements of an array a vector has, as a constant of the compiled code."""
    lanes = Vector(array.dtype).lanes

    def generate(context, builder, signature, arguments):
        return ir.Constant(ir.IntType(64), lanes)

    return types.int64(array), generate


def _number_loader(parts: int) -> Any:
    """Return a function that loads numbers as float32, to fill 1 / ``parts`` of a cache line."""

    @instructions
    def load_numbers(typing, array, index):
        kind, width = Vector(types.float32, parts), array.dtype.bitwidth
        source = Vector(array.dtype, parts * types.float32.bitwidth // width)

        def generate(context, builder, signature, arguments):
            numbers = builder.load(_pointer(context, builder, signature, arguments, source), align=width // 8)
            return numbers if source == kind else builder.uitofp(numbers, context.get_value_type(kind))

        return kind(array, types.uint64), generate

    return load_numbers


load_four = _number_loader(4)
"""Return the four numbers that begin at an index of a float32 or uint8 array, as float32: a pixel and one more."""

load_eight = _number_loader(2)
"""Return eight of them. See :func:`split_pixels`."""


@instructions
def split_pixels(typing, vector):
    """Return the first pixel of eight numbers and one more number, and the same for the second pixel.

    Of sixteen numbers, these are two pixels and two more numbers each.
    """
    lanes = vector.lanes // 2
    kind = Vector(vector.element, LINE * 8 // vector.element.bitwidth // lanes)

    def generate(context, builder, signature, arguments):
        indices = ir.VectorType(ir.IntType(32), lanes)
        masks = (ir.Constant(indices, [*range(first, first + lanes)]) for first in (0, 3 * lanes // 4))
        parts = [builder.shuffle_vector(arguments[0], arguments[0], mask) for mask in masks]
        return context.make_tuple(builder, signature.return_type, parts)

    return types.UniTuple(kind, 2)(vector), generate


@instructions
def store(typing, array, index, vector):
    """Write a vector to a contiguous array, beginning at an index."""

    def generate(context, builder, signature, arguments):
        pointer = _pointer(context, builder, signature, arguments, vector)
        builder.store(arguments[2], pointer, align=vector.element.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.uint64, vector), generate


@instructions
def transpose(typing, source, start, pitch, target, place, stride):
    """Write a square block of an array, as wide as a vector, transposed to another array.

    The block begins at ``start``, and its rows are ``pitch`` apart. The result begins at ``place``, and its rows are
    ``stride`` apart. In each of several steps, two rows exchange the elements that are on the wrong side.
    """
    kind = Vector(source.dtype)
    lanes = kind.lanes

    def generate(context, builder, signature, arguments):
        def rows(array, first, step):
            positions = (builder.add(first, builder.mul(step, step.type(i))) for i in range(lanes))
            return [_pointer(context, builder, signature, (array, position), kind) for position in positions]

        vectors = [builder.load(pointer, align=kind.element.bitwidth // 8) for pointer in rows(*arguments[:3])]
        distance = lanes // 2
        while distance:
            left = [i if not i & distance else i + lanes - distance for i in range(lanes)]
            masks = [ir.Constant(ir.VectorType(ir.IntType(32), lanes), left)]
            masks.append(ir.Constant(masks[0].type, [i + distance for i in left]))
            for i in (i for i in range(lanes) if not i & distance):
                pair = vectors[i], vectors[i + distance]
                vectors[i], vectors[i + distance] = (builder.shuffle_vector(*pair, mask) for mask in masks)
            distance //= 2
        for pointer, vector in zip(rows(*arguments[3:]), vectors, strict=True):
            builder.store(vector, pointer, align=kind.element.bitwidth // 8)
        return context.get_dummy_value()

    number = types.uint64
    return types.void(source, number, number, source, number, number), generate


def _spread(context: Any, builder: Any, kind: Vector, number: Any) -> Any:
    """Return a vector whose elements all have one value."""
    empty = ir.Constant(context.get_value_type(kind), ir.Undefined)
    first = builder.insert_element(empty, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(ir.IntType(32), kind.lanes), None))


@instructions
def fill(typing, number):
    """Return a vector whose elements all have one value."""
    kind = Vector(number)

    def generate(context, builder, signature, arguments):
        return _spread(context, builder, kind, arguments[0])

    return kind(number), generate


def _converter(element: Any, instruction: str, unsigned: str = "") -> Any:
    """Return a function that converts each element of a vector, by another instruction if it is unsigned."""

    @instructions
    def convert(typing, vector):
        kind = Vector(element, LINE * 8 // element.bitwidth // vector.lanes)

        def generate(context, builder, signature, arguments):
            used = instruction if getattr(vector.element, "signed", True) else unsigned
            return getattr(builder, used)(arguments[0], context.get_value_type(kind))

        return kind(vector), generate

    return convert


to_floats = _converter(types.float32, "sitofp", "uitofp")
"""Return a vector of integers as float32."""

to_doubles = _converter(types.float64, "sitofp")
"""Return a vector of integers as float64."""

to_integers = _converter(types.int32, "fptosi")
"""Return a vector of whole float32 numbers as int32."""

to_bytes = _converter(types.uint8, "trunc")
"""Return the lowest bytes of integers."""

to_shorts = _converter(types.int16, "trunc")
"""Return the lower halves of int32."""

to_words = _converter(types.int32, "sext", "zext")
"""Return integers of 8 or 16 bits as int32."""

narrow = _converter(types.int32, "trunc")
"""Return the lower halves of int64."""

widen = _converter(types.int64, "zext")
"""Return int32 as the lower halves of int64."""

extend = _converter(types.int64, "sext")
"""Return integers as int64."""


@instructions
def trailing_zeros(typing, number):
    """Return the number of zero bits below the lowest bit of an integer that is one. The integer must not be zero."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return number(number), generate


@instructions
def unequal(typing, left, right):
    """Return an int64 whose bits are 1 for the elements of two vectors of integers that differ, the lowest first."""

    def generate(context, builder, signature, arguments):
        bits = builder.bitcast(builder.icmp_signed("!=", *arguments), ir.IntType(left.lanes))
        return builder.zext(bits, ir.IntType(64)) if left.lanes < 64 else bits

    return types.int64(left, right), generate


@instructions
def floor(typing, vector):
    """Return each float32 rounded down."""

    def generate(context, builder, signature, arguments):
        kind = context.get_value_type(vector)
        name = f"llvm.floor.v{vector.lanes}{kind.element.intrinsic_name}"
        return builder.call(get_or_insert_function(builder.module, ir.FunctionType(kind, [kind]), name), arguments)

    return vector(vector), generate


def _adder(operation: str) -> Any:
    """Return a function of three floats, or of vectors and numbers, the first a vector, that calls one of LLVM's."""

    @instructions
    def add_product(typing, left, right, addend):
        def generate(context, builder, signature, arguments):
            kind, suffix = context.get_value_type(left), ""
            if isinstance(left, Vector):
                suffix = f"v{left.lanes}"
                arguments = [
                    value if part == left else _spread(context, builder, left, value)
                    for part, value in zip(signature.args, arguments, strict=True)
                ]
            name = f"llvm.{operation}.{suffix}{getattr(kind, 'element', kind).intrinsic_name}"
            function_type = ir.FunctionType(kind, [kind] * len(arguments))
            return builder.call(get_or_insert_function(builder.module, function_type, name), arguments)

        return left(left, right, addend), generate

    return add_product


fma = _adder("fma")
"""Return left * right + addend, rounded once. CPUs without this operation call the C library's."""

multiply_add = _adder("fmuladd")
"""Return left * right + addend, rounded once on CPUs that do this fast, else twice.

Only for sums whose result does not depend on their rounding, because a bound of the error decides.
"""


def _chooser(comparison: str) -> Any:
    """Return a function of a vector and a vector or number: the first where a comparison holds, else the second."""

    @instructions
    def choose(typing, left, right):
        def generate(context, builder, signature, arguments):
            first, second = arguments
            if not isinstance(right, Vector):
                second = _spread(context, builder, left, second)
            compare = builder.fcmp_ordered if left.element in types.real_domain else builder.icmp_signed
            return builder.select(compare(comparison, first, second), first, second)

        return left(left, right), generate

    return choose


smaller = _chooser("<")
"""Return the smaller of each two elements."""

larger = _chooser(">")
"""Return the larger of each two elements."""


def _define(symbol: Callable[[Any, Any], Any], instruction: str) -> None:
    """Define an operator of two vectors, or of a vector and a number of the type of its elements."""

    @instructions
    def elementwise(typing, left, right):
        def generate(context, builder, signature, arguments):
            first, second = arguments
            if not isinstance(right, Vector):
                second = _spread(context, builder, left, second)
            operation = instruction if left.element in types.real_domain else instruction.removeprefix("f")
            return getattr(builder, operation)(first, second)

        return left(left, right), generate

    @overload(symbol, inline="always")
    def apply(left, right):
        if isinstance(left, Vector):
            return lambda left, right: elementwise(left, right)  # noqa: PLW0108  # numba inlines Python functions only
        return None


_define(operator.add, "fadd")
_define(operator.sub, "fsub")
_define(operator.mul, "fmul")
_define(operator.and_, "and_")
_define(operator.or_, "or_")
_define(operator.rshift, "ashr")
_define(operator.lshift, "shl")
