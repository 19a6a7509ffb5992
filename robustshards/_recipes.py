"""The recipe of a build or a rendered data set, from the arguments of a public function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

from pipeline.config import integer
from pipeline.datasets.base import DataSet
from pipeline.errors import UserError
from pipeline.recipes import library
from pipeline.recipes.choices import Choices
from pipeline.recipes.levels import parse_levels
from pipeline.recipes.schema import Recipe
from pipeline.sources.views import read_classes
from pipeline.transforms import seeds
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


def sample_seed(recipe: Location | Recipe | DataSet, source_id: str, transform: str, level: int) -> int:
    """Return the seed from which a build draws the random numbers of a sample.

    ``corrupt(prepared, row.transform, row.level, profile=row.profile, seed=seed)`` with the seed of a row of the
    manifest gives the pixels of its sample before encoding, where ``prepared`` is the clean image after the steps of
    the recipe. For sequences, ``perturb(photograph, row.transform, difficulty=row.level, profile=row.profile,
    seed=seed)`` does.

    Args:
        recipe: The recipe of the data set: what ``open`` or ``render`` returns, a ``Recipe``, the name of a shipped
            recipe, or the path of a .toml file, for example ``recipe.toml`` of a built data set.
        source_id: Id of the source image, which is the column ``source_id`` of the manifest.
        transform: Name of the transform.
        level: Level of the sample.

    Returns:
        The seed, 0 <= seed < 2**128.

    Raises:
        UserError: If an argument is invalid, or the data set has no recipe because other tools made it.
    """
    chosen = getattr(recipe, "recipe", recipe)
    if isinstance(chosen, DataSet):
        raise UserError(f"{chosen.name} has no recipe, since other tools made it: its seeds are unknown")
    if not isinstance(source_id, str) or not isinstance(transform, str):
        raise UserError(f"invalid source_id {source_id!r:.80} or transform {transform!r:.80}: pass a str")
    seed = (chosen if isinstance(chosen, Recipe) else library.load(location(chosen, "recipe"))).seed
    return seeds.sample_seed(seed, source_id, transform, integer(level, "level", minimum=0))


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
