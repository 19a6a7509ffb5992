"""Functions of kernels that replace those of the C library."""

from collections.abc import Callable

import numpy as np
import pytest
from numba import vectorize

from corruptions.kernels.powers import power
from corruptions.kernels.trigonometry import arctangent, arctangent_64, cosine, cosine_sine, sine, sine_64


@vectorize
def tangent(x):
    cosine, sine = cosine_sine(x)
    return sine / cosine


Function = Callable[[np.ndarray], np.ndarray]


@pytest.mark.parametrize(
    ("ours", "library", "largest", "dtype", "error"),
    [
        (vectorize(sine.py_func), np.sin, 20_000, np.float32, 2e-7),
        (vectorize(cosine.py_func), np.cos, 20_000, np.float32, 2e-7),
        (tangent, np.tan, 1, np.float32, 1e-6),
        (vectorize(sine_64.py_func), np.sin, 1e6, np.float64, 1e-14),
    ],
    ids=["sine", "cosine", "cosine_sine", "sine_64"],
)
def test_close_to_the_c_library(
    ours: Function, library: Function, largest: float, dtype: type[np.floating], error: float
) -> None:
    x = np.linspace(-largest, largest, 100_003).astype(dtype)
    found = ours(x)
    assert found.dtype == dtype
    assert np.abs(found - library(x.astype(np.float64))).max() < error


@pytest.mark.parametrize(
    ("ours", "dtype", "error"),
    [(vectorize(arctangent.py_func), np.float32, 4e-7), (vectorize(arctangent_64.py_func), np.float64, 1e-13)],
    ids=["32", "64"],
)
def test_angles_of_vectors(
    ours: Callable[[np.ndarray, np.ndarray], np.ndarray], dtype: type[np.floating], error: float
) -> None:
    steps = np.concatenate([-np.geomspace(1e3, 1e-6, 150), [0.0], np.geomspace(1e-6, 1e3, 150)]).astype(dtype)
    y, x = (axis.ravel() for axis in np.meshgrid(steps, steps))
    found = ours(y, x)
    assert found.dtype == dtype
    assert np.abs(found - np.arctan2(y.astype(np.float64), x.astype(np.float64))).max() < error
    assert found[(y == 0) & (x == 0)] == 0


@pytest.mark.parametrize("exponent", [0.13, 0.65, 1.3, 1.4])
def test_powers(exponent: float) -> None:
    x = np.geomspace(1e-9, 1e9, 100_003).astype(np.float32)
    raised = vectorize(power.py_func)
    found, expected = raised(x, np.float32(exponent)), x.astype(np.float64) ** np.float64(np.float32(exponent))
    assert found.dtype == np.float32
    assert (np.abs(found / expected - 1) < 1e-7 * (1 + np.abs(np.log2(expected)))).all()
    assert raised(np.zeros(1, np.float32), np.float32(exponent))[0] == 0
