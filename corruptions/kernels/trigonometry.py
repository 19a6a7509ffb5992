"""Sine, cosine and arctangent as polynomials, for loops over pixels.

They have the same bits on every CPU, and they vectorise. Functions for float64 have names of their own, because a
constant of another type would change the type of a result. Coefficients are those of interpolations at Chebyshev nodes.
"""

import math

import numpy as np

from corruptions.kernels import inlined

ONE = np.float32(1)
PER_RADIAN, PER_RADIAN_64 = np.float32(1 / math.pi), 1 / math.pi
"""Half turns per radian."""
ROUND, ROUND_64 = np.float32(1.5 * 2.0**23), 1.5 * 2.0**52
"""Added and subtracted, it rounds a number to an integer, halves to even.

The lowest bit of the sum is set if the integer is odd.
"""
SIGN, SIGN_64 = np.int32(31), np.int64(63)
"""Shift of the lowest bit to the sign."""

# Pi in parts. Products of all but the last part with integers up to 2^13 (float32) and 2^22 (float64) are exact.
PI_0, PI_1, PI_2 = (np.float32(part) for part in (3.140625, 0.0009675025939941406, 1.5099579909783765e-07))
PI_0_64, PI_1_64, PI_2_64 = 3.141592651605606, 1.9841871583270443e-09, 1.034036596358821e-18

# sin(x) = x + x^3 * S(x^2) and cos(x) = 1 + x^2 * C(x^2) for |x| <= pi / 2, with errors of 3e-8, 1e-9 and 1e-15.
S0, S1, S2, S3 = (np.float32(c) for c in (-0.16666665964, 0.0083332421080, -1.9822735835e-4, 2.6347445558e-6))
C0, C1, C2 = (np.float32(c) for c in (-0.49999999963935, 0.041666659357126, -0.0013888651576846))
C3, C4 = (np.float32(c) for c in (2.4774574421747e-5, -2.6297394196233e-7))
D0, D1, D2 = -0.16666666666666648022, 0.0083333333333259282536, -0.00019841269836466635949
D3, D4 = 2.7557318055221204417e-6, -2.5051972881210060327e-8
D5, D6 = 1.6050970646122486338e-10, -7.4080313436704882966e-13

# atan(x) = x + x^3 * A(x^2) for |x| <= tan(pi / 8), with errors of 3e-8 and 4e-14.
A0, A1, A2, A3 = (np.float32(c) for c in (-0.33333286563943, 0.19991237743030, -0.14024142841864, 0.085204920358813))
B0, B1, B2 = -0.33333333333266199023, 0.1999999994985479311, -0.14285708110360399852
B3, B4, B5 = 0.11110819716745676225, -0.090841018953464294986, 0.076048000460782915455
B6, B7 = -0.060273074609466753293, 0.032956795418701365507

TAN, TAN_64 = np.float32(math.sqrt(2) - 1), math.sqrt(2) - 1
"""Tangent of pi / 8."""
ZERO, QUARTER, HALF, WHOLE = (np.float32(math.pi * part) for part in (0, 1 / 4, 1 / 2, 1))
"""Parts of a half turn, in radians."""
QUARTER_64, HALF_PI_64 = math.pi / 4, math.pi / 2
TINY, TINY_64 = np.float32(1e-30), 1e-300
"""Added to a divisor, so that the angle of the vector (0, 0) is not NaN. It does not change other divisors."""


@inlined
def reduced(x):
    """Return x minus a multiple of pi, between -pi / 2 and pi / 2, and the sign bit of its sine. All are float32."""
    shifted = x * PER_RADIAN + ROUND
    turns = shifted - ROUND
    rest = ((x - turns * PI_0) - turns * PI_1) - turns * PI_2
    return rest, np.int32(np.float32(shifted).view(np.int32) << SIGN)


@inlined
def signed(value, bit):
    """Return a float32 with its sign changed if the sign bit is set."""
    return np.int32(np.float32(value).view(np.int32) ^ bit).view(np.float32)


@inlined
def cosine_sine(x):
    """Return cosine and sine of a float32, -25000..25000 radians, with an error below 2e-7."""
    rest, bit = reduced(x)
    square = rest * rest
    sine = rest + rest * square * (((S3 * square + S2) * square + S1) * square + S0)
    cosine = ONE + square * ((((C4 * square + C3) * square + C2) * square + C1) * square + C0)
    return signed(cosine, bit), signed(sine, bit)


@inlined
def sine(x):
    """Return the sine of a float32, as :func:`cosine_sine`."""
    return cosine_sine(x)[1]


@inlined
def cosine(x):
    """Return the cosine of a float32, as :func:`cosine_sine`."""
    return cosine_sine(x)[0]


@inlined
def sine_64(x):
    """Return the sine of a float64, -1e7..1e7 radians, with an error below 1e-14."""
    shifted = x * PER_RADIAN_64 + ROUND_64
    turns = shifted - ROUND_64
    rest = ((x - turns * PI_0_64) - turns * PI_1_64) - turns * PI_2_64
    square = rest * rest
    series = (((((D6 * square + D5) * square + D4) * square + D3) * square + D2) * square + D1) * square + D0
    value = rest + rest * square * series
    return np.int64(np.float64(value).view(np.int64) ^ (np.float64(shifted).view(np.int64) << SIGN_64)).view(np.float64)


@inlined
def cosine_64(x):
    """Return the cosine of a float64, as :func:`sine_64`."""
    return sine_64(x + HALF_PI_64)


@inlined
def arctangent(y, x):
    """Return the angle of the vector (x, y), float32, -pi..pi, with an error below 4e-7. That of (0, 0) is 0."""
    across, up = abs(x), abs(y)
    steep = up > across
    low, high = (across, up) if steep else (up, across)
    beyond = low > TAN * high
    above, below, start = (low - high, low + high, QUARTER) if beyond else (low, high, ZERO)
    tangent = above / (below + TINY)
    square = tangent * tangent
    angle = start + (tangent + tangent * square * (((A3 * square + A2) * square + A1) * square + A0))
    angle = HALF - angle if steep else angle
    angle = WHOLE - angle if x < ZERO else angle
    return -angle if y < ZERO else angle


@inlined
def arctangent_64(y, x):
    """Return the angle of the vector (x, y), float64, -pi..pi, with an error below 1e-13. That of (0, 0) is 0."""
    across, up = abs(x), abs(y)
    steep = up > across
    low, high = (across, up) if steep else (up, across)
    beyond = low > TAN_64 * high
    above, below, start = (low - high, low + high, QUARTER_64) if beyond else (low, high, 0.0)
    tangent = above / (below + TINY_64)
    square = tangent * tangent
    upper = ((B7 * square + B6) * square + B5) * square + B4
    series = (((upper * square + B3) * square + B2) * square + B1) * square + B0
    angle = start + (tangent + tangent * square * series)
    angle = HALF_PI_64 - angle if steep else angle
    angle = math.pi - angle if x < 0.0 else angle
    return -angle if y < 0.0 else angle
