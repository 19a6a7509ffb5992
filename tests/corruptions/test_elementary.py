"""Elementary functions that do not depend on the C library."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from corruptions.elementary import cos_sin, exp, hypot, power


@pytest.mark.parametrize(
    ("ours", "library", "low", "high"),
    [
        (exp, math.exp, -100.0, 1.0),
        (lambda x: cos_sin(x)[0], math.cos, -20.0, 20.0),
        (lambda x: cos_sin(x)[1], math.sin, -20.0, 20.0),
        (lambda x: hypot(x, 3.7), lambda x: math.hypot(x, 3.7), -50.0, 50.0),
        (lambda x: power(x, 0.01), lambda x: x**0.01, 0.0, 1.0),
    ],
    ids=["exp", "cos", "sin", "hypot", "power"],
)
def test_close_to_the_c_library(
    ours: Callable[[float], float], library: Callable[[float], float], low: float, high: float
) -> None:
    for x in np.linspace(low, high, 401).tolist():
        assert abs(ours(x) - library(x)) <= math.ulp(library(x))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (exp(0.0), "0x1.0000000000000p+0"),
        (exp(-0.5), "0x1.368b2fc6f960ap-1"),
        (exp(-5000.0), "0x0.0p+0"),
        (cos_sin(0.0)[0], "0x1.0000000000000p+0"),
        (cos_sin(0.0)[1], "0x0.0p+0"),
        (cos_sin(math.pi / 6)[1], "0x1.fffffffffffffp-2"),
        (cos_sin(math.pi)[1], "0x1.1a62633145c07p-53"),
        (cos_sin(math.pi / 2)[0], "0x1.1a62633145c07p-54"),
        (hypot(-3.0, 4.0), "0x1.4000000000000p+2"),
        (hypot(0.0, 0.0), "0x0.0p+0"),
        (power(2.0, 0.5), "0x1.6a09e667f3bcdp+0"),
        (power(0.0, 0.01), "0x0.0p+0"),
        (power(1.0, 0.01), "0x1.0000000000000p+0"),
    ],
)
def test_bits(value: float, expected: str) -> None:
    assert value.hex() == float.fromhex(expected).hex()
