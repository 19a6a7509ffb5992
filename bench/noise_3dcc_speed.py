"""Time of the corruptions of ImageNet-3DCC that need no depth: robustshards, and the published arithmetic in NumPy."""

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
from corruptions.catalogue import SEVERITIES
from corruptions.noise_3dcc import CORRUPTIONS, Sensor

Image = NDArray[np.uint8]


def measure(image: Image, seconds: float) -> list[BarTime]:
    """Return the times of the corruptions. Each call has three turns of ``seconds`` per severity."""
    return [_measured(image, name, seconds) for name in CORRUPTIONS]


def _measured(image: Image, name: Any, seconds: float) -> BarTime:
    times = []
    for severity in SEVERITIES:
        seeds, corrupt = count(), corruptions.corruptor(name, severity)
        parameters, rng = CORRUPTIONS[name].parameters("imagenet", severity), RandomState(severity)
        published = (
            partial(_noisy, image, parameters, rng)
            if isinstance(parameters, Sensor)
            else partial(np.bitwise_and, image, np.uint8(256 - 2 ** (8 - parameters)))
        )
        times.append(medians({OURS: lambda: corrupt(image, next(seeds)), PUBLISHED: published}, seconds))  # noqa: B023
    return BarTime(name, *(float(np.mean([each[who] for each in times])) for who in (OURS, PUBLISHED)))


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
    return times_table("ImageNet-3DCC without depth, 224 x 224", rows, NOTE)


NOTE = f"Milliseconds, means over five severities, draws included. {PUBLISHED} is the published arithmetic."
