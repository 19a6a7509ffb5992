"""Recipes by name or path: those that come with the package, and the user's own."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib import resources
from typing import Any

from pipeline.config import read_toml, validated
from pipeline.errors import UserError
from pipeline.recipes.schema import Recipe
from pipeline.storage import SMALL_FILE, LocalStore, local_path
from pipeline.transforms import clean

_SHIPPED = resources.files(__package__).joinpath("shipped")


CLEAN = "-clean"
"""Ending of the name of a clean companion."""


def editions() -> tuple[str, ...]:
    """Names of the shipped recipes that have a file of their own."""
    files = _SHIPPED.iterdir()
    return tuple(sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")))


def shipped() -> tuple[str, ...]:
    """Names of the recipes that come with the package: each edition, and its clean companion."""
    return tuple(sorted(name + ending for name in editions() for ending in ("", CLEAN)))


def load(name: str) -> Recipe:
    """Return a shipped recipe by name, or the user's own by its path.

    Raises:
        UserError: There is no such recipe, or it is invalid; the message names the file and the field.
    """
    edition = name.removesuffix(CLEAN)
    if edition in editions():
        recipe = parse(_SHIPPED.joinpath(f"{edition}.toml").read_bytes(), f"recipe {edition}")
        return recipe if edition == name else clean_companion(recipe)
    path = local_path(name)
    if path.suffix != ".toml":
        raise UserError(
            f"no recipe is called {name!r}; shipped: {', '.join(shipped())}; or give the path of a .toml file"
        )
    try:
        content = LocalStore(str(path.parent)).read(path.name, limit=SMALL_FILE)
    except OSError as error:
        raise UserError(f"cannot read the recipe {path}: {error.strerror}") from error
    return parse(content, str(path))


def parse(text: bytes | str, where: str) -> Recipe:
    """Return the recipe in a TOML text; one that ``extends`` a shipped recipe states only what differs from it.

    Raises UserError that names ``where`` and the field.
    """
    content = read_toml(text, where)
    if "extends" not in content:
        return validated(Recipe, content, where)
    base = content.pop("extends")
    if base not in editions():
        raise UserError(
            f"{where} is not valid: extends: {base!r} is no shipped recipe; allowed: {', '.join(editions())}"
        )
    return load(base)._changed(content, where)


def clean_companion(recipe: Recipe) -> Recipe:
    """Return the recipe of the same images, prepared and stored in the same way, but not transformed."""
    return recipe.changed(
        name=recipe.name + CLEAN,
        title=f"The prepared clean images of {recipe.name}, for clean error",
        transforms={"family": clean.FAMILY.name, "only": [clean.CLEAN.transform], "levels": [clean.CLEAN.level]},
    )


def parse_fields(texts: Iterable[str]) -> dict[str, Any]:
    """Return ``table.field=value`` texts as changes for :meth:`Recipe.changed`; a value is TOML, or a bare word.

    Raises UserError for a text of another form.
    """
    changes: dict[str, Any] = {}
    for text in texts:
        path, equals, value = text.partition("=")
        table, dot, field = path.strip().partition(".")
        if not equals or not table or (dot and not field):
            raise UserError(f"{text!r} sets no field: give table.field=value, as in encoder.quality=90")
        try:
            parsed = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            parsed = value.strip()
        except (ValueError, RecursionError):
            raise UserError(f"{path.strip()}: the value is nested too deeply, or a number is too long") from None
        if dot:
            changes.setdefault(table, {})[field] = parsed
        else:
            changes[table] = parsed
    return changes
