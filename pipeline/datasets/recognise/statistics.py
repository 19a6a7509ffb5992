"""Statistics of a corrupted image beside its clean one, which do not depend on what was drawn, and their distance."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]
Floats = NDArray[np.floating]

LUMA = np.array([0.299, 0.587, 0.114], np.float32)

OCTAVES = 6
"""Number of frequency bands, each an octave, up to the Nyquist frequency. What is below is one more band."""

QUANTILES = (25, 50, 75, 95, 99)
"""Percentiles of the change of a pixel."""

SMALL = 0.3
"""Power of a change of a pixel, in 8-bit levels squared, below which powers do not matter: rounding has 1/12."""

SPREAD = 0.03
"""Differences of statistics that count as none: those of library versions, of about 3 % of an amplitude."""

SHRINKAGE = 0.3
"""Part of the covariance of draws that is reduced to its diagonal, because there are few draws."""


class View(NamedTuple):
    """What the statistics of an image need of it.

    Attributes:
        pixels: float32 (H, W, 3), 0..255.
        luma: float32 (H, W).
        spectrum: Its Fourier transform under a Hann window, mean removed.
    """

    pixels: Floats
    luma: Floats
    spectrum: NDArray[np.complexfloating]


@lru_cache(maxsize=8)
def _window(height: int, width: int) -> tuple[Floats, NDArray[np.integer], NDArray[np.integer]]:
    """Return the window, the band of each frequency, and the number of frequencies in each band."""
    window = np.outer(np.hanning(height), np.hanning(width)).astype(np.float32)
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
    edges = 0.5 * 2.0 ** -np.arange(OCTAVES - 1, 0, -1.0)
    band = np.digitize(frequency, edges).ravel()
    window /= np.sqrt((window**2).sum())
    return window, band, np.bincount(band, minlength=OCTAVES)


def view(image: Image) -> View:
    """Return what the statistics of an image need, uint8 (H, W, 3)."""
    pixels = image.astype(np.float32)
    luma = pixels @ LUMA
    window, _, _ = _window(*luma.shape)
    return View(pixels, luma, np.fft.rfft2((luma - luma.mean()) * window))


def statistics(image: View, clean: View) -> Floats:
    """Return the statistics of an image beside its clean one, of the same size: float64, of about equal scale.

    By octave: power of the change, ratio of the powers, and the transfer (the part of the clean image that is left).
    Then means and power of the change by colour, contrast, quantiles and skewness of the change, direction of edges,
    and dependence of the change on the brightness.
    """
    red, green, blue = np.moveaxis(image.pixels - clean.pixels, 2, 0)
    grey = image.luma - clean.luma
    _, band, count = _window(*grey.shape)

    def by_band(values: Floats) -> Floats:
        return np.bincount(band, values.ravel(), OCTAVES) / np.maximum(count, 1)

    power, before = by_band(np.abs(image.spectrum) ** 2), by_band(np.abs(clean.spectrum) ** 2)
    changed = by_band(np.abs(image.spectrum - clean.spectrum) ** 2)
    common = by_band((image.spectrum * clean.spectrum.conj()).real)
    down, across = np.diff(image.luma, axis=0)[:, :-1], np.diff(image.luma, axis=1)[:-1]
    vertical, horizontal = (down**2).mean() + SMALL, (across**2).mean() + SMALL
    standard = (grey - grey.mean()) / (grey.std() + 1)
    return np.concatenate(
        [
            _log(changed),
            _log(power) - _log(before),
            common / (before + SMALL),
            _log(np.array([((red - green) ** 2).mean(), ((blue - green) ** 2).mean()])),
            np.array([red.mean(), green.mean(), blue.mean()]) / 32,
            np.log(np.percentile(np.abs(grey), QUANTILES) + 1),
            [
                np.log((image.luma.std() + 1) / (clean.luma.std() + 1)),
                np.clip((standard * standard * standard).mean(), -5, 5),  # ** 3 takes 70 times as long
                np.log(horizontal / vertical) / 2,
                2 * (down * across).mean() / (horizontal + vertical),
                _correlation(np.abs(grey), clean.luma),
                _correlation(grey, clean.luma),
            ],
        ]
    )


def _log(power: Floats) -> Floats:
    """Return the logarithms of amplitudes."""
    return np.log(power + SMALL) / 2


def _correlation(one: Floats, other: Floats) -> float:
    one, other = one - one.mean(), other - other.mean()
    return float((one * other).mean() / np.sqrt(((one**2).mean() + 1) * ((other**2).mean() + 1)))


def deviations(theirs: Floats, ours: Floats) -> Floats:
    """Return how far the mean statistics of images are from those of our own, by level, about 1 for other draws.

    The distance is that of Mahalanobis, divided by the root of the number of statistics. The covariance is that of our
    draws of the same photograph, at the level and its neighbours, so that photographs need not be alike.

    Args:
        theirs: Statistics (N, K) of N images.
        ours: Statistics (levels, N, draws, K) of our own of the same photographs.
    """
    levels, images, draws, count = ours.shape
    noise = ours - ours.mean(2, keepdims=True)
    found = []
    for level in range(levels):
        near = noise[max(level - 1, 0) : level + 2].reshape(-1, count)
        covariance = near.T @ near / max(len(near) * (draws - 1) / draws, 1)
        covariance = (1 - SHRINKAGE) * covariance + SHRINKAGE * np.diag(np.diag(covariance))
        total = covariance * (1 + 1 / draws) / images + SPREAD**2 * np.eye(count)
        mean = (theirs - ours[level].mean(1)).mean(0)
        found.append(np.sqrt(mean @ np.linalg.solve(total, mean) / count))
    return np.array(found)


def registered(theirs: Sequence[View], ours: Sequence[View]) -> tuple[int, int]:
    """Return by how many rows and columns images are shifted against others of their size, by phase correlation.

    The correlations of all pairs are added up, since corruptions move pixels, too.
    """
    height, width = theirs[0].luma.shape
    total = np.zeros((height, width))
    for one, other in zip(theirs, ours, strict=True):
        cross = one.spectrum * other.spectrum.conj()
        total += np.fft.irfft2(cross / (np.abs(cross) + 0.01 * np.abs(cross).max()), total.shape)
    down, across = divmod(int(total.argmax()), width)
    return (down + height // 2) % height - height // 2, (across + width // 2) % width - width // 2
