"""Candidates that imitate weather and light."""

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.candidates.catalogue import Draws, array_of
from corruptions.candidates.colour import LEVELS, WHITE
from corruptions.candidates.filters import box_mean
from corruptions.catalogue import Image
from corruptions.draws import DrawSource
from corruptions.elementary import cos_sin
from corruptions.kernels.colour import hsv_hls
from corruptions.kernels.drawing import overlays, rasters

Point = tuple[int, int]
"""Column and row, x and y. It may be outside of the image."""


def draw_points(source: DrawSource, count: int, x: tuple[int, int], y: tuple[int, int]) -> list[Point]:
    """Draw points, uniformly in ranges of columns and rows that include both ends."""
    columns = source.integers(x[0], x[1] + 1, (count,)).tolist()
    rows = source.integers(y[0], y[1] + 1, (count,)).tolist()
    return list(zip(columns, rows, strict=True))


def map_lightness(image: Image, tables: NDArray[np.uint8], choice: NDArray[np.uint8]) -> Image:
    """Return the image with the lightness of 8-bit HLS looked up in tables.

    Args:
        image: uint8 (H, W, 3).
        tables: uint8 (n, 256).
        choice: Number of each pixel's table, uint8 (H, W).

    Returns:
        A new uint8 array (H, W, 3).
    """
    return hsv_hls.map_lightness(image.reshape(-1), tables.reshape(-1), choice.reshape(-1)).reshape(image.shape)


def map_whole_lightness(image: Image, table: NDArray[np.uint8]) -> Image:
    """Return the image with the lightness of 8-bit HLS looked up in one table, uint8 (256,)."""
    return map_lightness(image, table, np.zeros(image.shape[:2], np.uint8))


MIN_FOG, MAX_FOG = 0.8, 1.0
"""Range of the density of fog."""
FOG_WEIGHT = 0.08
"""Weight of a disc of fog of density 1."""
MIN_PATCH = 10
"""Smallest side in pixels of a patch of fog that is drawn."""


