"""Candidates that cover parts of an image with black."""

from typing import Any

from corruptions.candidates.catalogue import Draws
from corruptions.catalogue import Image
from corruptions.draws import DrawSource

Hole = tuple[int, int, int, int]
"""Left and upper edge of a hole, then its right and lower edge, which are excluded: x1, y1, x2, y2."""


def cover(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image with black holes."""
    out = image.copy()
    for x1, y1, x2, y2 in draws["holes"]:
        out[y1:y2, x1:x2] = 0
    return out


MIN_HOLES, MAX_HOLES = 16, 48
"""Range of the number of holes of CoarseDropout."""
HOLE_SIDE = 8
"""Side of its holes in pixels."""


def draw_holes(source: DrawSource, image: Image, setting: None) -> dict[str, Any]:
    """Draw small holes inside of the image. They may overlap."""
    height, width = image.shape[:2]
    count = source.integer(MIN_HOLES, MAX_HOLES + 1)
    tops = source.integers(0, height - HOLE_SIDE + 1, (count,)).tolist()
    lefts = source.integers(0, width - HOLE_SIDE + 1, (count,)).tolist()
    holes = [(left, top, left + HOLE_SIDE, top + HOLE_SIDE) for left, top in zip(lefts, tops, strict=True)]
    return {"holes": holes}


CUTOUT_SIDE = 150
"""Side of the hole of Cutout in pixels."""


def hole_around(x: int, y: int, height: int, width: int) -> Hole:
    """Return the hole around a point.

    Quirk: at the left and upper edges the whole hole is moved into the image, at the others it is cut (albumentations).
    """
    left, top = max(x - CUTOUT_SIDE // 2, 0), max(y - CUTOUT_SIDE // 2, 0)
    return left, top, min(left + CUTOUT_SIDE, width), min(top + CUTOUT_SIDE, height)


def draw_cutout(source: DrawSource, image: Image, setting: None) -> dict[str, Any]:
    """Draw one large hole around a random point."""
    height, width = image.shape[:2]
    y = source.integer(0, height + 1)
    x = source.integer(0, width + 1)
    return {"holes": [hole_around(x, y, height, width)]}
