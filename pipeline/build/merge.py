"""The merged manifest, and the files that describe it."""

from __future__ import annotations

import manifests
from pipeline.build.plan import Plan
from pipeline.datasets.cards import CARD_FILE, CROISSANT_FILE, card, croissant, described_manifest, is_our_card
from pipeline.datasets.paths import FACT_FAILED, FACT_PLAN, MANIFEST_FILE, file_digest
from pipeline.errors import RefusedFileError, UnfinishedError
from pipeline.storage import SMALL_FILE, Store, read_groups_ahead


def merge_parts(plan: Plan, store: Store) -> tuple[int, list[str]]:
    """Write the merged manifest unless it is there and whole, and what describes it.

    Gives the number of failed samples, and the names of files that are left as they are: somebody has changed them.
    Raises UnfinishedError where a part cannot be read.
    """
    if (failed := _merged(plan, store)) is not None:
        if store.size(CARD_FILE) < 0:
            store.publish_bytes(card(plan.recipe, plan.samples, failed).encode(), CARD_FILE)
        return failed, []
    scratch, parts = store.scratch(), read_groups_ahead(store, plan.parts())
    try:
        merged = manifests.merge(parts, {FACT_PLAN: plan.digest}, scratch, summed=[FACT_FAILED])
    except manifests.MergeError as error:
        scratch.unlink(missing_ok=True)
        raise UnfinishedError(f"{error}: run the same command again, which makes it anew") from error
    failed = int(merged.facts[FACT_FAILED])
    sha256 = file_digest(scratch)
    # before the manifest, which says that all is there
    described = {
        CARD_FILE: (is_our_card, card(plan.recipe, plan.samples, failed)),
        CROISSANT_FILE: (described_manifest, croissant(plan.recipe, sha256)),
    }
    kept = [name for name, (ours, _) in described.items() if store.size(name) >= 0 and not ours(_text(store, name))]
    for name, (_, text) in described.items():
        if name not in kept:
            store.publish_bytes(text.encode(), name)
    store.publish(scratch, MANIFEST_FILE)
    return failed, kept


def _merged(plan: Plan, store: Store) -> int | None:
    """The failed samples of the merged manifest if it is there, of this plan, and what Croissant says of its bytes."""
    path = store.path(MANIFEST_FILE)
    there = manifests.read_facts(path)
    if there.get(FACT_PLAN) != plan.digest or not there.get(FACT_FAILED, "").isdecimal():
        return None
    ours = described_manifest(_text(store, CROISSANT_FILE)) == file_digest(path)
    return int(there[FACT_FAILED]) if ours else None


def _text(store: Store, name: str) -> str:
    """A small text beside the data set; empty where there is none, or something else."""
    try:
        return store.read(name, limit=SMALL_FILE).decode()
    except (FileNotFoundError, RefusedFileError, UnicodeDecodeError):
        return ""
