"""Exponential, power, cosine, sine and hypotenuse with the same result on every machine.

The functions of the C library differ in their last bit from library to library, and between CPUs with and without fused
multiply-add. These are computed with Python's decimal numbers and rounded to a float64 once.
"""

from decimal import Context, Decimal, localcontext
from functools import lru_cache

_DIGITS = 40
"""Digits of the computation. A float64 has 17, so that the result is correctly rounded except in very rare ties."""

_NEGLIGIBLE = Decimal(10) ** -_DIGITS
"""Terms of a series below this are left out."""

_CONTEXT = Context(prec=_DIGITS)


def exp(x: float) -> float:
    """Return e to the power of x, or 0 if that is too small for a float64."""
    return float(_CONTEXT.exp(Decimal(x)))


def power(base: float, exponent: float) -> float:
    """Return ``base`` (>= 0) to the power of ``exponent`` (> 0)."""
    return float(_CONTEXT.exp(_CONTEXT.multiply(_CONTEXT.ln(Decimal(base)), Decimal(exponent))))


@lru_cache(maxsize=1024)
def cos_sin(angle: float) -> tuple[float, float]:
    """Return cosine and sine of an angle in radians, -20..20."""
    with localcontext(_CONTEXT):
        x, term, count = Decimal(angle), Decimal(1), 0
        sums = [Decimal(0)] * 4  # of the terms x^n / n! by n modulo 4
        while abs(term) > _NEGLIGIBLE:
            sums[count % 4] += term
            count += 1
            term = term * x / count
        return float(sums[0] - sums[2]), float(sums[1] - sums[3])


def hypot(x: float, y: float) -> float:
    """Return the length of the vector (x, y)."""
    with localcontext(_CONTEXT):
        return float((Decimal(x) * Decimal(x) + Decimal(y) * Decimal(y)).sqrt())
