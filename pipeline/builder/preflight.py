"""What a build is asked to do, and the checks before its work."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace

from pipeline.builder.bank import with_bank
from pipeline.builder.compatibility import FOLDERS
from pipeline.builder.overlap import check_overlap
from pipeline.builder.plan import Plan, make_plan
from pipeline.execution.pools import Executor
from pipeline.execution.resumable import Preparing
from pipeline.images.fingerprints import decoder_fingerprints, resizer_fingerprints
from pipeline.recipes.schema import Recipe
from pipeline.render.warm_up import try_transforms
from pipeline.sources.base import Source
from pipeline.sources.kinds import AUTO, KINDS, detect, open_source
from pipeline.storage import open_store

TESTING = "testing every transform once; a first run compiles kernels for a minute"
"""What the user reads before :func:`~pipeline.render.warm_up.try_transforms`."""


@dataclass(frozen=True)
class BuildRequest:
    """The settings of a build, or of a data set that is rendered. Those from ``workers`` on do not change any byte.

    Attributes:
        recipe: What to make.
        source: Folder or URL of the source images.
        output: Folder or URL of the data set.
        frost_folder: Folder of the frost textures; None for the installed ones.
        ids: File that selects images by their ids, or None for all images.
        workers: Number of workers; None for one per CPU.
        address: Address of a Ray cluster to join, or None.
        executor: auto, ray or local.
        retry_failed: Whether to remake shards that have failed samples.
        max_bytes: Maximum size of all shards, in bytes.
        copy_failed: Whether a mirror gets copies of the source images that failed.
    """

    recipe: Recipe
    source: str
    output: str
    _: KW_ONLY
    frost_folder: str | None = None
    ids: str | None = None
    workers: int | None = None
    address: str | None = None
    executor: str = Executor.AUTO
    retry_failed: bool = False
    max_bytes: float = math.inf
    copy_failed: bool = False


def prepare(request: BuildRequest, watcher: Preparing) -> tuple[Plan, Source]:
    """Check the request and return the plan and the source. The output is not read yet.

    Args:
        request: The settings of the data set.
        watcher: Observer of the steps.

    Returns:
        The plan and the opened source.

    Raises:
        UserError: An input is invalid, or a transform cannot run on this machine.
    """
    conditions = request.recipe.conditions() if request.recipe.is_mirror else ()
    check_overlap(request.source, request.output, {*FOLDERS, *(each.transform for each in conditions)})
    recipe = with_detected_kind(request.recipe, request.source)
    recipe = recipe.canonical(
        recipe.installed(),
        decoder_fingerprints(recipe.used_decoders()),
        resizer_fingerprints(recipe.used_resizers()),
    )
    source = open_source(recipe.source.kind, request.source, request.ids, recipe.source.classes, recipe.source)
    watcher.preparing(f"listing {source.location}: {KINDS[recipe.source.kind].description}")
    plan = make_plan(recipe, source)
    if needs := recipe.bank_needs:
        watcher.preparing(f"making the bank: {needs.title}")
    recipe = with_bank(recipe, request.source, store=open_store(request.output))
    plan = replace(plan, recipe=plan.recipe.model_copy(update={"bank": recipe.bank}))
    watcher.preparing(TESTING)
    try_transforms(recipe, request.frost_folder)
    return plan, source


def with_detected_kind(recipe: Recipe, source: str) -> Recipe:
    """Return the recipe with the kind of its source, which is detected if the recipe has "auto".

    Args:
        recipe: The recipe.
        source: Folder or URL of the source images.

    Raises:
        UserError: The kind cannot be detected.
    """
    return recipe.changed(source={"kind": detect(source)}) if recipe.source.kind == AUTO else recipe
