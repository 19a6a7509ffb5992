"""Time of a low-pass filtered image: robustshards, and NumPy's Fourier transforms."""

import numpy as np
from numpy.typing import NDArray

from bench.report import section, table
from bench.timing import Call, medians
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


def measure(image: Image, seconds: float) -> str:
    """Return the section of the sides of all profiles. Each call has three turns of ``seconds``."""
    head = ("side", "transform", "each level", "NumPy: transform", "each level")
    rows = (_measured(prepare(image, [("square", side)]), seconds) for side in PROFILE_SIDES.values())
    return section("### Low-pass filtered images", table(head, rows, left=0), NOTE)


def _measured(image: Image, seconds: float) -> tuple[str, ...]:
    side = len(image)
    bandwidth, spectra, coefficients = side // SHARE, low_pass.spectra(image), _transform(image)
    calls: tuple[Call, ...] = (
        lambda: low_pass.spectra(image),
        lambda: low_pass.limited(spectra, bandwidth),
        lambda: _transform(image),
        lambda: _filtered(coefficients, bandwidth, side),
    )
    return str(side), *(f"{time:.3f}" for time in medians(dict(enumerate(calls)), seconds).values())


def _transform(image: Image) -> NDArray[np.complex128]:
    return np.fft.rfft2(image.astype(np.float64), axes=(0, 1))


def _filtered(coefficients: NDArray[np.complex128], bandwidth: int, side: int) -> Image:
    down, across = np.fft.fftfreq(side, 1 / side), np.fft.rfftfreq(side, 1 / side)
    kept = (down[:, None] ** 2 + across**2 <= bandwidth**2)[:, :, None]
    values = np.fft.irfft2(coefficients * kept, (side, side), axes=(0, 1))
    return np.clip(np.floor(values + (0.5 + 2**-20)), 0, 255).astype(np.uint8)
