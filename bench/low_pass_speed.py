"""Time of a low-pass filtered image: robustshards, and NumPy's Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.timing import medians
from corruptions import low_pass
from corruptions.catalogue import PROFILE_SIDES
from corruptions.preparation import prepare

Image = NDArray[np.uint8]

SHARE = 4
"""Measured bandwidth as a fraction of the side: half of the frequencies across. Time hardly depends on it."""

NOTE = (
    "Milliseconds for three channels. The transform is made once per image, and each level from it. NumPy: the same "
    "definition with `numpy.fft.rfft2` and `irfft2`, in float64."
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
