"""Own discrete Fourier transforms: values, round trips and bits."""

import hashlib
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from corruptions.kernels.smoothing import fourier

SHAPES = [(224, 224), (299, 299), (64, 64), (32, 32), (16, 17), (37, 113), (90, 31), (2, 3), (1, 1)]
"""Sizes of the profiles, and odd, prime and tiny ones that fill vectors partly."""

TOLERANCES = [(np.float64, 1e-14), (np.float32, 1e-6)]
"""Type and largest error, relative to the largest value."""


def noise(*shape: int) -> NDArray[np.float64]:
    """Return float64 multiples of 1/256, -128..128, which do not depend on a mathematics library."""
    return np.random.RandomState(1).randint(-(2**15), 2**15, shape) / 256


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "tolerance"), TOLERANCES)
@pytest.mark.parametrize("shape", SHAPES)
def test_forward_equals_numpy(shape: tuple[int, int], dtype: type, tolerance: float) -> None:
    field: Any = noise(*shape).astype(dtype)
    spectrum = fourier.forward(field)
    expected = np.fft.rfft2(field.astype(np.float64))
    assert spectrum.dtype == dtype
    assert np.abs(spectrum[0] + 1j * spectrum[1] - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize(("dtype", "tolerance"), TOLERANCES)
@pytest.mark.parametrize("shape", SHAPES)
def test_inverse_equals_numpy_for_any_spectrum(shape: tuple[int, int], dtype: type, tolerance: float) -> None:
    height, width = shape
    spectrum: Any = noise(2, height, width // 2 + 1).astype(dtype)
    expected = np.fft.irfft2(spectrum[0].astype(np.float64) + 1j * spectrum[1], s=shape)
    field = fourier.inverse(spectrum, width)
    assert field.shape == shape
    assert field.dtype == dtype
    assert np.abs(field - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize("shape", SHAPES)
def test_inverse_of_forward_is_the_field(shape: tuple[int, int]) -> None:
    field = noise(*shape)
    assert np.abs(fourier.inverse(fourier.forward(field), shape[1]) - field).max() <= 1e-12


def test_inputs_are_not_modified() -> None:
    field = noise(33, 20)
    spectrum = fourier.forward(field)
    before = field.copy(), spectrum.copy()
    fourier.forward(field)
    fourier.inverse(spectrum, 20)
    assert np.array_equal(field, before[0])
    assert np.array_equal(spectrum, before[1])


@pytest.mark.parametrize("length", [1, 2, 12, 23, 32, 224, 299, 1024, 2 * 3 * 5 * 7 * 11])
def test_factors_have_the_length_as_product(length: int) -> None:
    found = fourier.factors(length)
    assert math.prod(found) == length
    assert all(factor == 4 or all(factor % k for k in range(2, factor)) for factor in found)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (np.float64, "1873bed4a80284b6f3f3cb81ad2179435d68cbafec85880708e1caa72010fa02"),
        (np.float32, "18b9a7002ce8e08c951960676fa679c06cf92a7096ac7899bf382c2826e113f2"),
    ],
)
def test_bits_are_the_committed_ones(dtype: type, expected: str) -> None:
    digest = hashlib.sha256()
    for height, width in SHAPES:
        digest.update(fourier.forward(noise(height, width).astype(dtype)).tobytes())
        digest.update(fourier.inverse(noise(2, height, width // 2 + 1).astype(dtype), width).tobytes())
    assert digest.hexdigest() == expected
