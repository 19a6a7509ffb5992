"""Two-dimensional discrete Fourier transforms of real fields of any size, with the same bits on every CPU.

Columns are transformed several at a time, one per lane of a vector, so that no operation depends on the width of the
CPU's vectors. Two real columns are transformed as the two parts of a complex one. A transform of a composite length is
divided into passes, one per factor (Stockham's algorithm); a prime factor P takes a time proportional to P^2.

A spectrum is an array (2, H, W // 2 + 1) of the real and the imaginary parts, as ``numpy.fft.rfft2`` orders them: the
frequencies p = 0, 1, ..., -2, -1 along the rows of the field, and q = 0..W // 2 along its columns. The others follow
from these, because the field is real.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions.elementary import cos_sin
from corruptions.kernels import inlined, kernel, scratch
from corruptions.kernels.vectors import fill, lanes_of, load, store

Field = NDArray[np.floating[Any]]
"""Real values, float32 or float64 (H, W). All computations are in this type."""

Spectrum = NDArray[np.floating[Any]]
"""Real and imaginary parts, float32 or float64 (2, H, W // 2 + 1)."""


class FourierPlan(NamedTuple):
    """How lines of one length are transformed."""

    factors: NDArray[np.int64]
    """Factors of the length, one per pass: 4, 2 and odd primes."""
    cosines: Field
    """(length,) real parts of the roots of unity exp(-2 pi i k / length)."""
    sines: Field
    """(length,) their imaginary parts."""


def factors(length: int) -> list[int]:
    """Return 4, 2 and odd primes whose product is ``length``, large ones last."""
    found, factor = [], 4
    while length > 1:
        if length % factor == 0:
            found.append(factor)
            length //= factor
        else:
            factor = {4: 2, 2: 3}.get(factor, factor + 2)
    return found


@lru_cache(maxsize=64)
def plan(length: int, dtype: np.dtype[Any]) -> FourierPlan:
    """Return the plan for lines of a length and type."""
    roots = [cos_sin(2 * math.pi * k / length) for k in range(length)]
    cosines, sines = (np.array(part, dtype) for part in zip(*roots, strict=True))
    return FourierPlan(np.array(factors(length), np.int64), cosines, -sines)


@inlined
def put(target, at, real, imaginary, cosine, sine):
    """Write complex numbers, times cosine + i sine, to a position of a buffer."""
    store(target, at, real * cosine - imaginary * sine)
    store(target, at + lanes_of(target), real * sine + imaginary * cosine)


@kernel
def divide_by_two(source, target, rest, stride, cosines, sines):
    """Do a pass of factor 2, see :func:`transform`."""
    lanes = lanes_of(source)
    jump = 2 * lanes * stride
    for p in range(rest):
        cosine, sine = cosines[p * stride], sines[p * stride]
        for k in range(0, jump, 2 * lanes):
            first, write = p * jump + k, 2 * p * jump + k
            second = first + rest * jump
            a, a_i = load(source, first), load(source, first + lanes)
            b, b_i = load(source, second), load(source, second + lanes)
            put(target, write, a + b, a_i + b_i, cosines[0], sines[0])
            put(target, write + jump, a - b, a_i - b_i, cosine, sine)


@kernel
def divide_by_four(source, target, rest, stride, cosines, sines):
    """Do a pass of factor 4, see :func:`transform`."""
    lanes = lanes_of(source)
    jump = 2 * lanes * stride
    for p in range(rest):
        turn = p * stride
        for k in range(0, jump, 2 * lanes):
            read, write = p * jump + k, 4 * p * jump + k
            a, a_i = load(source, read), load(source, read + lanes)
            read += rest * jump
            b, b_i = load(source, read), load(source, read + lanes)
            read += rest * jump
            c, c_i = load(source, read), load(source, read + lanes)
            read += rest * jump
            d, d_i = load(source, read), load(source, read + lanes)
            even, even_i, odd, odd_i = a + c, a_i + c_i, b + d, b_i + d_i
            put(target, write, even + odd, even_i + odd_i, cosines[0], sines[0])
            put(target, write + 2 * jump, even - odd, even_i - odd_i, cosines[2 * turn], sines[2 * turn])
            even, even_i, odd, odd_i = a - c, a_i - c_i, b - d, b_i - d_i
            put(target, write + jump, even + odd_i, even_i - odd, cosines[turn], sines[turn])
            put(target, write + 3 * jump, even - odd_i, even_i + odd, cosines[3 * turn], sines[3 * turn])


@kernel
def divide_by_odd(source, target, factor, rest, stride, cosines, sines):
    """Do a pass of an odd factor, see :func:`transform`.

    Elements q and factor - q have conjugate roots, so that the sums and differences of both are multiplied by real
    numbers.
    """
    lanes = lanes_of(source)
    jump, half = 2 * lanes * stride, factor // 2
    pairs = scratch(half * 4 * lanes, source.dtype)
    for p in range(rest):
        turn = p * stride
        for k in range(0, jump, 2 * lanes):
            read, write = p * jump + k, factor * p * jump + k
            first, first_i = load(source, read), load(source, read + lanes)
            total, total_i = first, first_i
            for q in range(half):
                near, far = read + (q + 1) * rest * jump, read + (factor - q - 1) * rest * jump
                a, a_i = load(source, near), load(source, near + lanes)
                b, b_i = load(source, far), load(source, far + lanes)
                pair = q * 4 * lanes
                store(pairs, pair, a + b)
                store(pairs, pair + lanes, a_i + b_i)
                store(pairs, pair + 2 * lanes, a - b)
                store(pairs, pair + 3 * lanes, a_i - b_i)
                total, total_i = total + (a + b), total_i + (a_i + b_i)
            put(target, write, total, total_i, cosines[0], sines[0])
            for j in range(1, half + 1):
                even, even_i = first, first_i
                odd, odd_i = fill(sines[0]), fill(sines[0])
                root = 0
                for q in range(half):
                    root += j * rest * stride
                    root -= cosines.size if root >= cosines.size else 0
                    cosine, sine = cosines[root], sines[root]
                    pair = q * 4 * lanes
                    even, even_i = even + load(pairs, pair) * cosine, even_i + load(pairs, pair + lanes) * cosine
                    odd = odd + load(pairs, pair + 2 * lanes) * sine
                    odd_i = odd_i + load(pairs, pair + 3 * lanes) * sine
                put(target, write + j * jump, even - odd_i, even_i + odd, cosines[j * turn], sines[j * turn])
                far = factor - j
                put(target, write + far * jump, even + odd_i, even_i - odd, cosines[far * turn], sines[far * turn])


@kernel
def transform(source, target, factors, cosines, sines):
    """Return the transform of complex columns of length N, one per lane, in one of the two buffers.

    A buffer (N * 2 * lanes) has for each element of the columns a vector of real and one of imaginary parts. A pass of
    factor F combines elements N / F apart. The other fields of the plan are those of :class:`Plan`.
    """
    rest, stride = cosines.size, 1
    for factor in factors:
        rest //= factor
        if factor == 4:
            divide_by_four(source, target, rest, stride, cosines, sines)
        elif factor == 2:
            divide_by_two(source, target, rest, stride, cosines, sines)
        else:
            divide_by_odd(source, target, factor, rest, stride, cosines, sines)
        source, target = target, source
        stride *= factor
    return source


@kernel
def transform_columns(real, imaginary, factors, cosines, sines):
    """Return the transform of the columns of complex (H, W), given as two arrays, as (2, H, W)."""
    height, width = real.shape
    lanes = lanes_of(real)
    step = 2 * lanes
    out = np.empty((2, height, width), real.dtype)
    source, target = scratch(height * step, real.dtype), scratch(height * step, real.dtype)
    source[:] = 0  # lanes without a column
    for left in range(0, width, lanes):
        count = min(lanes, width - left)
        for y in range(height):
            place = source[y * step : (y + 1) * step]
            for x in range(count):
                place[x] = real[y, left + x]
                place[lanes + x] = imaginary[y, left + x]
        result = transform(source, target, factors, cosines, sines)
        for y in range(height):
            place = result[y * step : (y + 1) * step]
            for x in range(count):
                out[0, y, left + x] = place[x]
                out[1, y, left + x] = place[lanes + x]
    return out


@kernel
def rows_to_spectra(field, factors, cosines, sines):
    """Return the spectrum of each row of real (H, W), as (2, H, W // 2 + 1).

    Rows are the real parts of the first lanes and the imaginary parts of the others.
    """
    height, width = field.shape
    lanes = lanes_of(field)
    step = 2 * lanes
    out = np.empty((2, height, width // 2 + 1), field.dtype)
    source, target = scratch(width * step, field.dtype), scratch(width * step, field.dtype)
    half = field.dtype.type(0.5)
    for top in range(0, height, step):
        for lane in range(step):
            row = field[min(top + lane, height - 1)]
            for x in range(width):
                source[x * step + lane] = row[x]
        result = transform(source, target, factors, cosines, sines)
        for lane in range(min(step, height - top)):
            # The even part of a complex spectrum belongs to the real row, the odd part to the imaginary one.
            other, sign = (lane + lanes, half) if lane < lanes else (lane - lanes, -half)
            for q in range(width // 2 + 1):
                near, far = q * step, (width - q) % width * step
                out[0, top + lane, q] = half * (result[near + lane] + result[far + lane])
                out[1, top + lane, q] = sign * (result[near + other] - result[far + other])
    return out


@kernel
def spectra_to_rows(real, imaginary, scale, factors, cosines, sines):
    """Return real rows (H, W), times ``scale``, from their spectra (H, W // 2 + 1), without a division by W.

    The conjugate spectra are transformed, because the transform of these is the inverse one for real rows.
    """
    height, width = real.shape[0], cosines.size
    lanes = lanes_of(real)
    step = 2 * lanes
    out = np.empty((height, width), real.dtype)
    source, target = scratch(width * step, real.dtype), scratch(width * step, real.dtype)
    for top in range(0, height, step):
        for lane in range(lanes):
            first, second = min(top + lane, height - 1), min(top + lanes + lane, height - 1)
            a, a_i, b, b_i = real[first], imaginary[first], real[second], imaginary[second]
            for q in range(width // 2 + 1):
                near, far = q * step + lane, (width - q) * step + lane
                if q == 0 or 2 * q == width:
                    source[near] = a[q]
                    source[near + lanes] = b[q]
                else:
                    source[near] = a[q] + b_i[q]
                    source[near + lanes] = b[q] - a_i[q]
                    source[far] = a[q] - b_i[q]
                    source[far + lanes] = b[q] + a_i[q]
        result = transform(source, target, factors, cosines, sines)
        for lane in range(min(step, height - top)):
            for x in range(width):
                out[top + lane, x] = result[x * step + lane] * scale
    return out


def forward(field: Field) -> Spectrum:
    """Return the spectrum of a real field.

    Args:
        field: float32 or float64 (H, W), C-contiguous.

    Returns:
        Its spectrum (2, H, W // 2 + 1) in the same type, not normalised: element (0, 0) is the sum of the field.
    """
    height, width = field.shape
    rows = rows_to_spectra(field, *plan(width, field.dtype))
    return transform_columns(rows[0], rows[1], *plan(height, field.dtype))


def inverse(spectrum: Spectrum, width: int) -> Field:
    """Return the real field that has a spectrum.

    Args:
        spectrum: float32 or float64 (2, H, W // 2 + 1), as :func:`forward` returns it.
        width: Columns of the field, W.

    Returns:
        The field (H, W) in the same type.
    """
    height = spectrum.shape[1]
    # Exchanging real and imaginary parts before and after a transform makes it the inverse one.
    imaginary, real = transform_columns(spectrum[1], spectrum[0], *plan(height, spectrum.dtype))
    scale = spectrum.dtype.type(1 / (height * width))
    return spectra_to_rows(real, imaginary, scale, *plan(width, spectrum.dtype))
