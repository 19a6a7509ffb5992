"""Real powers as polynomials, for loops over pixels. They have the same bits on every CPU, and they vectorise."""

import math

import numpy as np

from corruptions.kernels import inlined

SQRT_HALF_BITS, MANTISSA, BIAS = np.int32(0x3F3504F3), np.int32(23), np.int32(127)
"""Bits of sqrt(1/2), bits of a mantissa, and the bias of exponents."""
ZERO, ONE, ROUND = np.float32(0), np.float32(1), np.float32(1.5 * 2.0**23)
LEAST, MOST = np.float32(-126), np.float32(127)
"""Smallest and largest exponent of a result."""

# Interpolations at Chebyshev nodes: log2(1 + f) = f * L(f) for sqrt(1/2) <= 1 + f < sqrt(2), error 2e-8, and
# 2^x = E(x) for |x| <= 1/2, error 2e-9.
L0, L1, L2 = (np.float32(c) for c in (1.442695003568, -0.72134746824956, 0.48091075345941))
L3, L4, L5 = (np.float32(c) for c in (-0.36069326813534, 0.2879032609245, -0.23916988140104))
L6, L7, L8 = (np.float32(c) for c in (0.21607822552244, -0.20586188051276, 0.12310968467191))
E1, E2, E3 = (np.float32(c) for c in (0.69314720670283, 0.24022650922289, 0.055503272266703))
E4, E5, E6 = (np.float32(c) for c in (0.0096180566785246, 0.0013400428177616, 0.00015461444698569))

LN_2_HIGH, LN_2_LOW = float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33")
"""Natural logarithm of 2 in two parts. Products of the first with integers up to 2^20 are exact."""
SQRT_HALF_64 = math.sqrt(0.5)
LOG_TERMS, EXP_TERMS = 12, 14
"""Terms of the series of float64, of which the next is below 1e-17."""


@inlined
def power(base, exponent):
    """Return a float32 >= 0 to a float32 power > 0, between 2^-126 and 2^127. That of 0 is 0.

    The relative error is below 1e-7 times (1 + the binary logarithm of the result).
    """
    bits = np.float32(base).view(np.int32)
    whole = np.int32(np.int32(bits - SQRT_HALF_BITS) >> MANTISSA)
    f = np.int32(bits - np.int32(whole << MANTISSA)).view(np.float32) - ONE
    upper = (((L8 * f + L7) * f + L6) * f + L5) * f + L4
    series = (((upper * f + L3) * f + L2) * f + L1) * f + L0
    x = (np.float32(whole) + f * series) * exponent
    x = x if x > LEAST else LEAST
    x = x if x < MOST else MOST
    nearest = (x + ROUND) - ROUND
    g = x - nearest
    root = (((((E6 * g + E5) * g + E4) * g + E3) * g + E2) * g + E1) * g + ONE
    result = root * np.int32(np.int32(np.int32(nearest) + BIAS) << MANTISSA).view(np.float32)
    return result if base > ZERO else ZERO


@inlined
def power_64(base, exponent):
    """Return a float64 > 0 to a float64 power, with a relative error below 1e-15 times (1 + its logarithm).

    It is for tables: its loops do not vectorise.
    """
    doublings = 0
    while base < SQRT_HALF_64:
        base *= 2.0
        doublings += 1
    while base > 2.0 * SQRT_HALF_64:
        base *= 0.5
        doublings -= 1
    ratio = (base - 1.0) / (base + 1.0)  # log(base) = 2 artanh(ratio)
    series = 0.0
    for k in range(LOG_TERMS - 1, -1, -1):
        series = series * (ratio * ratio) + 2.0 / (2 * k + 1)
    x = exponent * ((series * ratio - doublings * LN_2_LOW) - doublings * LN_2_HIGH)
    turns = np.rint(x / LN_2_HIGH)
    x = (x - turns * LN_2_HIGH) - turns * LN_2_LOW
    root = 1.0
    for k in range(EXP_TERMS, 0, -1):
        root = root * x / k + 1.0
    for _ in range(abs(int(turns))):
        root = root * 2.0 if turns > 0.0 else root * 0.5
    return root
