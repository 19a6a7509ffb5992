"""Time of every distortion of LAION-C: robustshards, and the published arithmetic, as its script draws and loops."""

import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from PIL import Image as PillowImage
from PIL import ImageDraw
from scipy.spatial import cKDTree

import corruptions
from bench.c_bar_speed import times_of, times_section
from bench.timing import Call, with_seeds
from corruptions import laion_c
from corruptions.laion_c.bands import Lines, glitch_of
from corruptions.laion_c.tiles import Tiled

Image = NDArray[np.uint8]

NOTE = (
    "Milliseconds, means over five severities, draws included. The published arithmetic draws and loops as the script "
    "of the authors does, with Pillow and SciPy. The bank has 2,000 tiles."
)

PHOTOGRAPHS = 2000
"""Tiles of the bank, of random parts of the image."""


@cache
def _bank(side: int, data: bytes, height: int, width: int) -> Image:
    """Return a bank of tiles of random parts of an image."""
    image, rng = np.frombuffer(data, np.uint8).reshape(height, width, 3), RandomState(0)
    places = rng.randint(0, min(height, width) - 32, (PHOTOGRAPHS, 2))
    return corruptions.tiles((image[y : y + 32, x : x + 32] for y, x in places), side)


@cache
def _tree(side: int, data: bytes, height: int, width: int) -> tuple[cKDTree, NDArray[np.float32]]:
    """Return the search tree of a bank, and its tiles 0..1."""
    tiles = _bank(side, data, height, width).astype(np.float32) / np.float32(255)
    return cKDTree(tiles.mean(axis=(1, 2), dtype=np.float64)), tiles


def _mosaic(image: Image, parameters: Tiled, rng: RandomState) -> object:
    side, out = parameters.side, np.empty(image.shape, np.float32)
    tree, tiles = _tree(side, image.tobytes(), *image.shape[:2])
    size = image.shape[1] // side, image.shape[0] // side
    cells = np.asarray(PillowImage.fromarray(image).resize(size, PillowImage.Resampling.BICUBIC), np.float32) / 255
    for row in range(size[1]):
        for column in range(size[0]):
            nearest = tree.query(cells[row, column])[1]
            out[row * side : (row + 1) * side, column * side : (column + 1) * side] = tiles[nearest]
    return (out * 255).astype(np.uint8)


def _stickers(image: Image, parameters: Tiled, rng: RandomState) -> object:
    out, (height, width, _), side = image.astype(np.float32) / 255, image.shape, parameters.side
    _, tiles = _tree(side, image.tobytes(), height, width)
    chosen = rng.randint(0, len(tiles), parameters.count)
    rng.randint(0, height - side, (1, parameters.count, 2))
    for tile in chosen:
        row, column = divmod(rng.choice((height - side) * (width - side), 1)[0], width - side)
        out[row : row + side, column : column + side] = tiles[tile]
    return (out * 255).astype(np.uint8)


def _shapes(image: Image, count: int, rng: RandomState) -> object:
    picture = PillowImage.fromarray(image)
    draw, (width, height) = ImageDraw.Draw(picture), picture.size
    for _ in range(count):
        kind, x, y, size = rng.randint(0, 4), rng.randint(0, width), rng.randint(0, height), rng.randint(6, 16)
        ink, turn = tuple(map(int, rng.randint(0, 256, 3))), rng.randint(0, 360)
        if kind == 0:
            draw.polygon([(x, y), (x + size, y), (x + size / 2, y + size)], fill=ink)
        elif kind == 2:
            radii, angles = (size / 1.2, size / 2.4), [math.radians(36 * q + turn) for q in range(10)]
            points = [(x + radii[q % 2] * math.sin(a), y + radii[q % 2] * math.cos(a)) for q, a in enumerate(angles)]
            draw.polygon(points, fill=ink)
        else:
            (draw.rectangle if kind == 1 else draw.ellipse)((x, y, x + size, y + size), fill=ink)
    return np.asarray(picture)


def _lines(image: Image, parameters: Lines, rng: RandomState) -> object:
    height, width, _ = image.shape
    out, grey = PillowImage.new("RGB", (width, height)), np.asarray(PillowImage.fromarray(image).convert("L"))
    draw, count = ImageDraw.Draw(out), parameters.count
    for i in range(count):
        start = i / count * width
        columns, pen = slice(int(start), min(int(start + width / count), width)), (start, 0)
        for y in range(0, height, parameters.step):
            rows = slice(y, y + parameters.step)
            ink = tuple(map(int, image[rows, columns].mean(axis=(0, 1))))
            end = start + (1 - int(grey[rows, columns].mean()) / 255) * -40, y
            draw.line([pen, end], fill=ink)
            pen = end
    return np.asarray(out)


def _glitched(image: Image, level: int, rng: RandomState) -> object:
    out, moves = image.copy(), glitch_of.__wrapped__(level, *image.shape[:2])
    for offset, first, last in moves.bands:
        out[first:last] = np.roll(image[first:last], offset, axis=1)
    out[..., moves.channel] = np.roll(image[..., moves.channel], moves.down, axis=0)
    out[::2] = 0
    return out


def _luminance(image: Image, limits: tuple[float, float], rng: RandomState) -> object:
    out = image.astype(np.float32) / 255
    for row in range(0, len(image), 14):
        for column in range(0, image.shape[1], 14):
            sign = 1 if (row + column) // 14 % 2 == 0 else -1
            block = out[row : row + 14, column : column + 14]
            np.clip(block + np.float32(sign * rng.uniform(*limits) / 255), 0, 1, out=block)
    return (out * 255).astype(np.uint8)


ARITHMETIC: Mapping[str, Callable[[Image, Any, RandomState], object]] = {
    "mosaic": _mosaic,
    "glitched": _glitched,
    "vertical_lines": _lines,
    "geometric_shapes": _shapes,
    "stickers": _stickers,
    "luminance_checkerboard": _luminance,
}


def measure(image: Image, seconds: float) -> str:
    """Return the section of the six distortions. Each call has three turns of ``seconds`` per severity."""

    def calls(name: Any, severity: Any) -> tuple[Call, Call]:
        parameters = laion_c.CORRUPTIONS[name].parameters("imagenet", severity)
        side = parameters.side if isinstance(parameters, Tiled) else 0
        fitting = image[: len(image) // side * side, : image.shape[1] // side * side] if name == "mosaic" else image
        fitting = np.ascontiguousarray(fitting)
        bank = _bank(side, fitting.tobytes(), *fitting.shape[:2]) if side else None
        ours = with_seeds(corruptions.corrupt, fitting, name, severity, bank=bank)
        return ours, partial(ARITHMETIC[name], fitting, parameters, RandomState(severity))

    rows = [times_of(name, partial(calls, name), seconds) for name in laion_c.NAMES]
    return times_section("LAION-C, 224 x 224", rows, NOTE)