def fog_patch(width: int, density: float) -> int:
    """Return the side of a patch of fog in pixels."""
    return int(width // 3 * density)


def draw_fog(source: DrawSource, image: Image, setting: None) -> dict[str, Any]:
    """Draw the density, and the corners of the patches in areas that grow from the centre on."""
    height, width = image.shape[:2]
    density = source.angle(MIN_FOG, MAX_FOG)
    patch = max(fog_patch(width, density), 1)
    x, y, ring = width // 2 - 2 * patch, height // 2 - patch, 1
    corners: list[Point] = []
    while x > -patch or y > -patch:
        corners += draw_points(source, patch // 10 * ring, (x, width - x - patch), (y, height - y - patch))
        x -= max(3 * patch * width // (height + width), 1)  # 0 would not end, in images of an extreme aspect
        y -= 3 * patch * height // (height + width)
        ring += 1
    return {"fog_coef": density, "haze_list": corners}


def add_fog(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image with white discs blended in, and blurred."""
    density = draws["fog_coef"]
    patch = max(fog_patch(image.shape[1], density), MIN_PATCH)
    radius = patch // 2
    centres = array_of(draws, "haze_list", np.int64, (-1, 2)) + radius
    weight = FOG_WEIGHT * density
    foggy = image.copy()
    overlays.veil(foggy, centres, radius, np.float32(weight), np.float32(1 - weight))
    return box_mean(foggy, patch // 10)


LARGEST_SLANT = 10.0
"""Largest slant of a drop in pixels."""
PIXELS_PER_DROP = 600
DROP_EXTENT = (10, 20)
"""Horizontal and vertical extent of a drop in pixels.

Quirk: all drops have this slant. The drawn one only limits where they begin (albumentations 0.5.2, issue 1175).
"""
DROP_LEVEL = np.uint8(200)
RAIN_BLUR = 7
"""Side of the box that blurs the image in rain, in pixels."""
RAIN_DIMMING = np.float32(0.7)
"""Factor of the lightness."""
RAIN_TABLE = (LEVELS.astype(np.float32) * RAIN_DIMMING).astype(np.uint8)
"""Lightness in rain for each lightness."""


def draw_rain(source: DrawSource, image: Image, setting: None) -> dict[str, Any]:
    """Draw the upper ends of the drops."""
    height, width = image.shape[:2]
    slant = int(source.angle(-LARGEST_SLANT, LARGEST_SLANT))
    columns = (slant, width) if slant < 0 else (0, width - slant)
    return {"rain_drops": draw_points(source, height * width // PIXELS_PER_DROP, columns, (0, height - DROP_EXTENT[1]))}


def add_rain(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image with drops, blurred and darker."""
    starts = array_of(draws, "rain_drops", np.int64, (-1, 2))
    ends = starts + DROP_EXTENT
    rainy = image.copy()
    rasters.draw_lines(np.concatenate([starts, ends], 1), DROP_LEVEL, rainy)
    return map_whole_lightness(box_mean(rainy, RAIN_BLUR), RAIN_TABLE)


MIN_SHADOWS, MAX_SHADOWS = 2, 4
"""Range of the number of shadows."""
CORNERS = 8
"""Number of corners of a shadow."""
SHADOW_TABLES = np.stack([LEVELS, LEVELS // 2]).astype(np.uint8)
"""Lightness for each lightness, outside and inside of shadows."""


def draw_shadows(source: DrawSource, image: Image, setting: None) -> dict[str, Any]:
    """Draw the corners of the shadows."""
    height, width = image.shape[:2]
    count = source.integer(MIN_SHADOWS, MAX_SHADOWS + 1)
    points = draw_points(source, count * CORNERS, (0, width), (0, height))
    return {"vertices_list": [points[i : i + CORNERS] for i in range(0, len(points), CORNERS)]}


def add_shadows(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image with half the lightness in the union of polygons."""
    polygons = array_of(draws, "vertices_list", np.int64, (-1, -1, 2))
    mask = rasters.polygons_mask(polygons, *image.shape[:2])
    return map_lightness(image, SHADOW_TABLES, mask)


SNOW_GAIN = 2.5
"""Factor of the lightness of pixels that become snow."""


def add_snow(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image with the lightness increased where it is below a limit."""
    is_snow = draws["snow_point"] * WHITE / 2 + WHITE / 3 > LEVELS
    table = LEVELS.astype(np.uint8)
    table[is_snow] = np.minimum(LEVELS[is_snow] * SNOW_GAIN, WHITE)
    return map_whole_lightness(image, table)


MIN_CIRCLES, MAX_CIRCLES = 6, 10
"""Range of the number of circles of a sun flare."""
MIN_CIRCLE_WEIGHT, MAX_CIRCLE_WEIGHT = 0.05, 0.2
"""Range of their weights."""
MIN_COLOUR = 205
"""Lowest level of their colours."""
CIRCLE_SPACING = 10
"""Distance in pixels of the columns of their centres."""
LOWEST_CENTRE = 0.5
"""Lowest position of the flare, as a fraction of the height."""
FAR = 2**31 - 1
"""Largest coordinate of a centre. Circles farther away are outside of every image."""
GLARE_DISCS, GLARE_RADIUS = 20, 200
"""Number of concentric discs around the flare, and the radius of the largest in pixels. The smallest has 1 pixel."""


def draw_flare(source: DrawSource, image: Image, setting: None) -> dict[str, Any]:
    """Draw the centre of the flare, and circles on a line through it, mirrored."""
    height, width = image.shape[:2]
    cosine, sine = cos_sin(source.angle(0.0, 2 * math.pi))
    x = int(width * source.angle(0.0, 1.0))
    y = int(height * source.angle(0.0, LOWEST_CENTRE))
    count = source.integer(MIN_CIRCLES, MAX_CIRCLES + 1)
    weights = source.uniform(MIN_CIRCLE_WEIGHT, MAX_CIRCLE_WEIGHT, (count,)).tolist()
    columns = [CIRCLE_SPACING * place for place in source.integers(0, -(-width // CIRCLE_SPACING), (count,)).tolist()]
    rows = [int(2 * y - (sine / cosine * (column - x) + y)) for column in columns]
    radii = [base * base * base for base in source.integers(1, max(height // 100 - 2, 2) + 1, (count,)).tolist()]
    colours = [tuple(colour) for colour in source.integers(MIN_COLOUR, WHITE + 1, (count, 3)).tolist()]
    centres = zip(columns, rows, strict=True)
    circles = list(zip(weights, centres, radii, colours, strict=True))
    return {"flare_center_x": x, "flare_center_y": y, "circles": circles}


@cache
def glare_reaches() -> NDArray[np.int64]:
    """Return how far each disc of the glare reaches to both sides, int64 (GLARE_RADIUS + 1, GLARE_DISCS), by row."""
    reaches = np.full((GLARE_RADIUS + 1, GLARE_DISCS), overlays.NONE)
    for disc in range(GLARE_DISCS):
        radius = 1 + (GLARE_RADIUS - 1) * disc // (GLARE_DISCS - 1)
        reaches[: radius + 1, disc] = rasters.disc_reaches(radius)
    return reaches


@cache
def glare_tables() -> NDArray[np.uint8]:
    """Return the new levels in each ring of the glare, uint8 (GLARE_DISCS, 256).

    The pixels of ring r are in disc r and all larger ones, which are blended with the image one after the other.
    """
    tables = np.empty((GLARE_DISCS, LEVELS.size), np.uint8)
    outer = LEVELS
    for disc in range(GLARE_DISCS - 1, -1, -1):
        strength = (GLARE_DISCS - 1 - disc) / (GLARE_DISCS - 1)
        weight = strength * strength * strength
        whitened = np.float32(WHITE) * np.float32(weight) + LEVELS.astype(np.float32) * np.float32(1 - weight)
        tables[disc] = outer = outer[np.rint(whitened).astype(np.uint8)]
    return tables


def add_flare(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image with circles and a glare blended in."""
    weights, centres, radii, colours = zip(*draws["circles"], strict=True)
    points = [[min(max(value, -FAR), FAR) for value in centre] for centre in centres]
    opacity = np.array(weights)
    sunny = image.copy()
    overlays.add_flecks(
        sunny,
        np.array(points, np.int64),
        np.array(radii, np.int64),
        np.array(colours, np.uint8),
        opacity.astype(np.float32),
        (1 - opacity).astype(np.float32),
    )
    overlays.add_glare(sunny, draws["flare_center_x"], draws["flare_center_y"], glare_tables(), glare_reaches())
    return sunny
