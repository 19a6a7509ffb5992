"""The bank of tiles that a data set needs, made of the photographs that its recipe names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import nsmallest

import numpy as np
from numpy.typing import NDArray

from corruptions.laion_c.tiles import tiles_of
from pipeline.errors import UnreachableError, UserError
from pipeline.recipes.schema import BankTable, Recipe
from pipeline.render.bank import digest_of, remember_bank
from pipeline.render.renderer import Renderer
from pipeline.sources.base import Source, SourceImage
from pipeline.sources.kinds import AUTO, detect, open_source
from pipeline.sources.threads import read_in_threads
from pipeline.storage import LARGEST_READ, READERS
from pipeline.text import counted

MEASURED_TILES = 300
"""Number of photographs whose tiles are made for an estimate."""

Tiles = list[NDArray[np.uint8]]


def with_bank(recipe: Recipe, location: str, limit: int | None = None) -> Recipe:
    """Return a recipe with the bank that it needs, which is then open; without one if it needs none.

    Args:
        recipe: The recipe.
        location: Folder or URL of the source of the data set, which the recipe's bank uses if it names no other.
        limit: Largest number of photographs, for estimates. None for that of the recipe.

    Raises:
        UserError: The source cannot be opened, or none of its photographs can be decoded.
        UnreachableError: The source does not respond.
    """
    if not recipe.needs_bank:
        return recipe.model_copy(update={"bank": None})
    table = recipe.bank or BankTable()
    own = not table.source
    place = table.source or location
    kind = (recipe.source.kind if own else table.kind).replace(AUTO, "") or detect(place)

    def opened() -> Source:
        return open_source(kind, place, part=recipe.source) if own else open_source(kind, place)

    wanted = min(table.limit, limit or table.limit)
    images = nsmallest(wanted, opened(), key=lambda image: image.id)
    renderer, sides = Renderer(recipe), recipe.family.tile_sides
    made = [tiles for tiles in _tiles(images, renderer, opened, sides) if tiles]
    if not made:
        raise UserError(
            f"{recipe.name} needs tiles of other photographs, but none of {counted(len(images), 'image')} of {place} "
            "can be decoded: check this source, or name another one with --set bank.source=PATH"
        )
    bank = {side: np.stack([tiles[number] for tiles in made]) for number, side in enumerate(sides)}
    for tiles in bank.values():
        tiles.flags.writeable = False
    digest = digest_of(bank)
    remember_bank(digest, bank)
    written = {"tiles": len(made), "damaged": len(images) - len(made), "sha256": digest}
    return recipe.model_copy(update={"bank": table.model_copy(update=written)})


def _tiles(
    images: list[SourceImage], renderer: Renderer, opened: Callable[[], Source], sides: tuple[int, ...]
) -> Iterator[Tiles]:
    """Yield the tiles of each photograph, empty for one that cannot be read or decoded."""

    def read(source: Source, image: SourceImage) -> Tiles:
        if image.size > LARGEST_READ:
            return []
        try:
            return tiles_of(np.asarray(renderer.decode(source.read(image), image.box), np.uint8), sides)
        except (UserError, UnreachableError):
            raise
        except Exception:  # readers of damaged files can raise any exception
            return []

    return read_in_threads(images, opened, read, READERS)


def bank_conflicts(existing: Recipe, requested: Recipe) -> list[str]:
    """Return how the banks of two recipes differ; nothing if one of them has none."""
    old, new = existing.bank, requested.bank
    if not old or not new or old.sha256 == new.sha256:
        return []
    return [f"bank.sha256 is {old.sha256[:12]}... of {old.tiles:,} tiles, not {new.sha256[:12]}... of {new.tiles:,}"]
