"""The checks before the work of a build."""

from dataclasses import replace

from pipeline.builder.bank import with_bank
from pipeline.builder.compatibility import FOLDERS
from pipeline.builder.overlap import check_overlap
from pipeline.builder.plan import Plan, make_plan
from pipeline.builder.settings import MakingSettings
from pipeline.execution.resumable import Preparing
from pipeline.images.fingerprints import decoder_fingerprints, resizer_fingerprints
from pipeline.recipes.schema import Recipe
from pipeline.render.warm_up import try_transforms
from pipeline.sources.base import Source
from pipeline.sources.kinds import AUTO, KINDS, detect, open_source
from pipeline.storage import open_store

TESTING = "testing every transform once; a first run compiles kernels for a minute"
"""What the user reads before :func:`~pipeline.render.warm_up.try_transforms`."""


def prepare(asked: MakingSettings, watcher: Preparing) -> tuple[Plan, Source]:
    """Check settings and return the plan and the opened source. The output is not read yet.

    Raises:
        UserError: An input is invalid, or a transform cannot run on this machine.
    """
    recipe = asked.changed_recipe()
    conditions = recipe.conditions() if recipe.is_mirror else ()
    check_overlap(asked.source, asked.out, {*FOLDERS, *(each.transform for each in conditions)})
    recipe = with_detected_kind(recipe, asked.source)
    recipe = recipe.canonical(
        recipe.installed(), decoder_fingerprints(recipe.used_decoders()), resizer_fingerprints(recipe.used_resizers())
    )
    source = open_source(recipe.source.kind, asked.source, asked.ids, recipe.source.classes, recipe.source)
    watcher.preparing(f"listing {source.location}: {KINDS[recipe.source.kind].description}")
    plan = make_plan(recipe, source)
    if needs := recipe.bank_needs:
        watcher.preparing(f"making the bank: {needs.title}")
    recipe = with_bank(recipe, asked.source, store=open_store(asked.out))
    plan = replace(plan, recipe=plan.recipe.model_copy(update={"bank": recipe.bank}))
    watcher.preparing(TESTING)
    try_transforms(recipe, asked.frost_folder)
    return plan, source


def with_detected_kind(recipe: Recipe, source: str) -> Recipe:
    """Return the recipe with the kind of its source, detected if it is "auto". Raise UserError if it cannot be."""
    return recipe.changed(source={"kind": detect(source)}) if recipe.source.kind == AUTO else recipe
