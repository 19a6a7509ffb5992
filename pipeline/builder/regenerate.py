"""Deep verification: randomly chosen samples are rebuilt from the source and compared."""

import json
import random
from contextlib import suppress

import manifests
from manifests import Row
from pipeline.datasets.base import DataSet
from pipeline.datasets.findings import Findings
from pipeline.datasets.opening import open_made
from pipeline.datasets.samples import payload_digest
from pipeline.errors import SampleError, UnreachableError, UserError
from pipeline.render.bank import load_bank
from pipeline.render.renderer import Renderer, source_digest
from pipeline.sources.base import Source, SourceImage
from pipeline.sources.kinds import open_source
from pipeline.storage import SMALL_FILE, open_store, trusted_locations
from pipeline.text import shown
from pipeline.transforms.family import Condition

MAX_SIDE = 2048
"""Maximum value in ``prepare.steps`` of a recipe. A recipe may come from an untrusted author, and some transforms need
memory for many copies of an image."""


def regenerate(output: str, source: str, samples: int, seed: int, frost_folder: str | None = None) -> Findings:
    """Rebuild randomly chosen samples, compare their digests with the manifest, and return one fault per difference.

    Raises:
        UserError: The data set or the source cannot be read, or the recipe makes images that are too large.
    """
    data_set = open_made(output)
    recipe = data_set.recipe
    side = max((value for _, value in recipe.prepare.steps), default=0)
    if side > MAX_SIDE:
        raise UserError(
            f"cannot rebuild samples of {output}: its recipe has prepare.steps of {side:g} pixels, and at most "
            f"{MAX_SIDE} are supported. Verify without --deep"
        )
    images = open_source(recipe.source.kind, source, part=recipe.source)
    load_bank(data_set.store, recipe)
    renderer = Renderer(recipe, frost_folder)
    chosen = _choose(data_set, samples, seed)
    findings = Findings(samples=len(chosen))
    wanted = {row.source_id for row in chosen}
    listed = {image.id: image for image in images if image.id in wanted}
    for row in chosen:
        if row.source_id not in listed:
            findings.fault(row.key, f"source image {row.origin} is not in {source}")
        elif difference := _compare(row, images, listed[row.source_id], renderer):
            findings.fault(row.key, difference)
    if findings.faults and recipe.software != recipe.installed():
        built = ", ".join(f"{name} {version}" for name, version in recipe.software.items())
        findings.fault(
            "software",
            f"this machine has other library versions or another device than the build, which used {shown(built)}",
        )
    return findings


def last_source(output: str) -> str:
    """Return the source from which this user built the data set on this machine. Raise UserError for none.

    The source is not taken from the files of the data set: it will be opened, and those files may be untrusted.
    """
    known = trusted_locations.recall(output, "source")
    if known is None:
        hint, store = "", open_store(output)
        with suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
            *_, latest = store.listing("runs", ".json")
            used = str(json.loads(store.read(latest, limit=SMALL_FILE))["source"])
            hint = f" (the latest run used {shown(used)})"
        raise UserError(f"{output} was not built on this machine: give --source PATH with the source images{hint}")
    return known


def _choose(data_set: DataSet, samples: int, seed: int) -> list[Row]:
    """Return random rows in the order of the manifest, by reservoir sampling because the length is unknown."""
    generator, kept = random.Random(seed), list[tuple[int, Row]]()
    for index, row in enumerate(data_set.rows()):
        if len(kept) < samples:
            kept.append((index, row))
        elif (slot := generator.randrange(index + 1)) < samples:
            kept[slot] = (index, row)
    return [row for _, row in sorted(kept, key=lambda pair: pair[0])]


def _compare(row: Row, images: Source, image: SourceImage, renderer: Renderer) -> str | None:
    """Rebuild a sample, and return how it differs from the manifest row; None if it does not."""
    try:
        data = images.read(image)
    except (OSError, SampleError) as error:
        return None if row.status == manifests.FAILED else f"source image cannot be read: {error}"
    if row.source_sha256 is not None and source_digest(data) != row.source_sha256:
        return f"source image {image.origin} has changed since the build"
    try:
        members = renderer.members(data, row.source_id, Condition(row.transform, row.level), image.box, image.origin)
    except (UserError, UnreachableError):
        raise
    except Exception as error:  # any exception of a transform is a failed sample in a build, too
        return None if row.status == manifests.FAILED else f"cannot be rebuilt: {type(error).__name__}: {error}"
    if row.status == manifests.FAILED:
        return f"recorded as failed ({row.error}), but it can be made: build with --retry-failed"
    same = payload_digest(members.values()) == row.payload_sha256
    return None if same else "the rebuilt sample differs from the one in the data set"
