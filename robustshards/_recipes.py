"""The seeds of samples."""

from __future__ import annotations

from pipeline.datasets.base import DataSet
from pipeline.errors import UserError
from pipeline.recipes import library
from pipeline.recipes.schema import Recipe
from pipeline.settings import integer
from pipeline.transforms.family import Condition
from robustshards._arguments import Location, location


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
    found = chosen if isinstance(chosen, Recipe) else library.load(location(chosen, "recipe"))
    return found.seed_of(source_id, Condition(transform, integer(0).checked(level, "level")))
