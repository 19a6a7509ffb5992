"""The bank of a data set: arrays beside its shards, and those that this process has open, by their digest."""

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

Bank = Mapping[str, NDArray[np.uint8]]
"""Name -> array, uint8: one entry for each photograph, or the content of a file. In the order of the family."""

FOLDER = "bank"
"""Folder of a data set with one file for each array."""

_OPEN: dict[str, Bank] = {}
"""Digest -> bank. Renderers look up what their recipe names, so that no function in between hands it on."""


def bank_file(name: str) -> str:
    """Return the path of an array of the bank in a data set."""
    return f"{FOLDER}/{name}.npy"


def digest_of(bank: Bank) -> str:
    """Return the hexadecimal SHA-256 of all arrays."""
    state = hashlib.sha256()
    for name, array in bank.items():
        state.update(f"{name} {len(array)}\n".encode())
        state.update(np.ascontiguousarray(array).data)
    return state.hexdigest()


def remember_bank(sha256: str, bank: Bank) -> None:
    """Keep a bank open for the renderers of this process."""
    _OPEN[sha256] = bank


def bank_of(recipe: Recipe) -> Bank:
    """Return the open bank of a recipe; empty if it needs none, or has none yet."""
    return _OPEN.get(recipe.bank.sha256, {}) if recipe.bank else {}


def publish_bank(store: Store, recipe: Recipe) -> None:
    """Write those arrays of the open bank of a recipe that a data set lacks."""
    for name, array in bank_of(recipe).items():
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(array))
        if store.size(bank_file(name)) != head.tell() + array.nbytes:
            written = store.scratch()
            with written.open("wb") as file:
                np.save(file, array, allow_pickle=False)
            store.publish(written, bank_file(name))


def load_bank(store: Store, recipe: Recipe) -> None:
    """Open the bank of a data set, memory-mapped. Does nothing if its recipe needs none, or if it is open.

    Raises:
        UserError: It is missing, or differs from the digest in the recipe.
    """
    table, needs = recipe.bank, recipe.bank_needs
    if table is None or needs is None or not table.sha256 or table.sha256 in _OPEN:
        return
    try:
        arrays = {name: _mapped(store, name, table.tiles) for name in needs.arrays}
        bank = arrays | {name: _mapped(store, name) for name in needs.files if name in (table.files or {})}
    except (OSError, ValueError) as error:
        raise UserError(
            f"cannot read the {needs.title} in {store.root}/{FOLDER}: {error}; restore them, or make the data set again"
        ) from error
    if digest_of(bank) != table.sha256:
        raise UserError(
            f"the {needs.title} in {store.root}/{FOLDER} were changed: their sha256 differs from bank.sha256 of the "
            "recipe; restore them, or make the data set again"
        )
    remember_bank(table.sha256, bank)


def _mapped(store: Store, name: str, count: int | None = None) -> NDArray[np.uint8]:
    """Return an array as read-only and memory-mapped. Raises OSError, or ValueError."""
    path = store.path(bank_file(name))
    with open(path, "rb") as file:
        header = read_header(file, path.stat().st_size)
    if (
        header.dtype != np.uint8
        or header.by_columns
        or not header.shape
        or header.shape[0] != (count or header.shape[0])
    ):
        raise ValueError(f"{bank_file(name)} has {header.dtype} {header.shape}, not uint8 ({count or 'any'}, ...)")
    mapped = np.memmap(path, np.uint8, "r", offset=header.offset, shape=prod(header.shape))
    return mapped.view(np.ndarray).reshape(header.shape)
