"""Merging of the manifest, and writing of the files that describe it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import manifests
from pipeline.builder.plan import Plan
from pipeline.datasets.cards import (
    CARD_FILE,
    CROISSANT_FILE,
    MAX_FILES,
    card,
    croissant,
    croissant_manifest_digest,
    is_unedited_card,
)
from pipeline.datasets.paths import FACT_PLAN, MANIFEST_FILE, ROOTS_FILE, file_digest
from pipeline.datasets.roots import COLUMNS, Roots, roots_of_tables
from pipeline.errors import RefusedFileError, UnfinishedError
from pipeline.execution.resumable import FACT_FAILED
from pipeline.storage import SMALL_FILE, Store, read_groups_ahead


def merge_parts(plan: Plan, store: Store) -> tuple[int, list[str]]:
    """Write the merged manifest unless it is complete, and the roots, card and Croissant files that describe it.

    Args:
        plan: The plan of the build.
        store: The output.

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
    try:
        merged = manifests.merge(parts, {FACT_PLAN: plan.digest}, scratch, summed=[FACT_FAILED])
    except manifests.MergeError as error:
        scratch.unlink(missing_ok=True)
        raise UnfinishedError(f"{error}: run the same command again to remake it") from error
    failed = int(merged.facts[FACT_FAILED])
    roots = _roots(plan, scratch)
    text = roots.to_json().encode()
    files = {
        MANIFEST_FILE: file_digest(scratch),
        ROOTS_FILE: hashlib.sha256(text).hexdigest(),
        **_shards(plan, scratch),
    }
    # written before the manifest, which marks the data set as complete
    described = {
        CARD_FILE: (is_unedited_card, card(plan.recipe, plan.samples, failed)),
        CROISSANT_FILE: (croissant_manifest_digest, croissant(plan.recipe, files, roots)),
    }
    kept = [name for name, (ours, _) in described.items() if store.size(name) >= 0 and not ours(_text(store, name))]
    for name, (_, description) in described.items():
        if name not in kept:
            store.publish_bytes(description.encode(), name)
    store.publish_bytes(text, ROOTS_FILE)
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


def _merged_failures(plan: Plan, store: Store) -> int | None:
    """Return the number of failed samples in the merged manifest; None if it is missing or not up to date."""
    path = store.path(MANIFEST_FILE)
    facts = manifests.read_facts(path)
    if facts.get(FACT_PLAN) != plan.digest or not facts.get(FACT_FAILED, "").isdecimal():
        return None
    described = croissant_manifest_digest(_text(store, CROISSANT_FILE)) == file_digest(path)
    return int(facts[FACT_FAILED]) if described else None


def _text(store: Store, name: str) -> str:
    """Return the text of a small file; empty if it is missing or invalid."""
    try:
        return store.read(name, limit=SMALL_FILE).decode()
    except (FileNotFoundError, RefusedFileError, UnicodeDecodeError):
        return ""
