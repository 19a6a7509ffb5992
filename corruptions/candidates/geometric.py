"""Candidates that move pixels."""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from corruptions.candidates.catalogue import Draws, array_of
from corruptions.catalogue import Image
from corruptions.draws import DrawSource
from corruptions.elementary import cos_sin
from corruptions.kernels.sampling import elastic, fixed_sampling
from corruptions.kernels.sampling.fixed_sampling import BLACK, EDGE, MIRROR
from corruptions.kernels.sampling.opencv_resize import resize_area, resize_linear
from corruptions.kernels.sampling.perspective import inverse_perspective
from corruptions.kernels.smoothing import mirrored

KEPT_SIDE = 130
"""Side of the part that Border keeps, in pixels."""

DOWNSCALE = 0.45
"""Factor by which Downscale shrinks both sides."""

JITTER = 50.0
"""Largest displacement of a corner of ElasticTransform, in pixels."""
SIGMA, TRUNCATE = 50.0, 4.0
"""Sigma of the Gaussian of ElasticTransform in pixels, and its reach in sigmas."""
STILL = 1 / 64
"""Half a position in pixels. Smaller displacements move no pixel."""

CELLS = 5
"""GridDistortion divides a side into so many cells. What is left over forms another one."""
STEPS = CELLS + 1
"""Number of steps that GridDistortion draws for each side."""

DISTORTION = 4.0
"""Largest coefficient of OpticalDistortion, and its largest shift in pixels."""

LOWEST_JITTER, HIGHEST_JITTER = 0.1, 0.3
"""Range of the standard deviation of Perspective's corners, in sides of the image."""
CORNERS = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], np.float32)
"""Corners of the image (x, y), clockwise from the upper left one, in sides of the image."""
SHORTEST = 2
"""Smallest side of what Perspective cuts out, in pixels."""

GRID = 4
"""RandomGridShuffle divides each side into so many parts."""


