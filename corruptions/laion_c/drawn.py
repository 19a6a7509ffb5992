"""Distortions drawn over the image: geometric_shapes and luminance_checkerboard."""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.catalogue import Image
from corruptions.draws import DrawSource
from corruptions.elementary import cos_sin
from corruptions.kernels.colour.levels import shift_blocks
from corruptions.kernels.drawing import shapes as kernels

VALUES = np.arange(256, dtype=np.float32) / np.float32(255)
"""Value 0..1 of each level, float32 (256,), as the published script holds pixels."""

SIZES = range(6, 16)
"""Sizes of shapes in pixels."""

TURN = 360
"""Degrees of a full turn."""

SHAPE_KEYS = ("shape", "x", "y", "size", "colour", "rotation")

CIRCLES = (
    *((2, 1, 0, 0), (2, 1, 0, 0), (3, 1, 1, 0, 0), (3, 2, 1, 0, 0), (3, 2, 1, 0, 0, 0), (4, 2, 1, 1, 0, 0)),
    *((4, 3, 2, 1, 0, 0, 0), (5, 3, 2, 1, 1, 0, 0), (5, 3, 2, 1, 1, 0, 0, 0), (5, 4, 2, 2, 1, 0, 0, 0)),
)
"""Of a circle of each size: black pixels before its first one, in the upper half of its rows."""


def draw_shapes(source: DrawSource, image: Image, count: int) -> Mapping[str, NDArray[np.integer[Any]]]:
    """Draw shapes: kind, column, row, size, colour, and rotation, which only stars use."""
    height, width, _ = image.shape
    colour = [(0, 256)] * 3
    rows = source.rows(count, (0, 4), (0, width), (0, height), (SIZES[0], SIZES[-1] + 1), *colour, (0, TURN))
    return dict(zip(SHAPE_KEYS, (*rows.T[:4], rows[:, 4:7], rows[:, 7]), strict=True))


def add_shapes(image: Image, count: int, draws: Mapping[str, Any]) -> Image:
    """Return the image with opaque shapes over it."""
    columns = [np.asarray(draws[key], np.int64) for key in SHAPE_KEYS]
    kinds, colours = len(columns[0]), columns.pop(4)
    if any(column.shape != (kinds,) for column in columns) or colours.shape != (kinds, 3):
        raise ValueError("draws of shapes must be lists of one length, and colour must have three values for each")
    limits = ((0, 3), None, None, (SIZES[0], SIZES[-1]), (0, TURN - 1))
    for key, column, limit in zip(("shape", "x", "y", "size", "rotation"), columns, limits, strict=True):
        if limit and column.size and not (limit[0] <= column.min() and column.max() <= limit[1]):
            raise ValueError(f"draw {key!r} must be {limit[0]}..{limit[1]}, not {column.min()}..{column.max()}")
    out = image.copy()
    shapes, inks = np.stack(columns, axis=1), colours.astype(np.uint8)
    kernels.draw_shapes(out.reshape(len(out), -1), shapes, inks, *_tables())
    return out


@cache
def _tables() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return sine and cosine of whole degrees (D, 2), and the first pixel of each row of circles by size and row."""
    angles = (cos_sin(degrees * (math.pi / 180)) for degrees in range(TURN // kernels.TIPS * kernels.TIPS + TURN))
    discs = np.zeros((SIZES[-1] + 1, SIZES[-1] + 1), np.int64)
    for size, upper in zip(SIZES, CIRCLES, strict=True):
        discs[size, : len(upper)] = upper
        discs[size, size + 1 - len(upper) : size + 1] = upper[::-1]
    return np.array([(sine, cosine) for cosine, sine in angles]), discs


BLOCK = 14
"""Side of a block of the checkerboard in pixels."""

Range = tuple[float, float]


def draw_shifts(source: DrawSource, image: Image, limits: Range) -> Mapping[str, NDArray[np.floating[Any]]]:
    """Draw how many levels each block moves."""
    return {"shift": source.uniform(*limits, _blocks(image))}


def shift_luminance(image: Image, limits: Range, draws: Mapping[str, Any]) -> Image:
    """Return the image with the blocks of a checkerboard brighter and darker in turn."""
    shift = np.asarray(draws["shift"], np.float64)
    if shift.shape != _blocks(image):
        raise ValueError(f"draw 'shift' must have the shape {_blocks(image)}, not {shift.shape}")
    rows, columns = np.indices(shift.shape)
    signed = (np.where((rows + columns) % 2 == 0, shift, -shift) / 255).astype(np.float32)
    shifted: Image = shift_blocks(image.reshape(len(image), -1), VALUES, signed, BLOCK)
    return shifted.reshape(image.shape)


def _blocks(image: Image) -> tuple[int, int]:
    """Return the number of rows and columns of blocks."""
    return -(-image.shape[0] // BLOCK), -(-image.shape[1] // BLOCK)
