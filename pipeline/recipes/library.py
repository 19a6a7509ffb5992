"""The recipe library: shipped recipes by name, and recipes of users by path."""

import tomllib
from collections.abc import Iterable
from importlib import resources
from typing import Any

from corruptions.registry import unknown
from pipeline.config import read_toml
from pipeline.errors import UserError
from pipeline.images.encoders import Png
from pipeline.recipes.schema import Recipe, read_recipe
from pipeline.storage import SMALL_FILE, LocalStore, local_path
from pipeline.transforms import clean

_SHIPPED = resources.files(__package__).joinpath("shipped")


CLEAN = "-clean"
"""Suffix of the names of clean companions."""


def editions() -> tuple[str, ...]:
    """Return the names of the shipped recipe files."""
    files = _SHIPPED.iterdir()
    return tuple(sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")))


def shipped() -> tuple[str, ...]:
    """Return the names of all shipped recipes: each edition and its clean companion."""
    return tuple(sorted(name + ending for name in editions() for ending in ("", CLEAN)))


def load(name: str) -> Recipe:
    """Load a shipped recipe by name, or a .toml file by path.

    Raises:
        UserError: The recipe does not exist or is invalid; the message names the file and the field.
    """
    edition = name.removesuffix(CLEAN)
    if edition in editions():
        recipe = parse(_SHIPPED.joinpath(f"{edition}.toml").read_bytes(), f"recipe {edition}")
        return recipe if edition == name else clean_companion(recipe)
    path = local_path(name)
    if path.suffix != ".toml":
        listed = unknown("recipe", edition, shipped=editions())
        raise UserError(f"{listed}; add {CLEAN} for the clean images of one, or use the path of a .toml file")
    try:
        content = LocalStore(str(path.parent)).read(path.name, limit=SMALL_FILE)
    except OSError as error:
        raise UserError(f"cannot read the recipe {path}: {error.strerror}") from error
    return parse(content, str(path))


def parse(text: bytes | str, where: str) -> Recipe:
    """Parse the TOML of a recipe, which contains only the differences if it ``extends`` a shipped one.

    Raises:
        UserError: The recipe is invalid; the message names ``where`` and the field.
    """
    content = read_toml(text, where)
    transforms = content.get("transforms")
    if isinstance(transforms, dict) and "severities" in transforms and "levels" not in transforms:
        transforms["levels"] = transforms.pop("severities")
    if "extends" not in content:
        return read_recipe(content, where)
    base = content.pop("extends")
    if base not in editions():
        raise UserError(f"{where} is not valid: extends: {unknown('recipe', base, allowed=editions())}")
    return load(base)._changed(content, where)


def clean_companion(recipe: Recipe) -> Recipe:
    """Return the recipe that prepares the same images without transforming them, and stores the exact pixels."""
    return recipe.changed(
        name=recipe.name + CLEAN,
        title=f"The prepared clean images of {recipe.name}, lossless, for clean error",
        encoder=None if recipe.encoder.lossless else {"name": Png().name},
        transforms={"family": clean.FAMILY.name, "only": [clean.CLEAN.transform], "levels": [clean.CLEAN.level]},
    )


def parse_fields(texts: Iterable[str]) -> dict[str, Any]:
    """Parse texts of the form ``table.field=value`` into changes for :meth:`Recipe.changed`.

    A value is TOML or a bare word.

    Raises:
        UserError: A text has another form.
    """
    changes: dict[str, Any] = {}
    for text in texts:
        path, equals, value = text.partition("=")
        table, dot, field = path.strip().partition(".")
        if not equals or not table or (dot and not field):
            raise UserError(f"invalid setting {text!r}: use table.field=value, for example encoder.quality=90")
        try:
            parsed = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            parsed = value.strip()
        except (ValueError, RecursionError):
            raise UserError(
                f"{path.strip()}: the value is nested too deeply or contains a number that is too long"
            ) from None
        fields = changes.setdefault(table, {}) if dot else changes
        name = field if dot else table
        if not isinstance(fields, dict) or name in fields:
            raise UserError(f"--set changes {table} twice: set {table} once, or its fields once each")
        fields[name] = parsed
    return changes
