"""The bank of tiles of a data set: arrays beside its shards, and those that this process has open, by their digest."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from math import prod

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import UserError
from pipeline.recipes.schema import Recipe
from pipeline.storage import Store
from pipeline.storage.arrays import read_header

Bank = Mapping[int, NDArray[np.uint8]]
"""Side in pixels -> tiles, uint8 (N, side, side, 3)."""

FOLDER = "bank"
"""Folder of a data set with one array file for each side."""

_OPEN: dict[str, Bank] = {}
"""Digest -> bank. Renderers look up what their recipe names, so that no function in between hands it on."""


def tile_file(side: int) -> str:
    """Return the path of the tiles of one side in a data set."""
    return f"{FOLDER}/{side}.npy"


def digest_of(bank: Bank) -> str:
    """Return the hexadecimal SHA-256 of all tiles."""
    state = hashlib.sha256()
    for side, tiles in sorted(bank.items()):
        state.update(f"{side} {len(tiles)}\n".encode())
        state.update(np.ascontiguousarray(tiles).data)
    return state.hexdigest()


def remember_bank(sha256: str, bank: Bank) -> None:
    """Keep a bank open for the renderers of this process."""
    _OPEN[sha256] = bank


def bank_of(recipe: Recipe) -> Bank:
    """Return the open bank of a recipe; empty if it needs none, or has none yet."""
    return _OPEN.get(recipe.bank.sha256, {}) if recipe.bank else {}


def publish_bank(store: Store, recipe: Recipe) -> None:
    """Write those arrays of the open bank of a recipe that a data set lacks."""
    for side, tiles in bank_of(recipe).items():
        file = io.BytesIO()
        np.save(file, tiles, allow_pickle=False)
        if store.size(tile_file(side)) != len(file.getbuffer()):
            store.publish_bytes(file.getvalue(), tile_file(side))


def load_bank(store: Store, recipe: Recipe) -> None:
    """Open the bank of a data set, memory-mapped. Does nothing if its recipe needs none, or if it is open.

    Raises:
        UserError: It is missing, or differs from the digest in the recipe.
    """
    table = recipe.bank
    if table is None or not table.sha256 or table.sha256 in _OPEN:
        return
    try:
        bank = {side: _mapped(store, side, table.tiles) for side in recipe.family.tile_sides}
    except (OSError, ValueError) as error:
        raise UserError(
            f"cannot read the tiles in {store.root}/{FOLDER}: {error}; restore them, or make the data set again"
        ) from error
    if digest_of(bank) != table.sha256:
        raise UserError(
            f"the tiles in {store.root}/{FOLDER} were changed: their sha256 differs from bank.sha256 of the recipe; "
            "restore them, or make the data set again"
        )
    remember_bank(table.sha256, bank)


def _mapped(store: Store, side: int, count: int) -> NDArray[np.uint8]:
    """Return the tiles of one side as a read-only, memory-mapped array. Raises OSError, or ValueError."""
    path, shape = store.path(tile_file(side)), (count, side, side, 3)
    with open(path, "rb") as file:
        header = read_header(file, path.stat().st_size)
    if header.shape != shape or header.dtype != np.uint8 or header.by_columns:
        raise ValueError(f"{tile_file(side)} has {header.dtype} {header.shape}, not uint8 {shape}")
    mapped = np.memmap(path, np.uint8, "r", offset=header.offset, shape=prod(shape))
    return mapped.view(np.ndarray).reshape(shape)
