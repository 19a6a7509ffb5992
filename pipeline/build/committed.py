"""What the output folder of a build already holds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

from pipeline.build.plan import Plan, WorkItem, listing_digest
from pipeline.datasets.paths import (
    FACT_FAILED,
    FACT_IMAGES,
    FACT_LISTING,
    FACT_SHARD_SIZE,
    FACT_TASK,
    MANIFEST_FILE,
    PARTS,
    SHARDS,
    facts_of_parts,
    part_file,
    shard_file,
    shard_of_part,
)
from pipeline.errors import UserError
from pipeline.storage import Store
from pipeline.transforms.family import Condition

_NAMED = re.compile(r"(?P<transform>.+)-(?P<level>\d{1,3})-(?P<block>\d{6,12})")
"""The stem of a shard and of its part."""

_NUMBER = re.compile("[0-9]{1,18}")

_SHOWN = 3
"""Names that a message gives as examples."""

COMPARED_IMAGES = 8
"""Number of photographs whose content is compared with an earlier build."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class RecordedBlock:
    """What a manifest part records of its block: name of the part, number of images, digest of their listing."""

    part: str
    images: int
    listing: str

    def begins(self, block: WorkItem) -> bool:
        """Return whether the images of a block begin with those that were built."""
        if len(block.images) == self.images:  # its tasks know the digest
            return block.tasks[0].listing == self.listing
        return listing_digest(block.images[: self.images]) == self.listing


@dataclass(frozen=True)
class Committed:
    """What the output holds of a plan.

    ``done``: digests of the finished tasks. ``blocks``: those whose images must be the ones that were built.
    ``compared``: blocks of which photographs are read again, each with a manifest part that has their digests.
    """

    done: frozenset[str] = frozenset()
    blocks: Mapping[int, RecordedBlock] = field(default_factory=dict)
    compared: Mapping[int, str] = field(default_factory=dict)


def find_committed(store: Store, plan: Plan, retry_failed: bool = False) -> Committed:
    """Find the finished tasks of a plan.

    Shards and parts are listed once, and only listed parts are opened: object stores answer slowly. A finished data
    set without failures keeps its photographs; more may be added after them.

    Args:
        store: The output.
        plan: The build.
        retry_failed: Count a shard with failed samples as missing.

    Returns:
        The tasks whose shard is complete, and what later checks compare.

    Raises:
        UserError: There are shards or parts that the plan does not have.
    """
    sizes = store.listing(SHARDS, ".tar")
    conditions = frozenset(plan.recipe.conditions())
    foreign = [name for name in sizes if not _planned(name, conditions, plan.blocks)]
    done, blocks, parts, failed = set[str](), dict[int, RecordedBlock](), dict[int, str](), 0
    for part, facts in facts_of_parts(store, PARTS):
        if not _planned(part, conditions, plan.blocks):
            foreign.append(part)
        elif _whole(facts, FACT_SHARD_SIZE, FACT_FAILED) and FACT_TASK in facts:
            failures = int(facts[FACT_FAILED])
            failed += failures
            if _whole(facts, FACT_IMAGES) and FACT_LISTING in facts:
                blocks[_block_of(part)] = RecordedBlock(part, int(facts[FACT_IMAGES]), facts[FACT_LISTING])
            if sizes.get(shard_of_part(part)) == int(facts[FACT_SHARD_SIZE]) and not (retry_failed and failures):
                done.add(facts[FACT_TASK])
                parts[_block_of(part)] = part
    if foreign:
        _refuse_foreign(store, plan, foreign)
    kept = not failed and not retry_failed and store.size(MANIFEST_FILE) >= 0
    return Committed(frozenset(done), blocks if kept else {}, _some(parts))


def _some(parts: Mapping[int, str]) -> dict[int, str]:
    """Return a few of the blocks, from the first to the last."""
    return {block: parts[block] for block in evenly_spaced(sorted(parts), COMPARED_IMAGES)}


def evenly_spaced(items: Sequence[Item], count: int) -> list[Item]:
    """Return up to ``count`` items at even distances, with the first and the last."""
    places = {round(place * (len(items) - 1) / max(count - 1, 1)) for place in range(min(count, len(items)))}
    return [items[place] for place in sorted(places)]


def _block_of(part: str) -> int:
    return int(part.removesuffix(".parquet").rpartition("-")[2])


def _refuse_foreign(store: Store, plan: Plan, names: Sequence[str]) -> NoReturn:
    """Raise UserError for shards and parts that the plan does not have: they would stay among the new ones."""
    some = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    raise UserError(
        f"{store.root} holds {len(names):,} shards and manifest parts that this build does not make ({some}): it was "
        f"built from other photographs than the {plan.images:,} of this source. Choose another folder, or remove "
        "those files"
    )


def _whole(facts: Mapping[str, str], *names: str) -> bool:
    """Return whether these facts exist and are whole numbers."""
    return all(_NUMBER.fullmatch(facts.get(name, "")) for name in names)


def _planned(name: str, conditions: frozenset[Condition], blocks: int) -> bool:
    """Return whether the plan has this shard or part."""
    found = _NAMED.fullmatch(name.rpartition("/")[2].rpartition(".")[0])
    if not found:
        return False
    condition, block = Condition(found["transform"], int(found["level"])), int(found["block"])
    return (
        condition in conditions
        and block < blocks
        and name in (shard_file(condition, block), part_file(condition, block))
    )