def invert(matrix: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Return the inverse of an affine map (2, 3), with OpenCV's order of operations."""
    (a, b, c), (d, e, f) = matrix
    scale = 1.0 / (a * e - b * d)
    across, down = (e * scale, -b * scale), (-d * scale, a * scale)
    return np.array([[*across, -across[0] * c - across[1] * f], [*down, -down[0] * c - down[1] * f]])


def warp(image: Image, inverse: NDArray[np.float64], border: int) -> Image:
    """Return the image after an affine map, of which ``inverse`` (2, 3) takes the result to the image."""
    height, width, _ = image.shape
    return fixed_sampling.sample(image, *fixed_sampling.affine_positions(inverse, height, width), border)


def shrink(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image shrunk about its centre, with mirrored copies around it."""
    height, width, _ = image.shape
    scale = float(np.float32(draws["scale"]))
    fixed = (1.0 - scale) * (width - 1) / 2, (1.0 - scale) * (height - 1) / 2
    return warp(image, invert([[scale, 0.0, fixed[0]], [0.0, scale, fixed[1]]]), MIRROR)


def frame(image: Image, setting: None, draws: Draws) -> Image:
    """Return the central part of the image on black. Quirk: the kept part has a fixed size in pixels."""
    top, left = ((side - KEPT_SIDE) // 2 for side in image.shape[:2])
    kept = slice(top, top + KEPT_SIDE), slice(left, left + KEPT_SIDE)
    framed = np.zeros_like(image)
    framed[kept] = image[kept]
    return framed


@lru_cache(maxsize=64)
def nearest_indices(size: int) -> NDArray[np.uint64]:
    """Return which input each of ``size`` outputs shows after shrinking to DOWNSCALE and enlarging again.

    Both steps round down, in float64.
    """
    shrunk = round(DOWNSCALE * size)
    step = 1.0 / (size / shrunk)
    indices = (min(math.floor(math.floor(i * step) * (1.0 / DOWNSCALE)), size - 1) for i in range(size))
    return np.array(list(indices), np.uint64)


def downscale(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image shrunk and enlarged again, both by the nearest neighbour."""
    rows, columns = map(nearest_indices, image.shape[:2])
    return fixed_sampling.pick(image, rows, columns)


def draw_elastic(source: DrawSource, image: Image, setting: None) -> dict[str, Any]:
    """Draw the displacements of three corners, and of every pixel before smoothing."""
    shape = image.shape[:2]
    return {
        "corners": source.uniform(-JITTER, JITTER, (3, 2)),
        "dx": source.uniform(-1.0, 1.0, shape),
        "dy": source.uniform(-1.0, 1.0, shape),
    }


def distort_elastic(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image after a random affine map and smooth displacements, which rarely move anything.

    Quirk: the row of the centre is used as its x coordinate and the column as its y coordinate.
    """
    height, width, _ = image.shape
    corners = array_of(draws, "corners", np.float32, (3, 2))
    fields = (array_of(draws, key, np.float32, (height, width)) for key in ("dx", "dy"))
    warped = warp(image, elastic.affine_inverse(height, width, corners), EDGE)
    right, down = (mirrored.smooth_field(field, (SIGMA, SIGMA), TRUNCATE) for field in fields)
    if max(right.max(), -right.min(), down.max(), -down.min()) < STILL:
        return warped
    return fixed_sampling.sample(warped, *fixed_sampling.displaced_positions(right, down), EDGE)


def draw_direction(source: DrawSource, image: Image, setting: None) -> dict[str, Any]:
    """Draw what is reversed: 0 the rows, 1 the columns, -1 both."""
    return {"d": source.integer(-1, 2)}


def flip(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image with its rows, columns or both reversed."""
    return np.asarray(cv2.flip(image, int(draws["d"])), np.uint8)


def draw_steps(source: DrawSource, image: Image, setting: None) -> dict[str, Any]:
    """Draw the relative widths and heights of the grid's cells."""
    return {key: (1.0 + source.uniform(-1.0, 1.0, (STEPS,))).tolist() for key in ("stepsx", "stepsy")}


def grid_positions(size: int, steps: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return the positions along one axis, which run linearly within each cell.

    Quirks: both ends of a cell are included, so that the position at each border between cells occurs twice. A cell
    that would pass the end of the image ends there, whatever its step.
    """
    cell = size // CELLS
    positions = np.empty(size, np.float32)
    reached = 0.0
    for index, step in enumerate(steps.tolist()):
        start, end = index * cell, (index + 1) * cell
        before, reached = reached, reached + cell * step if end <= size else float(size)
        count = min(end, size) - start
        positions[start:end] = np.arange(count) * ((reached - before) / max(count - 1, 1)) + before
    return np.rint(positions * np.float32(fixed_sampling.UNIT)).astype(np.int32)


def distort_grid(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image with the cells of a grid stretched and shrunk."""
    height, width, _ = image.shape
    across = grid_positions(width, array_of(draws, "stepsx", np.float64, (STEPS,)))
    down = grid_positions(height, array_of(draws, "stepsy", np.float64, (STEPS,)))
    return fixed_sampling.sample(image, *fixed_sampling.grid_positions(across, down), MIRROR)


def draw_distortion(source: DrawSource, image: Image, setting: None) -> dict[str, Any]:
    """Draw the coefficient of a radial distortion, and a shift in whole pixels."""
    k, dx, dy = (source.angle(-DISTORTION, DISTORTION) for _ in range(3))
    return {"k": k, "dx": round(dx), "dy": round(dy)}


def distort_radially(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image after a radial distortion and a shift."""
    height, width, _ = image.shape
    k = float(np.float32(draws["k"]))
    positions = fixed_sampling.radial_positions(height, width, k, float(draws["dx"]), float(draws["dy"]))
    return fixed_sampling.sample(image, *positions, MIRROR)


def draw_corners(source: DrawSource, image: Image, setting: None) -> dict[str, Any]:
    """Draw the distances of four points from the corners of the image, in sides of the image."""
    return {"jitter": source.normal(0.0, source.angle(LOWEST_JITTER, HIGHEST_JITTER), (4, 2))}


def quadrilateral(jitter: NDArray[np.float32], height: int, width: int) -> NDArray[np.float32]:
    """Return four points in the image, float32 (4, 2), clockwise from the upper left one.

    Quirk: they are ordered by the sum and the difference of their coordinates, so a point may occur twice.
    """
    sides = np.array([width, height], np.float32)
    points = abs(CORNERS - abs(jitter) % np.float32(1)) * sides
    totals, slopes = points[:, 0] + points[:, 1], points[:, 1] - points[:, 0]
    return points[[totals.argmin(), slopes.argmin(), totals.argmax(), slopes.argmax()]]


SIDES = (((0, 3), (1, 2)), ((0, 1), (3, 2)))
"""Points at which the two sides of a quadrilateral that run along an axis, x or y, start and end."""


def stretch(points: NDArray[np.float32], axis: int) -> int:
    """Return the length in pixels of the longer side along an axis. Points are moved apart until none is too short."""
    starts, ends = SIDES[axis]
    while True:
        x, y = (points[[*ends]] - points[[*starts]]).T
        lengths = np.sqrt(x * x + y * y)
        missing = SHORTEST - int(lengths.min())
        if missing <= 0:
            return int(lengths.max())
        points[:, axis] += (2 * CORNERS[:, axis] - 1) * np.float32(missing / 2)


def change_perspective(image: Image, setting: None, draws: Draws) -> Image:
    """Return a quadrilateral of the image, stretched to the sides of the image. What lies outside is black."""
    height, width, _ = image.shape
    points = quadrilateral(array_of(draws, "jitter", np.float32, (4, 2)), height, width)
    across, down = stretch(points, 0), stretch(points, 1)
    inverse = inverse_perspective(points, CORNERS * np.array([across, down], np.float32))
    positions = fixed_sampling.perspective_positions(inverse, down, across)
    part: Image = fixed_sampling.sample(image, *positions, BLACK)
    if (down, across) == (height, width):
        return part
    # INTER_AREA interpolates where a side grows. Where none does, INTER_LINEAR was published.
    resize = resize_area if height > down or width > across else resize_linear
    return resize(part, (height, width), (0, 0), (height, width))


def tile_bounds(size: int) -> list[tuple[int, int]]:
    """Return start and length of each part of one side."""
    lines = [int(size * part / GRID) for part in range(GRID + 1)]
    return [(start, end - start) for start, end in pairwise(lines)]


def draw_tiles(source: DrawSource, image: Image, setting: None) -> dict[str, Any]:
    """Draw for each tile where its content comes from: a tile of the same size.

    A tile is (row, column, row and column of its content, height, width), in pixels.
    """
    rows, columns = map(tile_bounds, image.shape[:2])
    tiles = [(row, column, height, width) for row, height in rows for column, width in columns]
    contents: dict[int, tuple[int, int]] = {}
    for size in dict.fromkeys(tile[2:] for tile in tiles):
        same = [index for index, tile in enumerate(tiles) if tile[2:] == size]
        order = source.permutation(len(same)).tolist()
        contents |= {index: tiles[same[other]][:2] for index, other in zip(same, order, strict=True)}
    return {"tiles": [(*tile[:2], *contents[index], *tile[2:]) for index, tile in enumerate(tiles)]}


def shuffle(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image with its tiles exchanged."""
    shuffled = image.copy()
    for row, column, from_row, from_column, height, width in draws["tiles"]:
        content = image[from_row : from_row + height, from_column : from_column + width]
        shuffled[row : row + height, column : column + width] = content
    return shuffled


def rotate(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image rotated. Quirk: about a centre half a pixel right of and below that of the image."""
    height, width, _ = image.shape
    cos, sin = cos_sin(math.radians(draws["angle"]))
    x, y = width / 2, height / 2
    matrix = [[cos, sin, (1.0 - cos) * x - sin * y], [-sin, cos, sin * x + (1.0 - cos) * y]]
    return warp(image, invert(matrix), MIRROR)


def shift(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image shifted. Quirk: nothing is transposed, despite the published name."""
    height, width, _ = image.shape
    return warp(image, invert([[1.0, 0.0, draws["dx"] * width], [0.0, 1.0, draws["dy"] * height]]), MIRROR)
