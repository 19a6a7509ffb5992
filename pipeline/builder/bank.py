"""The bank that a data set needs, made of the photographs and files that its recipe names."""

from collections.abc import Callable, Iterator, Sequence
from heapq import nsmallest
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corruptions.registry import unknown
from pipeline.builder.plan import listing_digest
from pipeline.datasets.opening import read_recipe
from pipeline.datasets.paths import RECIPE_FILE, file_digest
from pipeline.errors import UnreachableError, UserError
from pipeline.recipes.schema import Recipe
from pipeline.recipes.tables import BankTable
from pipeline.render.bank import bank_file, digest_of, load_bank, remember_bank
from pipeline.render.renderer import Renderer
from pipeline.sources.base import Source, SourceImage
from pipeline.sources.kinds import AUTO, detect, open_source
from pipeline.sources.threads import read_in_threads
from pipeline.storage import LARGEST_READ, READERS, Store
from pipeline.text import counted, shown
from pipeline.transforms.family import BankNeeds

MEASURED_TILES = 300
"""Number of photographs from which a bank is made for an estimate."""

Entries = Sequence[NDArray[np.uint8]]


def with_bank(recipe: Recipe, location: str, limit: int | None = None, store: Store | None = None) -> Recipe:
    """Return a recipe with the bank that it needs, which is then open; without one if it needs none.

    Args:
        recipe: The recipe.
        location: Folder or URL of the source of the data set, whose photographs a bank may use.
        limit: Largest number of photographs, for estimates. None for that of the recipe.
        store: The output. A bank of the same photographs and files that it has is used as it is.

    Raises:
        UserError: A source or file is missing or cannot be read, or none of the photographs can be decoded.
        UnreachableError: The source does not respond.
    """
    needs = recipe.bank_needs
    if needs is None:
        return recipe.model_copy(update={"bank": None})
    table = recipe.bank or BankTable()
    _check_given(recipe.name, needs, table)
    place = table.source or location
    images, opened = _photographs(recipe, table, place, limit) if needs.arrays else ([], None)
    files = {name: Path(path) for name, path in (table.files or {}).items()}
    made_of = {"listing": listing_digest(images) if images else None, "digests": _digests(files) or None}
    table = table.model_copy(update=made_of)
    if store and (kept := _kept(store, recipe, needs, table)):
        return kept
    bank: dict[str, NDArray[np.uint8]] = {}
    if opened:
        entries = _entries(images, Renderer(recipe), opened, recipe, needs)
        bank = dict(zip(needs.arrays, _stacked(entries, len(images)), strict=False))
        if not bank:
            raise UserError(
                f"{recipe.name} needs {needs.title}, but none of {counted(len(images), 'image')} of {place} can be "
                "decoded: check this source, or name another one with --set bank.source=PATH"
            )
    tiles = len(next(iter(bank.values()), ()))
    bank |= {name: _content(name, files[name], recipe, needs) for name in needs.files if name in files}
    for array in bank.values():
        array.flags.writeable = False
    digest = digest_of(bank)
    remember_bank(digest, bank)
    written = {"tiles": tiles, "damaged": len(images) - tiles, "sha256": digest}
    return recipe.model_copy(update={"bank": table.model_copy(update=written)})


def _check_given(name: str, needs: BankNeeds, table: BankTable) -> None:
    """Check that the recipe names the photographs and files that its transforms need. Raises UserError."""
    given = table.files or {}
    for each in given:
        if each not in needs.files:
            raise UserError(f"bank.files: {unknown('file', each, allowed=needs.files)}")
    wanted = [f'{each}="FILE"' for each in needs.files if each not in given]
    remedies = [] if not needs.arrays or needs.own or table.source else ["--set bank.source=FOLDER"]
    remedies += [f"--set 'bank.files={{{', '.join(wanted)}}}'"] if wanted else []
    if remedies:
        raise UserError(f"{name} needs {needs.title}: give {' and '.join(remedies)}")


def _photographs(
    recipe: Recipe, table: BankTable, place: str, limit: int | None
) -> tuple[list[SourceImage], Callable[[], Source]]:
    """Return the photographs of a bank, and a function that opens their source."""
    own = not table.source
    kind = (recipe.source.kind if own else table.kind).replace(AUTO, "") or detect(place)

    def opened() -> Source:
        return open_source(kind, place, part=recipe.source) if own else open_source(kind, place)

    wanted = min(table.limit, limit or table.limit)
    return nsmallest(wanted, opened(), key=lambda image: image.id), opened


