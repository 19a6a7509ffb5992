"""The three corruptions of ImageNet-3DCC that need no depth: sensor noise, low light and fewer bits per value.

Source: Kar, Yeo, Atanov & Zamir, 3D Common Corruptions and Data Augmentation, CVPR 2022.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.candidates.catalogue import Draws, array_of
from corruptions.catalogue import Image, Transform, table
from corruptions.draws import DrawSource
from corruptions.kernels.random.noise import add_noise_to_counts
from corruptions.kernels.random.poisson import MAX_OTHER_TABLES

GROUP = "3dcc-noise"
"""Group of these corruptions."""

MOST = 2**16 - 1
"""Largest photon count that is told apart; more are saturated at every strength."""


@dataclass(frozen=True)
class Sensor:
    """Noise of a sensor: photons that are counted, and electronic noise.

    Attributes:
        photons: Mean photon count of a white value.
        sigma: Standard deviation of the electronic noise, in units of the full range 0..1.
        brightness: Largest brightness after the picture is stretched to 0..1 and squared; None leaves it as it is.
    """

    photons: int
    sigma: float
    brightness: float | None = None


def draw_noise(source: DrawSource, image: Image, parameters: Sensor) -> dict[str, Any]:
    """Draw a photon count and the electronic noise for each value."""
    if parameters.brightness is None:
        photons = source.poisson(image, parameters.photons)
    else:
        low, high = int(image.min()), int(image.max())
        rows = image - np.uint8(low) if low else image
        photons = source.photons(rows, dark_means(low, high, parameters))
    return {"photons": photons, "noise": source.normal(0.0, parameters.sigma, image.shape)}


@lru_cache(maxsize=MAX_OTHER_TABLES)
def dark_means(low: int, high: int, parameters: Sensor) -> NDArray[np.float64]:
    """Return the mean photon counts of levels low..high, in the published order of operations.

    A flat picture becomes black: its quotient 0 / 0 counts as 0. They are cached for this process.
    """
    levels = np.arange(low, high + 1) / 255.0
    stretched = (levels - levels[0]) / (levels[-1] - levels[0]) if high > low else np.zeros(1)
    brightness: Any = parameters.brightness
    return stretched * stretched * brightness * 255 / 255 * parameters.photons


def add_noise(image: Image, parameters: Sensor, draws: Draws) -> Image:
    """Return the counted photons plus the electronic noise, clipped and truncated. Of the image, only the shape counts.

    Sums are computed in the precision of the electronic noise.
    """
    photons = np.asarray(draws["photons"])
    if photons.dtype != np.uint16:
        photons = array_of({"photons": np.clip(photons, 0, MOST)}, "photons", np.uint16, image.shape)
    noise = array_of(draws, "noise", np.floating, image.shape)
    counted = add_noise_to_counts(photons.reshape(-1), parameters.photons, noise.reshape(-1))
    return counted.reshape(image.shape)


def keep_bits(image: Image, bits: int, draws: None) -> Image:
    """Return the image with the other bits of each value set to 0."""
    return image & np.uint8(256 - 2 ** (8 - bits))


ISO_NOISE = [(25, 0.7 * strength) for strength in (0.08, 0.12, 0.18, 0.26, 0.38)]
LOW_LIGHT = [(120, 0.1 * 0.18, brightness) for brightness in (0.6, 0.5, 0.4, 0.3, 0.2)]
KEYS = ("photons", "noise")

CORRUPTIONS: Mapping[str, Transform] = {
    row.name: row
    for row in (
        Transform("iso_noise", 1, GROUP, table(Sensor, imagenet=ISO_NOISE), add_noise, draw_noise, True, KEYS, 1),
        Transform("low_light", 1, GROUP, table(Sensor, imagenet=LOW_LIGHT), add_noise, draw_noise, True, KEYS, 1),
        Transform("color_quant", 1, GROUP, {"imagenet": (5, 4, 3, 2, 1)}, keep_bits, smallest=1),
    )
}
"""Name -> corruption."""
