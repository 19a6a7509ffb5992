"""Noise corruptions: Gaussian, shot (Poisson), impulse (salt and pepper) and, in the extra group, speckle."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from corruptions.catalogue import Image, Transform, table
from corruptions.draws import DrawSource
from corruptions.kernels.random import noise


@dataclass(frozen=True)
class Sigma:
    """Standard deviation, in units of the full range 0..1."""

    sigma: float


@dataclass(frozen=True)
class Photons:
    """Mean photon count of a white value."""

    lam: float


@dataclass(frozen=True)
class Amount:
    """Fraction of the values that are replaced, 0..1."""

    amount: float


def draw_normal(source: DrawSource, image: Image, parameters: Sigma) -> NDArray[np.floating]:
    """Draw one normal number for each value of the image."""
    return source.normal(0.0, parameters.sigma, image.shape)


def add_gaussian(image: Image, parameters: Sigma, draws: NDArray[np.floating]) -> Image:
    """Return the image plus the drawn noise, clipped and truncated to 8 bits."""
    return noise.add_noise(image.reshape(-1), draws.reshape(-1)).reshape(image.shape)


GAUSSIAN_NOISE = table(
    Sigma,
    imagenet=[(0.08,), (0.12,), (0.18,), (0.26,), (0.38,)],
    inception=[(0.09,), (0.13,), (0.19,), (0.27,), (0.4,)],
    tiny=[(0.04,), (0.08,), (0.12,), (0.15,), (0.18,)],
    cifar=[(0.04,), (0.06,), (0.08,), (0.09,), (0.1,)],
)


def draw_photons(source: DrawSource, image: Image, parameters: Photons) -> NDArray[np.integer]:
    """Draw one photon count for each value of the image. The image is the mean of the counts."""
    return source.poisson(image, parameters.lam)


def photons_to_image(image: Image, parameters: Photons, draws: NDArray[np.integer]) -> Image:
    """Return the drawn photon counts as an image.

    Args:
        image: uint8 RGB (H, W, 3). Only its shape is used: its values are already the means of the counts.
        parameters: Mean photon count of a white value.
        draws: Photon counts, (H, W, 3).

    Returns:
        A new uint8 RGB array (H, W, 3).
    """
    return noise.lookup_levels(draws.reshape(-1), photon_levels(parameters.lam)).reshape(image.shape)


@lru_cache(maxsize=64)
def photon_levels(lam: float) -> NDArray[np.uint8]:
    """Return the level 0..255 of each photon count, up to the first saturated count."""
    counts = np.arange(int(np.ceil(lam)) + 1)
    return (np.clip(counts / lam, 0, 1) * 255).astype(np.uint8)


SHOT_NOISE = table(
    Photons,
    imagenet=[(60,), (25,), (12,), (5,), (3,)],
    inception=[(50,), (20,), (10,), (5,), (3,)],
    tiny=[(250,), (100,), (50,), (30,), (15,)],
    cifar=[(500,), (250,), (100,), (75,), (50,)],
)


def draw_impulses(source: DrawSource, image: Image, parameters: Amount) -> NDArray[np.uint8]:
    """Draw for each value of each channel whether it is kept (0), pepper (1) or salt (2)."""
    return source.salt_and_pepper(parameters.amount, image.shape)


def add_impulses(image: Image, parameters: Amount, draws: NDArray[np.uint8]) -> Image:
    """Return the image with the selected values set to black or white."""
    return noise.set_impulses(image.reshape(-1), draws.reshape(-1)).reshape(image.shape)


IMPULSE_NOISE = table(
    Amount,
    imagenet=[(0.03,), (0.06,), (0.09,), (0.17,), (0.27,)],
    inception=[(0.04,), (0.07,), (0.1,), (0.18,), (0.28,)],
    tiny=[(0.01,), (0.02,), (0.05,), (0.08,), (0.14,)],
    cifar=[(0.01,), (0.02,), (0.03,), (0.05,), (0.07,)],
)


def add_speckle(image: Image, parameters: Sigma, draws: NDArray[np.floating]) -> Image:
    """Return the image plus the image times the drawn noise, clipped and truncated to 8 bits."""
    return noise.multiply_noise(image.reshape(-1), draws.reshape(-1)).reshape(image.shape)


SPECKLE_NOISE = table(
    Sigma,
    imagenet=[(0.15,), (0.2,), (0.35,), (0.45,), (0.6,)],
    inception=[(0.16,), (0.21,), (0.36,), (0.46,), (0.61,)],
    tiny=[(0.15,), (0.2,), (0.25,), (0.3,), (0.35,)],
    cifar=[(0.06,), (0.1,), (0.12,), (0.16,), (0.2,)],
)

CORRUPTIONS: tuple[Transform, ...] = (
    Transform("gaussian_noise", 1, "noise", GAUSSIAN_NOISE, add_gaussian, draw_normal),
    Transform("shot_noise", 1, "noise", SHOT_NOISE, photons_to_image, draw_photons),
    Transform("impulse_noise", 1, "noise", IMPULSE_NOISE, add_impulses, draw_impulses),
    Transform("speckle_noise", 1, "noise", SPECKLE_NOISE, add_speckle, draw_normal, benchmark=False),
)
