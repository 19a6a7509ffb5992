"""The recipe of a build or a rendered data set, from the arguments of a public function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

from pipeline.config import integer
from pipeline.errors import UserError
from pipeline.recipes import library
from pipeline.recipes.choices import Choices
from pipeline.recipes.levels import parse_levels
from pipeline.recipes.schema import Recipe
from pipeline.sources.listed_classes import read_classes
from robustshards._arguments import Location, as_list, location


def chosen_recipe(
    recipe: Location | Recipe,
    *,
    only: Any = None,
    grid: Any = None,
    severities: Any = None,
    difficulty: Any = None,
    classes: Any = None,
    fields: Any = None,
    **choices: Any,
) -> Recipe:
    """Return a recipe with the changes of the arguments.

    Args:
        recipe: Name of a shipped recipe, path of a .toml file, or a recipe.
        only: Transforms or groups.
        grid: Groups of ImageNet-S.
        severities: Levels.
        difficulty: Levels, by another name.
        classes: Class names in label order, or a text file of them.
        fields: Other fields of the recipe, by table.
        choices: Further arguments of ``Choices``.

    Raises:
        UserError: If an argument is invalid.
    """
    changes = Choices(
        classes=_classes(classes), only=_names(only), grid=_names(grid), levels=_levels(severities, difficulty),
        fields=_fields(fields), **choices,
    )  # fmt: skip
    return changes.applied_to(recipe if isinstance(recipe, Recipe) else library.load(location(recipe, "recipe")))


def _names(names: str | Iterable[str] | None) -> list[str] | None:
    """Return the names as a list, split at commas; raise UserError for other types."""
    if names is None:
        return None
    listed = as_list(names)
    if not all(isinstance(name, str) for name in listed):
        raise UserError(f"invalid names {names!r}: pass text, for example 'noise,fog' or ['noise', 'fog']")
    return [word.strip() for name in listed for word in name.split(",") if word.strip()]


def _classes(classes: Location | Sequence[str] | None) -> list[str] | None:
    """Return the class names of a list or of a text file; raise UserError for other types, or an empty list."""
    if classes is None:
        return None
    if isinstance(classes, str | PathLike):
        return read_classes(location(classes, "classes"))
    names = as_list(classes)
    if not names or not all(isinstance(name, str) for name in names):
        raise UserError(f"invalid classes {str(classes)[:80]}: pass class names in label order, or a text file of them")
    return names


def _levels(severities: Any, difficulty: Any) -> list[int] | None:
    """Return the levels from whichever argument has them; raise UserError for both, or for invalid levels."""
    if severities is not None and difficulty is not None:
        raise UserError("severities and difficulty are two names for the same argument: pass one of them")
    levels = difficulty if severities is None else severities
    return None if levels is None else [level for each in as_list(levels) for level in _parsed(each)]


def _parsed(level: Any) -> list[int]:
    """Return a level, or the levels of a text, as a list; raise UserError if they are invalid."""
    return parse_levels(level) if isinstance(level, str) else [integer(level, "level", minimum=0)]


def _fields(fields: Any) -> Mapping[str, Any]:
    """Return the changes of a recipe as a mapping; raise UserError for other types."""
    changes = {} if fields is None else fields
    if not isinstance(changes, Mapping) or not all(isinstance(name, str) for name in changes):
        raise UserError(
            f"invalid fields {fields!r}: pass a mapping of tables, for example {{'encoder': {{'quality': 90}}}}"
        )
    return changes