def _digests(files: dict[str, Path]) -> dict[str, str]:
    """Return the SHA-256 of each file. Raises UserError if one cannot be read."""
    for path in files.values():
        if path.exists() and not path.is_file():  # devices can be endless
            raise UserError(f"bank.files: {shown(str(path))} is not a file")
    try:
        return {name: file_digest(path) for name, path in files.items()}
    except OSError as error:
        raise UserError(f"bank.files: cannot read {shown(str(error.filename))}: {error.strerror}") from error


def _content(name: str, path: Path, recipe: Recipe, needs: BankNeeds) -> NDArray[np.uint8]:
    """Return the content of a file as an array. Raises UserError."""
    try:
        return needs.files[name](path, recipe.prepare.steps, (recipe.bank and recipe.bank.text) or "")
    except (OSError, ValueError) as error:
        raise UserError(f"bank.files: {name}: {error}") from error


def _kept(store: Store, recipe: Recipe, needs: BankNeeds, table: BankTable) -> Recipe | None:
    """Return the recipe with the bank of the output, if it is made of the same photographs and files.

    Raises:
        UserError: It was changed.
    """
    old = read_recipe(store).bank if store.size(RECIPE_FILE) >= 0 else None
    if not old or old.made_of != table.made_of:
        return None
    if any(store.size(bank_file(name)) < 0 for name in (*needs.arrays, *(table.files or {}))):
        return None
    written = {name: getattr(old, name) for name in ("tiles", "damaged", "sha256")}
    kept = recipe.model_copy(update={"bank": table.model_copy(update=written)})
    load_bank(store, kept)
    return kept


def _entries(
    images: list[SourceImage], renderer: Renderer, opened: Callable[[], Source], recipe: Recipe, needs: BankNeeds
) -> Iterator[Entries]:
    """Yield the entries of each photograph, empty for one that cannot be read or decoded."""

    def read(source: Source, image: SourceImage) -> Entries:
        if image.size > LARGEST_READ:
            return []
        try:
            photograph = np.asarray(renderer.decode(source.read(image), image.box), np.uint8)
            return needs.entries(photograph, recipe.prepare.steps, recipe.prepare.resize)
        except (UserError, UnreachableError):
            raise
        except Exception:  # readers of damaged files can raise any exception
            return []

    return read_in_threads(images, opened, read, READERS)


def _stacked(entries: Iterator[Entries], most: int) -> list[NDArray[np.uint8]]:
    """Return the arrays of all entries; nothing if all are empty. Raises UserError if their sizes differ."""
    arrays: list[NDArray[np.uint8]] = []
    count = 0
    for each in filter(len, entries):
        arrays = arrays or [np.empty((most, *entry.shape), np.uint8) for entry in each]
        for array, entry in zip(arrays, each, strict=True):
            if entry.shape != array.shape[1:]:
                raise UserError(
                    f"the photographs of the bank become {entry.shape[1]} x {entry.shape[0]} and {array.shape[2]} x "
                    f"{array.shape[1]} pixels: end prepare.steps with a step such as center_crop"
                )
            array[count] = entry
        count += 1
    return [array[:count] for array in arrays]


def bank_conflicts(existing: Recipe, requested: Recipe) -> list[str]:
    """Return how the banks of two recipes differ; nothing if no transform of the first needs one."""
    needs = requested.bank_needs or existing.bank_needs
    if not needs or not set(needs.transforms) & set(existing.family.select(existing.transforms.only)):
        return []
    old, new = existing.bank or BankTable(), requested.bank or BankTable()
    if old.sha256 == new.sha256:
        return []
    was, now = old.digests or {}, new.digests or {}
    return [f"bank.sha256 is {_named(old)}, not {_named(new)}"] + [
        f"bank.files.{name} has the sha256 {was[name][:12]}..., not {now[name][:12]}..."
        for name in sorted(was.keys() & now.keys())
        if was[name] != now[name]
    ]


def _named(bank: BankTable) -> str:
    of = f" of {counted(bank.tiles, 'photograph')}" if bank.tiles else ""
    return f"{bank.sha256[:12]}...{of}" if bank.sha256 else "none"
