"""Merging of the manifest, and writing of the files that describe it."""

import hashlib
from contextlib import suppress
from pathlib import Path

import manifests
from corruptions.catalogue import DETECTION
from pipeline.builder.plan import Plan
from pipeline.datasets.base import Location
from pipeline.datasets.cards import (
    CARD_FILE,
    CROISSANT_FILE,
    MAX_FILES,
    card,
    croissant,
    croissant_manifest_digest,
    is_unedited_card,
)
from pipeline.datasets.indexed import Mirror
from pipeline.datasets.opening import described
from pipeline.datasets.paths import FACT_CHANNELS, FACT_PLAN, MANIFEST_FILE, ROOTS_FILE, file_digest
from pipeline.datasets.roots import COLUMNS, Roots, roots_of_tables
from pipeline.errors import RefusedFileError, SampleError, UnfinishedError
from pipeline.execution.resumable import FACT_FAILED
from pipeline.recipes.schema import Recipe
from pipeline.sources.base import Source, SourceImage
from pipeline.storage import SMALL_FILE, Store, read_groups_ahead

SHOWN_FAILURES = 5
"""Number of failed images that the result of a build names."""


def merge_parts(plan: Plan, store: Store) -> tuple[int, list[str]]:
    """Write the merged manifest unless it is complete, and the roots, card and Croissant files that describe it.

    Returns:
        The number of failed samples, and the names of files that were not overwritten because they were edited.

    Raises:
        UnfinishedError: A manifest part cannot be read.
    """
    if (failed := _merged_failures(plan, store)) is not None:
        if store.size(CARD_FILE) < 0:
            store.publish_bytes(card(plan.recipe, plan.samples, failed).encode(), CARD_FILE)
        if store.size(ROOTS_FILE) < 0:
            store.publish_bytes(_roots(plan, store.path(MANIFEST_FILE)).to_json().encode(), ROOTS_FILE)
        return failed, []
    scratch, parts = store.scratch(), read_groups_ahead(store, plan.parts())
    is_detection = plan.recipe.profile == DETECTION
    channels = {FACT_CHANNELS: plan.recipe.transforms.channels or "rgb"} if is_detection else {}
    try:
        merged = manifests.merge(parts, {FACT_PLAN: plan.digest, **channels}, scratch, summed=[FACT_FAILED])
    except manifests.MergeError as error:
        scratch.unlink(missing_ok=True)
        raise UnfinishedError(f"{error}: run the same command again to remake it") from error
    failed = int(merged.facts[FACT_FAILED])
    roots = _roots(plan, scratch)
    recorded = roots.to_json().encode()
    files = {
        MANIFEST_FILE: file_digest(scratch),
        ROOTS_FILE: hashlib.sha256(recorded).hexdigest(),
        **_shards(plan, scratch),
    }
    # written before the manifest, which marks the data set as complete
    texts = {
        CARD_FILE: (is_unedited_card, card(plan.recipe, plan.samples, failed)),
        CROISSANT_FILE: (croissant_manifest_digest, croissant(plan.recipe, files, roots)),
    }
    if plan.recipe.is_mirror:  # Croissant describes tars
        del texts[CROISSANT_FILE]
    kept = [name for name, (ours, _) in texts.items() if store.size(name) >= 0 and not ours(_text(store, name))]
    for name, (_, description) in texts.items():
        if name not in kept:
            store.publish_bytes(description.encode(), name)
    store.publish_bytes(recorded, ROOTS_FILE)
    store.publish(scratch, MANIFEST_FILE)
    return failed, kept


def _roots(plan: Plan, manifest: Path) -> Roots:
    """Return the roots of a merged manifest."""
    tables = manifests.read_tables(manifest, COLUMNS)
    return roots_of_tables(tables, plan.recipe.name, plan.recipe.to_toml().encode(), plan.recipe.seed)


def _shards(plan: Plan, manifest: Path) -> dict[str, str]:
    """Return path -> sha256 of the shards, unless there are too many for one file."""
    found = dict[str, str]()
    for table in manifests.read_tables(manifest, ("shard", "shard_sha256")) if plan.shards <= MAX_FILES else ():
        groups = table.group_by(["shard", "shard_sha256"], use_threads=False).aggregate([])
        found |= zip(groups["shard"].to_pylist(), groups["shard_sha256"].to_pylist(), strict=True)
    return found


def first_failures(store: Store) -> dict[str, str]:
    """Return path -> reason for the first images of a merged manifest that failed, at most ``SHOWN_FAILURES``."""
    found = dict[str, str]()
    path, failed = store.path(MANIFEST_FILE), {"status": [manifests.FAILED]}
    for origin, error in manifests.read_columns(path, ("origin", "error"), failed):
        found.setdefault(origin, (error or "").removeprefix(f"{origin}: "))
        if len(found) == SHOWN_FAILURES:
            break
    return found


def copy_failed(store: Store, recipe: Recipe, source: Source) -> int:
    """Copy the source images that failed to where the files of a mirror would be, and return their number.

    A file that cannot be read is not copied. Raises OSError if a copy cannot be written.
    """
    mirror, copied = Mirror(**described(store, Location(store.root), recipe), recipe=recipe), 0
    for row in mirror.rows({"status": [manifests.FAILED]}):
        with suppress(FileNotFoundError, RefusedFileError, SampleError):
            data = source.read(SourceImage(row.source_id, row.label, row.class_name, row.origin, 0))
            if isinstance(data, bytes) and store.size(row.shard) != len(data):
                store.publish_bytes(data, row.shard)
            copied += 1
    return copied


def _merged_failures(plan: Plan, store: Store) -> int | None:
    """Return the number of failed samples in the merged manifest; None if it is missing or not up to date."""
    path = store.path(MANIFEST_FILE)
    facts = manifests.read_facts(path)
    if facts.get(FACT_PLAN) != plan.digest or not facts.get(FACT_FAILED, "").isdecimal():
        return None
    is_described = plan.recipe.is_mirror or croissant_manifest_digest(_text(store, CROISSANT_FILE)) == file_digest(path)
    return int(facts[FACT_FAILED]) if is_described else None


def _text(store: Store, name: str) -> str:
    """Return the text of a small file; empty if it is missing or invalid."""
    try:
        return store.read(name, limit=SMALL_FILE).decode()
    except (FileNotFoundError, RefusedFileError, UnicodeDecodeError):
        return ""
