"""Snow, and spatter of water or mud."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from corruptions.catalogue import Image, table
from corruptions.draws import DrawSource
from corruptions.imagemagick import BACKENDS
from corruptions.kernels.drawing import blend, distance, edges
from corruptions.kernels.sampling import zoom
from corruptions.kernels.smoothing import gaussian as smoothing
from corruptions.kernels.smoothing import motion
from corruptions.margins import with_margins

MIN_FALL, MAX_FALL = -135.0, -45.0
"""Range in degrees from which the direction of the snow is drawn."""

SNOW_GAIN, SNOW_OFFSET = 1.5, 0.5
"""The image is blended with its grey value times the gain plus the offset, both for values in 0..1."""


@dataclass(frozen=True)
class Snow:
    """Mean and deviation of the snow layer, its zoom, threshold and motion blur, and the weight of the input image.

    ``floats``: the whole zoom is blurred in floats, and then cut at the top left.
    """

    loc: float
    scale: float
    zoom: float
    threshold: float
    radius: int
    sigma: float
    mix: float
    motion: str = "native"
    floats: bool = False


class SnowDraws(NamedTuple):
    """The part of the layer that the zoom reads, (h, w), and the direction of the snow in degrees."""

    centre: NDArray[Any]
    angle: float


def draw_snow(source: DrawSource, image: Image, parameters: Snow) -> SnowDraws:
    """Draw the direction and the layer. Only the centre of the layer is returned, because the zoom reads only that."""
    height, width, _ = image.shape
    part = zoom.centre_crop((height, width), parameters.zoom)
    centre = source.normal(parameters.loc, parameters.scale, (height, width), part)
    return SnowDraws(centre, source.angle(MIN_FALL, MAX_FALL))


def add_snow(image: Image, parameters: Snow, draws: SnowDraws) -> Image:
    """Return the image, whitened, with blurred snowflakes and the same snowflakes rotated by 180 degrees added."""
    height, width, _ = image.shape
    layer = zoom.zoom_centre(draws.centre, (height, width), parameters.zoom, parameters.floats)
    if parameters.floats:
        flakes = blend.threshold_layer(layer, parameters.threshold)
        blurred = motion.layer_blur(flakes, (height, width), parameters.radius, parameters.sigma, draws.angle)
    else:
        flakes = blend.threshold_to_uint8(layer, parameters.threshold)
        blurred = BACKENDS[parameters.motion](flakes, parameters.radius, parameters.sigma, draws.angle)
    return blend.add_snow(image, blurred, parameters.mix, SNOW_GAIN, SNOW_OFFSET)


LARGE_SNOW = [
    (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
    (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
    (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
    (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
    (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
]
"""Parameters for large images."""

SNOW = table(
    Snow,
    imagenet=LARGE_SNOW,
    inception=LARGE_SNOW,
    tiny=[
        (0.1, 0.2, 1, 0.6, 8, 3, 0.8),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.8),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.7),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.65),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.6),
    ],
    cifar=[
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ],
)

WATER, MUD = 0, 1
"""The kinds of spatter."""

WATER_COLOUR, MUD_COLOUR = np.array([[175, 238, 238], [63, 42, 20]], np.float32) / np.float32(255)
"""RGB colours, 0..1."""
PRECISE_MUD_COLOUR = np.array([63, 42, 20]) / 255.0
"""That of mud in float64, in which imagecorruptions adds it."""

CANNY_LOW, CANNY_HIGH = np.int16(50), np.int16(150)
"""Thresholds of the edge detector."""
MAX_DISTANCE = 20
"""Distance from an edge in pixels beyond which the water gets no thicker."""

BOX = (3, 3)
"""Size of the box blur in pixels."""

MUD_THRESHOLD = np.float32(0.8)
"""Smoothed mud below this value is removed."""


@dataclass(frozen=True)
class Spatter:
    """Mean and deviation of the layer, its smoothing and threshold, strength of water or sigma of mud, and the kind.

    ``precise``: the colour of mud has float64.
    """

    loc: float
    scale: float
    sigma: float
    threshold: float
    amount: float
    kind: int
    precise: bool = False


def draw_drops(source: DrawSource, image: Image, parameters: Spatter) -> NDArray[np.floating]:
    """Draw one normal number per pixel."""
    return source.normal(parameters.loc, parameters.scale, image.shape[:2])


def spatter(image: Image, parameters: Spatter, draws: NDArray[np.floating]) -> Image:
    """Return the image covered with drops of water or splashes of mud."""
    layer = smoothing.smooth_plane(draws, parameters.sigma)
    pixels = image.reshape(image.shape[0], -1)
    if parameters.kind == MUD:
        coverage = smoothing.smooth_plane(layer > parameters.threshold, parameters.amount, np.float64)
        colour = PRECISE_MUD_COLOUR if parameters.precise else MUD_COLOUR
        return blend.add_mud(pixels, coverage, MUD_THRESHOLD, colour).reshape(image.shape)
    drops = blend.threshold_to_uint8_wrapping(layer, parameters.threshold)
    wet: Image = blend.add_water(pixels, drops, water_thickness(drops), np.float32(parameters.amount), WATER_COLOUR)
    return wet.reshape(image.shape)


def water_thickness(drops: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the relief of the water, uint8 (H, W).

    It is the distance to the outlines of the drops, after histogram equalisation, embossing and a box blur.
    """
    outlines = edges.canny_edges(with_margins(drops, 1, 1, cv2.BORDER_REPLICATE), CANNY_LOW, CANNY_HIGH)
    distances = distance.mean_distances(distance.edge_distances(outlines, MAX_DISTANCE))
    return np.asarray(cv2.blur(distance.emboss_equalized(distances), BOX), np.uint8)


SPATTER = table(
    Spatter,
    imagenet=[
        (0.65, 0.3, 4, 0.69, 0.6, WATER),
        (0.65, 0.3, 3, 0.68, 0.6, WATER),
        (0.65, 0.3, 2, 0.68, 0.5, WATER),
        (0.65, 0.3, 1, 0.65, 1.5, MUD),
        (0.67, 0.4, 1, 0.65, 1.5, MUD),
    ],
    inception=[
        (0.65, 0.3, 4, 0.69, 0.9, WATER),
        (0.65, 0.3, 3.5, 0.68, 0.9, WATER),
        (0.65, 0.3, 3, 0.68, 0.8, WATER),
        (0.65, 0.3, 1.2, 0.65, 1.8, MUD),
        (0.67, 0.4, 1.2, 0.65, 1.8, MUD),
    ],
    tiny=[
        (0.62, 0.1, 0.7, 0.7, 0.6, WATER),
        (0.65, 0.1, 0.8, 0.7, 0.6, WATER),
        (0.65, 0.3, 1, 0.69, 0.6, WATER),
        (0.65, 0.1, 0.7, 0.68, 0.6, MUD),
        (0.65, 0.1, 0.5, 0.67, 0.6, MUD),
    ],
    cifar=[
        (0.62, 0.1, 0.7, 0.7, 0.5, WATER),
        (0.65, 0.1, 0.8, 0.7, 0.5, WATER),
        (0.65, 0.3, 1, 0.69, 0.5, WATER),
        (0.65, 0.1, 0.7, 0.69, 0.6, MUD),
        (0.65, 0.1, 0.5, 0.68, 0.6, MUD),
    ],
)
