"""Candidates that add noise to the levels of an image, or multiply them by noise."""

import math
from typing import Any

import numpy as np

from corruptions.candidates.catalogue import Draws, array_of
from corruptions.catalogue import Image
from corruptions.draws import DrawSource
from corruptions.kernels.random.noise import add_to_levels, multiply_pixels

MIN_VARIANCE, MAX_VARIANCE = 500.0, 1000.0
"""Range of the variance of Gaussian noise, in squared levels."""


def draw_gauss(source: DrawSource, image: Image, setting: None) -> dict[str, Any]:
    """Draw a variance, and normal noise in levels for each value."""
    deviation = math.sqrt(source.angle(MIN_VARIANCE, MAX_VARIANCE))
    return {"gauss": source.normal(0.0, deviation, image.shape)}


def add_gauss(image: Image, setting: None, draws: Draws) -> Image:
    """Return image plus noise, clipped and truncated."""
    gauss = array_of(draws, "gauss", np.floating, image.shape)
    return add_to_levels(image.reshape(-1), gauss.reshape(-1)).reshape(image.shape)


MIN_MULTIPLIER, MAX_MULTIPLIER = 0.7, 1.3
"""Range of the factors of multiplicative noise."""


def draw_multiplier(source: DrawSource, image: Image, setting: None) -> dict[str, Any]:
    """Draw a factor for each pixel, which all of its channels share."""
    return {"multiplier": source.uniform(MIN_MULTIPLIER, MAX_MULTIPLIER, (*image.shape[:2], 1))}


def multiply(image: Image, setting: None, draws: Draws) -> Image:
    """Return image times noise, clipped and truncated."""
    multiplier = array_of(draws, "multiplier", np.floating, (*image.shape[:2], 1))
    return multiply_pixels(image.reshape(-1), multiplier.reshape(-1)).reshape(image.shape)
