"""Weather perturbations: snow that rotates, growing brightness and, for validation, spatter that runs down."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corruptions.catalogue import Transform, table
from corruptions.draws import DrawSource
from corruptions.imagemagick import BACKENDS
from corruptions.kernels.colour import color
from corruptions.kernels.drawing import blend
from corruptions.kernels.sampling import zoom
from corruptions.kernels.smoothing import gaussian as smoothing
from corruptions.precipitation import SNOW_GAIN, SNOW_OFFSET, WATER_COLOUR, water_thickness
from perturbations.catalogue import FRAMES, Frames, Indices, stack
from perturbations.kernels import sampling
from perturbations.views import Views

SNOW_THRESHOLD = 0.5
"""Values of the snow layer below this, in 0..1, become 0."""

SNOW_KEPT = 0.85
"""Weight of the original image."""

FIRST_FALL, FALL_STEP = -150.0, 4.0
"""Direction of the snow in the first frame, and its change per frame, in degrees."""


@dataclass(frozen=True)
class Snow:
    """Mean and deviation of the snow layer, its zoom, and its motion blur."""

    loc: float
    scale: float
    zoom: float
    radius: int
    sigma: float
    frames: int = FRAMES
    motion: str = "native"


def rotating_snow(views: Views, parameters: Snow, source: DrawSource, indices: Indices) -> Frames:
    """Return frames with one layer of snow whose direction rotates."""
    height, width, _ = views.base.shape
    part = zoom.centre_crop((height, width), parameters.zoom)
    centre = source.normal(parameters.loc, parameters.scale, (height, width), part)
    layer = zoom.zoom_centre(centre, (height, width), parameters.zoom)
    flakes = blend.threshold_to_uint8(layer, SNOW_THRESHOLD)

    def frame(index: int) -> NDArray[np.uint8]:
        angle = FIRST_FALL + FALL_STEP * index
        blurred = BACKENDS[parameters.motion](flakes, parameters.radius, parameters.sigma, angle)
        return blend.add_snow(views.base, blurred, SNOW_KEPT, SNOW_GAIN, SNOW_OFFSET)

    return stack(views, indices, frame)


BRIGHTNESS_MIDDLE = 15
"""Index of the frame with the brightness of the image."""


@dataclass(frozen=True)
class Brightness:
    """Change of the HSV value per frame, in percent of the full range."""

    step: float
    frames: int = FRAMES


def growing_brightness(views: Views, parameters: Brightness, source: DrawSource, indices: Indices) -> Frames:
    """Return frames from darker to brighter. Each converts colours again, which is faster than reading stored hues."""
    return stack(
        views, indices, lambda index: color.shift_value(views.base, (index - BRIGHTNESS_MIDDLE) * parameters.step / 100)
    )


WATER_AMOUNT = np.float32(0.6)
"""Strength of the water."""


@dataclass(frozen=True)
class DrippingWater:
    """Mean and deviation of the layer, its smoothing and threshold, and the weights with which columns run down."""

    loc: float
    scale: float
    sigma: float
    threshold: float
    drip: tuple[float, ...]
    frames: int = FRAMES


def dripping_spatter(views: Views, parameters: DrippingWater, source: DrawSource, indices: Indices) -> Frames:
    """Return frames with drops of water that run down. A frame needs the layer of the frame before it."""
    height, width, channels = views.base.shape
    pixels = views.base.reshape(height, width * channels)
    layer = smoothing.smooth_plane(source.normal(parameters.loc, parameters.scale, (height, width)), parameters.sigma)
    layer[layer < parameters.threshold] = 0
    weights = np.array(parameters.drip)
    out = np.empty((len(indices), *views.base.shape), np.uint8)
    positions = {index: position for position, index in enumerate(indices)}
    for index in range(max(indices) + 1):
        if index in positions:
            drops = blend.threshold_to_uint8_wrapping(layer, layer.dtype.type(0))
            wet = blend.add_water(pixels, drops, water_thickness(drops), WATER_AMOUNT, WATER_COLOUR)
            out[positions[index]] = wet.reshape(views.base.shape)
        layer = sampling.drip(layer, weights)
    return out


SNOW = table(
    Snow,
    imagenet=[(0.05, 0.3, 3, 14, 4)],
    inception=[(0.05, 0.3, 3, 14, 4)],
    tiny=[(0.05, 0.28, 2, 10, 2.5)],
    cifar=[(0.05, 0.3, 2, 10, 2)],
)
BRIGHTNESS = table(Brightness, imagenet=[(2.0,)], inception=[(2.0,)], tiny=[(2.0,)], cifar=[(1.5,)])

LONG_DRIP, SHORT_DRIP = (0.05, 0.1, 0.15, 0.7), (0.2, 0.8)
"""Weights with which drops run down per frame, on large and on small images."""

SPATTER = table(
    DrippingWater,
    imagenet=[(0.65, 0.27, 3.7, 0.69, LONG_DRIP)],
    inception=[(0.65, 0.3, 4, 0.69, LONG_DRIP)],
    tiny=[(0.6, 0.25, 1.75, 0.7, SHORT_DRIP)],
    cifar=[(0.6, 0.265, 1.75, 0.7, SHORT_DRIP)],
)

PERTURBATIONS = (
    Transform("snow", 2, "weather", SNOW, rotating_snow),
    Transform("brightness", 1, "weather", BRIGHTNESS, growing_brightness),
    Transform("spatter", 2, "weather", SPATTER, dripping_spatter, benchmark=False),
)
