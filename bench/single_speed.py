"""Time of ImageNet-3DCC's noise, ImageNet-W's watermark and a spatial frequency: robustshards, and plain NumPy."""

from functools import partial
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

import corruptions
from bench.c_bar_speed import PUBLISHED, Times, times_of, times_section
from bench.timing import Call, with_seeds
from corruptions import noise_3dcc, watermark
from corruptions.noise_3dcc import Sensor

Image = NDArray[np.uint8]
NOTE = f"Milliseconds, means over the severities, draws included. {PUBLISHED} is the published arithmetic."
ROWS = {**noise_3dcc.CORRUPTIONS, **watermark.CORRUPTIONS}


def measure(image: Image, seconds: float) -> str:
    """Return the section of the corruptions. Each call has three turns of ``seconds`` per severity."""

    def calls(name: Any, severity: Any) -> tuple[Call, Call]:
        corrupt, parameters = corruptions.corruptor(name, severity), ROWS[name].parameters("imagenet", severity)
        ours = with_seeds(lambda seed: corrupt(image, seed))
        return ours, partial(_published, image, parameters, RandomState(severity))

    rows = [times_of(name, partial(calls, name), seconds, ROWS[name].numbers) for name in ROWS]
    rows.append(_frequency(image, seconds))
    return times_section("ImageNet-3DCC without depth, ImageNet-W and Fourier noise, 224 x 224", rows, NOTE)


def _frequency(image: Image, seconds: float) -> Times:
    """Return the times of adding a spatial frequency. NumPy has its basis image from an inverse transform."""
    spectrum = np.zeros(image.shape[:2], complex)
    spectrum[5, 3], spectrum[-5, -3] = 1 - 1j, 1 + 1j
    found = np.fft.ifft2(spectrum).real
    basis = found / np.linalg.norm(found)

    def published() -> Image:
        added = image / 255 + 15.7 * basis[:, :, None] * np.random.choice([-1, 1], 3)
        return np.floor(255 * np.clip(added, 0, 1) + 0.5).astype(np.uint8)

    ours = partial(corruptions.fourier_noise, image, 5, 3, 15.7, (1, -1, 1))
    return times_of("fourier_noise", lambda _: (ours, published), seconds, [None])


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
