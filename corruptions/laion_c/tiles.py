"""Distortions made of other photographs, and the bank of tiles that they need: mosaic and stickers."""

import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions.catalogue import Image
from corruptions.draws import DrawSource
from corruptions.kernels.drawing import mosaic as kernels
from corruptions.kernels.sampling.bicubic import shrink_bicubic
from corruptions.laion_c.drawn import VALUES
from corruptions.preparation import PROFILE_STEPS, prepare
from corruptions.validation import to_rgb

Bank = NDArray[np.uint8]
"""Tiles, uint8 (N, side, side, 3)."""

STICKER = 16
"""Side of a sticker in pixels."""

MAX_BOXES = 32
"""Largest number of boxes along a channel into which the colours of tiles are sorted."""

CHUNK = 1024
"""Tiles whose colours are computed at a time."""

DOUBLES = VALUES.astype(np.float64)


@dataclass(frozen=True)
class Tiled:
    """Side of the tiles in pixels, their number where it is fixed, and the bank that they come from."""

    side: int
    count: int = 0
    bank: Any = None


def tiles(photographs: Iterable[NDArray[np.uint8]], side: int) -> Bank:
    """Return the bank of tiles that the distortions ``mosaic`` and ``stickers`` of LAION-C need.

    Each photograph gives one tile: it is prepared like the images of ImageNet-C, and resized to the side of a tile.

    Args:
        photographs: Decoded photographs of any size, uint8 RGB (H, W, 3) or grey (H, W).
        side: Side of a tile in pixels.

    Returns:
        uint8 (N, side, side, 3), in the order of the photographs. The array is read-only, so that the distortions
        sort its colours only once.

    Raises:
        TypeError: If a photograph is not a uint8 array.
        ValueError: If there is no photograph, if one has another shape, or if the side is not positive.
    """
    if side < 1:
        raise ValueError(f"side must be at least 1 pixel, not {side}")
    made = [tiles_of(to_rgb(np.asarray(photograph), 1), (side,))[0] for photograph in photographs]
    if not made:
        raise ValueError("no photographs to make tiles of: pass at least one")
    bank = np.stack(made)
    bank.flags.writeable = False
    return bank


def tiles_of(photograph: Image, sides: Sequence[int]) -> list[Image]:
    """Return a tile of a photograph (H, W, 3) for each side in pixels."""
    view = prepare(photograph, PROFILE_STEPS["imagenet"])
    return [prepare(view, (("square", side),)) for side in sides]


def checked_bank(parameters: Tiled) -> Bank:
    """Return the bank. Raises TypeError or ValueError if there is none, or if its tiles do not fit."""
    bank, side = parameters.bank, parameters.side
    remedy = f"pass bank=corruptions.tiles(photographs, {side})"
    if bank is None:
        raise ValueError(f"tiles of other photographs are needed: {remedy}")
    if not isinstance(bank, np.ndarray) or bank.dtype != np.uint8:
        kind = getattr(bank, "dtype", type(bank).__name__)
        raise TypeError(f"bank must be a uint8 array (N, {side}, {side}, 3), not {kind}: {remedy}")
    if bank.shape[1:] != (side, side, 3) or not len(bank):
        raise ValueError(f"bank must have the shape (N, {side}, {side}, 3) with N > 0, not {bank.shape}: {remedy}")
    return bank


class _Sorted(NamedTuple):
    """The colours of a bank in boxes, as ``kernels.sort_colours`` returns them, and the boxes along a channel."""

    order: NDArray[np.int64]
    colours: NDArray[np.float64]
    starts: NDArray[np.int64]
    side: int


_SORTED: dict[int, tuple[weakref.ref[Bank], _Sorted]] = {}
"""Id of a read-only bank -> the bank, and its colours."""


def _sorted(bank: Bank) -> _Sorted:
    """Return the colours of a bank in boxes. Those of a bank that cannot change are kept as long as it exists."""
    kept = _SORTED.get(id(bank))
    if kept and kept[0]() is bank:
        return kept[1]
    flat = bank.reshape(len(bank), -1, 3)
    parts = [np.array(flat[start : start + CHUNK]) for start in range(0, len(bank), CHUNK)]
    colours = np.concatenate([kernels.tile_colours(part, DOUBLES) for part in parts])
    side = min(2 << len(bank).bit_length() // 3, MAX_BOXES)  # most boxes hold no tile
    order, ordered, starts = kernels.sort_colours(colours, side)
    found = _Sorted(order, ordered, starts, side)
    if not bank.flags.writeable:
        key = id(bank)
        _SORTED[key] = weakref.ref(bank, lambda _: _SORTED.pop(key, None)), found
    return found


def make_mosaic(image: Image, parameters: Tiled, draws: None) -> Image:
    """Return the image made of tiles, each of which has the mean colour nearest to that of its place."""
    bank, side, (height, width, _) = checked_bank(parameters), parameters.side, image.shape
    if height % side or width % side:
        raise ValueError(
            f"both sides of the image must be multiples of {side} for a mosaic of this severity, not {height} x {width}"
        )
    cells = shrink_bicubic(image, side)
    nearest = kernels.nearest_colours(cells.reshape(-1, 3), DOUBLES, *_sorted(bank))
    chosen = bank[nearest].reshape(height // side, width // side, side, side, 3)
    return np.ascontiguousarray(chosen.transpose(0, 2, 1, 3, 4)).reshape(image.shape)


def draw_stickers(source: DrawSource, image: Image, parameters: Tiled) -> Mapping[str, NDArray[np.integer[Any]]]:
    """Draw tiles and their places. Quirks: a first set of places is not used, and no tile touches the last edges."""
    count, (height, width) = parameters.count, image.shape[:2]
    tile = source.integers(0, len(checked_bank(parameters)), (1, count))[0]
    source.integers(0, height - STICKER, (1, count, 2))
    places = source.integers(0, (height - STICKER) * (width - STICKER), (count,))
    return {"tile": tile, "row": places // (width - STICKER), "column": places % (width - STICKER)}


def paste_stickers(image: Image, parameters: Tiled, draws: Mapping[str, Any]) -> Image:
    """Return the image with tiles pasted over it, in order."""
    bank, out = checked_bank(parameters), image.copy()
    tile, row, column = (np.asarray(draws[key], np.int64) for key in ("tile", "row", "column"))
    if not tile.shape == row.shape == column.shape or tile.ndim != 1:
        raise ValueError("draws tile, row and column must be lists of one length")
    for name, values, limit in (
        ("tile", tile, len(bank)),
        ("row", row, image.shape[0] - STICKER + 1),
        ("column", column, image.shape[1] - STICKER + 1),
    ):
        if values.size and not (values.min() >= 0 and values.max() < limit):
            raise ValueError(f"draw {name!r} must be 0 <= {name} < {limit}, not {values.min()}..{values.max()}")
    kernels.paste(out.reshape(len(out), -1), bank[tile].reshape(-1, STICKER, 3 * STICKER), row, column)
    return out
