"""Time of images of the frequency domain: low-pass filtered, and plus one frequency."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.timing import medians
from corruptions import fourier_noise, low_pass
from corruptions.catalogue import PROFILE_SIDES
from corruptions.preparation import prepare

Image = NDArray[np.uint8]

SHARE = 4
"""Measured bandwidth as a fraction of the side: half of the frequencies across. Time hardly depends on it."""

NOTE = (
    "Milliseconds for three channels. The transform is made once per image, and each level from it. NumPy: the same "
    "definition with `numpy.fft.rfft2` and `irfft2`, in float64."
)


FOURIER_NOTE = (
    "Milliseconds for three channels. NumPy: the same definition in float64; the basis is made once for each "
    "frequency, by an inverse transform as in google-research/frequency_analysis."
)


class FilterTime(NamedTuple):
    """Median milliseconds at one side, of robustshards and of NumPy."""

    side: int
    transform: float
    level: float
    numpy_transform: float
    numpy_level: float


def measure(image: Image, seconds: float) -> list[FilterTime]:
    """Return the times at the sides of all profiles. Each call has three turns of ``seconds``."""
    return [_measured(prepare(image, [("square", side)]), seconds) for side in PROFILE_SIDES.values()]


def _measured(image: Image, seconds: float) -> FilterTime:
    side = len(image)
    bandwidth, spectra, coefficients = side // SHARE, low_pass.spectra(image), _transform(image)
    calls: Mapping[str, Callable[[], object]] = {
        "transform": lambda: low_pass.spectra(image),
        "level": lambda: low_pass.limited(spectra, bandwidth),
        "numpy_transform": lambda: _transform(image),
        "numpy_level": lambda: _filtered(coefficients, bandwidth, side),
    }
    return FilterTime(side, **medians(calls, seconds))


def _transform(image: Image) -> NDArray[np.complex128]:
    return np.fft.rfft2(image.astype(np.float64), axes=(0, 1))


def _filtered(coefficients: NDArray[np.complex128], bandwidth: int, side: int) -> Image:
    down, across = np.fft.fftfreq(side, 1 / side), np.fft.rfftfreq(side, 1 / side)
    kept = (down[:, None] ** 2 + across**2 <= bandwidth**2)[:, :, None]
    values = np.fft.irfft2(coefficients * kept, (side, side), axes=(0, 1))
    return np.clip(np.floor(values + (0.5 + 2**-20)), 0, 255).astype(np.uint8)


class FrequencyTime(NamedTuple):
    """Median milliseconds of an image plus one spatial frequency at one side, and of NumPy."""

    side: int
    ours: float
    basis: float
    image: float


def measure_frequencies(image: Image, seconds: float) -> list[FrequencyTime]:
    """Return the times of an image plus one spatial frequency, as ``measure`` does."""
    return [_measured_frequency(prepare(image, [("square", side)]), seconds) for side in PROFILE_SIDES.values()]


def _measured_frequency(image: Image, seconds: float) -> FrequencyTime:
    basis, values = _basis(len(image)), image / 255.0
    calls: Mapping[str, Callable[[], object]] = {
        "ours": lambda: fourier_noise(image, 5, 3, 15.7, (1, -1, 1)),
        "basis": lambda: _basis(len(image)),
        "image": lambda: _plus_basis(values, basis),
    }
    return FrequencyTime(len(image), **medians(calls, seconds))


def _basis(side: int) -> NDArray[np.float64]:
    """Return the basis image of a frequency, by the inverse transform of two coefficients."""
    spectrum = np.zeros((side, side), complex)
    spectrum[5, 3], spectrum[-5, -3] = 1 - 1j, 1 + 1j
    found = np.fft.ifft2(spectrum).real
    return found / np.linalg.norm(found)


def _plus_basis(values: NDArray[np.float64], basis: NDArray[np.float64]) -> Image:
    signs = np.random.choice([-1, 1], 3)
    added = np.clip(values + 15.7 * basis[:, :, None] * signs, 0, 1)
    return np.floor(255 * added + 0.5).astype(np.uint8)


def frequency_table(rows: list[FrequencyTime]) -> str:
    """Return the measurements of images plus one spatial frequency as a table."""
    lines = [
        "### Fourier noise",
        "",
        "| side | robustshards | NumPy: basis | image |",
        "|---:|---:|---:|---:|",
        *(f"| {row.side} | " + " | ".join(f"{time:.3f}" for time in row[1:]) + " |" for row in rows),
        "",
        FOURIER_NOTE,
    ]
    return "\n".join(lines)


def table(rows: list[FilterTime]) -> str:
    """Return the measurements as a table."""
    lines = [
        "### Low-pass filtered images",
        "",
        "| side | transform | each level | NumPy: transform | each level |",
        "|---:|---:|---:|---:|---:|",
        *(f"| {row.side} | " + " | ".join(f"{time:.3f}" for time in row[1:]) + " |" for row in rows),
        "",
        NOTE,
    ]
    return "\n".join(lines)
