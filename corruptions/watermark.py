"""The watermark of ImageNet-W: half transparent white text on every image.

Source: Li, Evtimov, Gordo, Hazirbas, Hassner, Canton Ferrer, Xu & Ibrahim, A Whac-A-Mole Dilemma, CVPR 2023. The masks
of the usual sides are data, so that no font is needed: they were drawn with Source Han Serif SC ExtraLight 2.001.
"""

from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage
from PIL import ImageDraw, ImageFont

from corruptions.catalogue import Image, Transform

GROUP = "imagenet-w"
"""Group of the watermark."""

TEXT = "捷径捷径捷径"
"""The text: "shortcut", three times."""
ALPHA = 128
"""Opacity of the text, of 255."""
LEFT, TOP = 0.01, 0.4
"""Position of the text as fractions of the sides."""
SIZES: Mapping[int, int] = {224: 36, 384: 62, 512: 82, 518: 84}
"""Side -> published size of the font."""
SIDES_PER_SIZE = 6.22
"""Other sides are divided by this."""

LARGEST_FONT = 2**26
"""Largest accepted font file in bytes."""
LONGEST_TEXT = 100
"""Largest number of characters of a text."""
LARGEST_SIDE = 4096
"""Largest side of a mask in pixels."""

FILE = "watermarks.npz"
"""The masks of the usual sides by side, uint8 (side, side)."""


def mask(side: int, font: str | Path | None = None, text: str = TEXT) -> NDArray[np.uint8]:
    """Return the opacity of the watermark, uint8 (side, side), 0..128.

    Args:
        side: Side of the images in pixels.
        font: TrueType or OpenType font file. Default: the shipped masks, for sides 224, 299, 384, 512 and 518.
        text: The text, for which a font is needed if it is not the published one.

    Raises:
        ValueError: If there is no shipped mask, the font cannot be read, or an argument is out of range.
    """
    if not 1 <= side <= LARGEST_SIDE:
        raise ValueError(f"side must be 1..{LARGEST_SIDE}, not {side}")
    if font is not None:
        return _drawn(side, Path(font), text)
    shipped = _shipped()
    if text != TEXT or side not in shipped:
        what = f"side {side}" if text == TEXT else "another text"
        raise ValueError(
            f"no watermark for {what}: pass font=, a font file; without one, sides are {', '.join(map(str, shipped))}"
        )
    return shipped[side]


class Blend(NamedTuple):
    """The part of an image under a watermark, and what its values are multiplied by and what is added, uint16."""

    rows: slice
    columns: slice
    kept: NDArray[np.uint16]
    added: NDArray[np.uint16]


def overlay(image: Image, opacity: NDArray[np.uint8]) -> Image:
    """Return the image under white of an opacity (H, W), rounded as alpha compositing of Pillow.

    Raises:
        ValueError: If the sizes differ.
    """
    return _overlaid(image, opacity.shape, _blend(opacity))


def add_watermark(image: Image, parameters: None, draws: object) -> Image:
    """Return the image with the published watermark. Images are squares of a side with a shipped mask."""
    side = image.shape[0]
    return _overlaid(image, (side, side), _published_blend(side))


def _overlaid(image: Image, size: tuple[int, ...], blend: Blend) -> Image:
    if image.shape[:2] != size:
        height, width = image.shape[:2]
        raise ValueError(
            f"image must have the size of the watermark, {size[0]} x {size[1]}, not {height} x {width}; crop it first"
        )
    out = image.copy()
    out[blend.rows, blend.columns] = (image[blend.rows, blend.columns] * blend.kept + blend.added) // 255
    return out


def _blend(opacity: NDArray[np.uint8]) -> Blend:
    rows, columns = (_extent(np.flatnonzero(opacity.max(axis=axis, initial=0))) for axis in (1, 0))
    alpha = np.repeat(opacity[rows, columns, None], 3, axis=2).astype(np.uint16)
    return Blend(rows, columns, 255 - alpha, 255 * alpha + 127)  # sums are at most 65,152


def _extent(places: NDArray[np.int64]) -> slice:
    return slice(int(places[0]), int(places[-1]) + 1) if places.size else slice(0)


@lru_cache(maxsize=8)
def _published_blend(side: int) -> Blend:
    return _blend(mask(side))


@lru_cache(maxsize=1)
def _shipped() -> Mapping[int, NDArray[np.uint8]]:
    with resources.files("corruptions").joinpath(FILE).open("rb") as file, np.load(file) as archive:
        masks = {int(side): archive[side] for side in archive}
    for each in masks.values():
        each.setflags(write=False)
    return masks


def _drawn(side: int, font: Path, text: str) -> NDArray[np.uint8]:
    """Return a mask drawn with a font. Raises ValueError if the font or text is invalid."""
    if not 1 <= len(text) <= LONGEST_TEXT or not text.isprintable():
        raise ValueError(f"text must have 1 to {LONGEST_TEXT} printable characters, not {text!r:.80}")
    if not font.is_file():
        raise ValueError(f"font {str(font)!r} is not a file: give a TrueType or OpenType font")
    if font.stat().st_size > LARGEST_FONT:
        raise ValueError(f"font {str(font)!r} has {font.stat().st_size:,} bytes; at most {LARGEST_FONT:,} are allowed")
    page = PillowImage.new("L", (side, side))
    try:
        size = SIZES.get(side) or max(1, int(side / SIDES_PER_SIZE))
        loaded = ImageFont.truetype(str(font), size, layout_engine=ImageFont.Layout.BASIC)
        ImageDraw.Draw(page).text((round(LEFT * side), round(TOP * side)), text, fill=ALPHA, font=loaded)
    except (OSError, ValueError) as error:
        raise ValueError(f"font {str(font)!r} is not a TrueType or OpenType font, or is damaged: {error}") from None
    return np.array(page)


CORRUPTIONS: Mapping[str, Transform] = {
    "watermark": Transform("watermark", 1, GROUP, {"imagenet": (None,)}, add_watermark, smallest=1)
}
"""Name -> transform."""
