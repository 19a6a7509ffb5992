"""Weather corruptions: snow and spatter (from ``precipitation``), frost, fog and brightness."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions import precipitation, textures
from corruptions.catalogue import DETECTION_SIDE, Image, Transform, table, with_detection
from corruptions.draws import DrawSource
from corruptions.kernels.colour import color
from corruptions.kernels.drawing import blend, fog

DRAWN_TEXTURES = 5
"""Quirk: the published scripts list six textures but draw from the first five."""


@dataclass(frozen=True)
class Frost:
    """Weights of image and texture, scale of the texture, and folder of the textures (None: the installed package).

    ``enlarged``: every texture is enlarged, by cubic interpolation.
    """

    keep: float
    add: float
    scale: float = 1.0
    frost_folder: str | None = None
    enlarged: bool = False


class FrostDraws(NamedTuple):
    """Index of the texture, and the top left corner in pixels of the part that is used."""

    texture: int
    row: int
    column: int


def draw_frost(source: DrawSource, image: Image, parameters: Frost) -> FrostDraws:
    """Draw a texture and a part of it as large as the image."""
    index = source.integer(0, DRAWN_TEXTURES)
    texture = textures.load(parameters.frost_folder, index, parameters.scale)
    rows, columns = textures.covering_shape(texture.shape[:2], image.shape[:2], parameters.enlarged)
    row = source.integer(0, rows - image.shape[0])
    return FrostDraws(index, row, source.integer(0, columns - image.shape[1]))


def add_frost(image: Image, parameters: Frost, draws: FrostDraws) -> Image:
    """Return the image blended with a part of a frost texture."""
    texture = textures.load(parameters.frost_folder, draws.texture, parameters.scale)
    height, width, channels = image.shape
    place = draws.row, draws.column
    layer, row, column = textures.covering_part(texture, (height, width), place, parameters.enlarged)
    pixels, frost = image.reshape(height, -1), layer.reshape(layer.shape[0], -1)
    keep, add = float(parameters.keep), float(parameters.add)
    return blend.add_frost(pixels, frost, row, column * channels, keep, add).reshape(image.shape)


FROST = table(
    Frost,
    imagenet=[(1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)],
    inception=[(1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)],
    tiny=[(1, 0.3, 0.3), (0.9, 0.4, 0.3), (0.8, 0.45, 0.3), (0.75, 0.5, 0.3), (0.7, 0.55, 0.3)],
    cifar=[(1, 0.2, 0.2), (1, 0.3, 0.2), (0.9, 0.4, 0.2), (0.85, 0.4, 0.2), (0.75, 0.45, 0.2)],
)

LARGEST_MAP = 8192
"""Largest side in pixels of the height map. It is square for any image, and its memory is proportional to its area."""


@dataclass(frozen=True)
class Fog:
    """Thickness, decay of the roughness per octave, and smallest side of the height map in pixels (a power of two)."""

    amount: float
    decay: float
    map_side: int = 256


def map_side(image: Image, parameters: Fog) -> int:
    """Return the published side of the height map, or the next power of two that covers a larger image.

    Raises:
        ValueError: If this is more than LARGEST_MAP.
    """
    side = parameters.map_side
    while side < max(image.shape[:2]):
        side *= 2
    if side > LARGEST_MAP:
        rows, columns = image.shape[:2]
        raise ValueError(f"fog needs sides of at most {LARGEST_MAP} pixels, not {rows} x {columns}: resize the image")
    return side


def draw_heights(source: DrawSource, image: Image, parameters: Fog) -> NDArray[np.floating]:
    """Draw one uniform number for each point of the height map except its first corner.

    Numbers for coarse points come first, as in the published scripts.
    """
    side = map_side(image, parameters)
    return source.uniform(0.0, 1.0, (side * side - 1,))


def add_fog(image: Image, parameters: Fog, draws: NDArray[np.floating]) -> Image:
    """Return the image blended with fog."""
    return fog.fog(image, draws, map_side(image, parameters), parameters.amount, parameters.decay)


FOG = table(
    Fog,
    imagenet=[(1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)],
    inception=[(1.5, 2, 512), (2, 2, 512), (2.5, 1.8, 512), (2.5, 1.6, 512), (3, 1.5, 512)],
    tiny=[(0.4, 3, 64), (0.7, 3, 64), (1, 2.5, 64), (1.5, 2, 64), (2, 1.75, 64)],
    cifar=[(0.2, 3, 32), (0.5, 3, 32), (0.75, 2.5, 32), (1, 2, 32), (1.5, 1.75, 32)],
)


@dataclass(frozen=True)
class Brightness:
    """Amount added to the HSV value, 0..1."""

    c: float


def brighten(image: Image, parameters: Brightness, draws: None) -> Image:
    """Return the image with its HSV value increased."""
    return color.shift_value(image, parameters.c)


BRIGHTNESS = table(
    Brightness,
    imagenet=[(0.1,), (0.2,), (0.3,), (0.4,), (0.5,)],
    inception=[(0.1,), (0.2,), (0.3,), (0.4,), (0.5,)],
    tiny=[(0.1,), (0.2,), (0.3,), (0.4,), (0.5,)],
    cifar=[(0.05,), (0.1,), (0.15,), (0.2,), (0.3,)],
)

CORRUPTIONS: tuple[Transform, ...] = (
    Transform(
        "snow",
        2,
        "weather",
        with_detection(precipitation.SNOW, floats=True),
        precipitation.add_snow,
        precipitation.draw_snow,
    ),
    Transform("frost", 1, "weather", with_detection(FROST, enlarged=True), add_frost, draw_frost),
    Transform("fog", 2, "weather", with_detection(FOG, map_side=DETECTION_SIDE), add_fog, draw_heights),
    Transform("brightness", 1, "weather", BRIGHTNESS, brighten),
    Transform(
        "spatter",
        2,
        "weather",
        with_detection(precipitation.SPATTER, precise=True),
        precipitation.spatter,
        precipitation.draw_drops,
        benchmark=False,
    ),
)
