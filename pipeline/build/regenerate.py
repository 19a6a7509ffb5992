"""A random selection of a data set, made again from its source and compared."""

from __future__ import annotations

import json
import random

import manifests
from manifests import Row
from pipeline.datasets.built import Built
from pipeline.datasets.findings import Findings
from pipeline.datasets.opening import open_built
from pipeline.datasets.samples import payload_digest
from pipeline.errors import SampleError, UnreachableError, UserError
from pipeline.render.renderer import Renderer, source_digest
from pipeline.software import versions
from pipeline.sources.base import Source, SourceImage
from pipeline.sources.kinds import open_source
from pipeline.storage import SMALL_FILE, open_store, places
from pipeline.text import shown
from pipeline.transforms.family import Condition

MAX_SIDE = 2048
"""Largest value in a recipe's ``prepare.steps`` that is rendered: recipes may come from others, and some
transforms hold many copies of an image at once."""


def regenerate(output: str, source: str, samples: int, seed: int, frost_folder: str | None = None) -> Findings:
    """Make randomly chosen samples again and compare their digests.

    Args:
        output: Folder or URL of the data set.
        source: Folder or URL of its photographs.
        samples: Number of samples.
        seed: Of the random choice.
        frost_folder: Folder of the frost textures, if not the installed ones.

    Returns:
        What was found.

    Raises:
        UserError: Data set or source cannot be read.
    """
    data_set = open_built(output)
    recipe = data_set.recipe
    side = max((value for _, value in recipe.prepare.steps), default=0)
    if side > MAX_SIDE:
        raise UserError(
            f"{output} has a recipe with prepare.steps up to {side:g}: here at most {MAX_SIDE} are made again"
        )
    images = open_source(recipe.source.kind, source)
    renderer = Renderer(recipe, frost_folder)
    chosen = _choose(data_set, samples, seed)
    found = Findings(samples=len(chosen))
    listed = _find(images, {row.source_id for row in chosen})
    for row in chosen:
        if row.source_id not in listed:
            found.fault(row.key, f"its source image {row.origin} is not in {source}")
        elif what := _compare(row, images, listed[row.source_id], renderer):
            found.fault(row.key, what)
    if found.faults and recipe.software != versions(recipe.family.libraries):
        built = ", ".join(f"{name} {version}" for name, version in recipe.software.items())
        found.fault("software", f"this machine has other versions than the build, which had {shown(built)}")
    return found


def last_source(output: str) -> str:
    """Return the source that this user built the data set from, on this machine. Raises UserError if unknown.

    The data set's own files are not trusted with it: they may come from anybody, and the source is opened.
    """
    known = places.recall(output, "source")
    if known is None:
        raise UserError(f"{output} was not built here: give --source PATH, where the photographs are{_hint(output)}")
    return known


def _hint(output: str) -> str:
    """Return what the latest run says of its source, for people to read only."""
    store = open_store(output)
    try:
        runs = list(store.listing("runs", ".json"))
        source = str(json.loads(store.read(runs[-1], limit=SMALL_FILE))["source"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return ""
    return f" (the latest run names {shown(source)})"


def _choose(data_set: Built, samples: int, seed: int) -> list[Row]:
    """Return a uniform choice of rows in the manifest's order, by reservoir sampling: the length is not known."""
    generator, kept = random.Random(seed), list[tuple[int, Row]]()
    for index, row in enumerate(data_set.rows()):
        if len(kept) < samples:
            kept.append((index, row))
        elif (place := generator.randrange(index + 1)) < samples:
            kept[place] = (index, row)
    return [row for _, row in sorted(kept, key=lambda pair: pair[0])]


def _find(images: Source, wanted: set[str]) -> dict[str, SourceImage]:
    return {image.id: image for image in images if image.id in wanted}


def _compare(row: Row, images: Source, image: SourceImage, renderer: Renderer) -> str | None:
    """Return what differs, or None."""
    try:
        data = images.read(image)
    except (OSError, SampleError) as error:
        return None if row.status == manifests.FAILED else f"its source image cannot be read: {error}"
    if row.source_sha256 is not None and source_digest(data) != row.source_sha256:
        return f"its source image {image.origin} has changed since the build"
    try:
        members = renderer.members(data, row.source_id, Condition(row.transform, row.level), image.box)
    except (UserError, UnreachableError):
        raise
    except Exception as error:  # whatever a transform raises is a failed row of the build, too
        return None if row.status == manifests.FAILED else f"cannot be made again: {type(error).__name__}: {error}"
    if row.status == manifests.FAILED:
        return f"is recorded as failed ({row.error}), but can be made: build with --retry-failed"
    same = payload_digest(members.values()) == row.payload_sha256
    return None if same else "comes out differently when it is made again"
