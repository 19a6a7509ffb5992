"""Time of ImageNet-3DCC's noise, ImageNet-W's watermark and a spatial frequency: robustshards, and plain NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

import corruptions
from bench.c_bar_speed import OURS, PUBLISHED, BarTime
from bench.c_bar_speed import table as times_table
from bench.timing import medians
from corruptions import noise_3dcc, watermark
from corruptions.noise_3dcc import Sensor

Image = NDArray[np.uint8]
ROWS = {**noise_3dcc.CORRUPTIONS, **watermark.CORRUPTIONS}


def measure(image: Image, seconds: float) -> list[BarTime]:
    """Return the times of the corruptions. Each call has three turns of ``seconds`` per severity."""
    return [*(_measured(image, name, seconds) for name in ROWS), _frequency(image, seconds)]


def _measured(image: Image, name: Any, seconds: float) -> BarTime:
    times = []
    for severity in ROWS[name].numbers:
        seeds, corrupt = count(), corruptions.corruptor(name, severity)
        parameters, rng = ROWS[name].parameters("imagenet", severity), RandomState(severity)
        published = partial(_published, image, parameters, rng)
        times.append(medians({OURS: lambda: corrupt(image, next(seeds)), PUBLISHED: published}, seconds))  # noqa: B023
    return BarTime(name, *(float(np.mean([each[who] for each in times])) for who in (OURS, PUBLISHED)))


def _frequency(image: Image, seconds: float) -> BarTime:
    """Return the times of adding a spatial frequency. NumPy has its basis image from an inverse transform."""
    spectrum = np.zeros(image.shape[:2], complex)
    spectrum[5, 3], spectrum[-5, -3] = 1 - 1j, 1 + 1j
    found = np.fft.ifft2(spectrum).real
    basis = found / np.linalg.norm(found)

    def published() -> Image:
        added = image / 255 + 15.7 * basis[:, :, None] * np.random.choice([-1, 1], 3)
        return np.floor(255 * np.clip(added, 0, 1) + 0.5).astype(np.uint8)

    ours = partial(corruptions.fourier_noise, image, 5, 3, 15.7, (1, -1, 1))
    return BarTime("fourier_noise", *medians({OURS: ours, PUBLISHED: published}, seconds).values())


def _published(image: Image, parameters: Any, rng: RandomState) -> Image:
    """Return the image in the published arithmetic on whole arrays."""
    if isinstance(parameters, Sensor):
        return _noisy(image, parameters, rng)
    if parameters is not None:
        return image & np.uint8(256 - 2 ** (8 - parameters))
    alpha = watermark.mask(len(image))[:, :, None] / 255
    return np.rint(image * (1 - alpha) + 255 * alpha).astype(np.uint8)


def _noisy(image: Image, parameters: Sensor, rng: RandomState) -> Image:
    """Return the image with the noise of a sensor, in the published arithmetic on whole arrays."""
    levels = image / 255
    if parameters.brightness is not None:
        low, high = levels.min(), levels.max()
        levels = ((levels - low) / (high - low)) ** 2 * parameters.brightness * 255 / 255
    counted = np.clip(rng.poisson(levels * parameters.photons) / parameters.photons, 0, 1) * 255
    noise = rng.normal(size=image.shape, scale=parameters.sigma)
    return (np.clip(counted / 255 + noise, 0, 1) * 255).astype(np.uint8)


def table(rows: Sequence[BarTime]) -> str:
    """Return the table."""
    return times_table("ImageNet-3DCC without depth, ImageNet-W and Fourier noise, 224 x 224", rows, NOTE)


NOTE = f"Milliseconds, means over the severities, draws included. {PUBLISHED} is the published arithmetic."
