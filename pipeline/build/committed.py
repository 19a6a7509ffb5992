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

COMPARED = 8
"""Photographs whose content is compared with that of an earlier build."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class Recorded:
    """What a manifest part says of its block: the part's name, the number of images, and their listing's digest."""

    part: str
    images: int
    listing: str

    def begins(self, block: WorkItem) -> bool:
        """Whether the images of a block begin with those that were built."""
        if len(block.images) == self.images:  # its tasks know the digest
            return block.tasks[0].listing == self.listing
        return listing_digest(block.images[: self.images]) == self.listing


@dataclass(frozen=True)
class There:
    """What the output holds of a plan: digests of the tasks that are done; the blocks that must not be other ones.

    ``compared``: blocks of which a photograph is read again, each with a part that tells its digest.
    """

    done: frozenset[str] = frozenset()
    blocks: Mapping[int, Recorded] = field(default_factory=dict)
    compared: Mapping[int, str] = field(default_factory=dict)


def look(store: Store, plan: Plan, retry_failed: bool = False) -> There:
    """Find the tasks whose shard is there and whole; with ``retry_failed``, and without failures.

    Shards and parts are listed once, and only parts that are there are opened: object stores answer slowly. Of a
    finished data set without failures, the photographs are those that it was built from, and maybe more.
    Raises UserError for shards and parts that the plan does not have.
    """
    sizes = store.listing(SHARDS, ".tar")
    conditions = frozenset(plan.recipe.conditions())
    foreign = [name for name in sizes if not _planned(name, conditions, plan.blocks)]
    done, blocks, parts, failed = set[str](), dict[int, Recorded](), dict[int, str](), 0
    for part, facts in facts_of_parts(store, PARTS):
        if not _planned(part, conditions, plan.blocks):
            foreign.append(part)
        elif _whole(facts, FACT_SHARD_SIZE, FACT_FAILED) and FACT_TASK in facts:
            failures = int(facts[FACT_FAILED])
            failed += failures
            if _whole(facts, FACT_IMAGES) and FACT_LISTING in facts:
                blocks[_block_of(part)] = Recorded(part, int(facts[FACT_IMAGES]), facts[FACT_LISTING])
            if sizes.get(shard_of_part(part)) == int(facts[FACT_SHARD_SIZE]) and not (retry_failed and failures):
                done.add(facts[FACT_TASK])
                parts[_block_of(part)] = part
    if foreign:
        _refuse_foreign(store, plan, foreign)
    kept = not failed and not retry_failed and store.size(MANIFEST_FILE) >= 0
    return There(frozenset(done), blocks if kept else {}, _some(parts))


def _some(parts: Mapping[int, str]) -> dict[int, str]:
    """A few of the blocks, from the first to the last."""
    return {block: parts[block] for block in spread(sorted(parts), COMPARED)}


def spread(items: Sequence[Item], count: int) -> list[Item]:
    """Up to ``count`` items at even distances, the first and the last among them."""
    places = {round(place * (len(items) - 1) / max(count - 1, 1)) for place in range(min(count, len(items)))}
    return [items[place] for place in sorted(places)]


def _block_of(part: str) -> int:
    return int(part.removesuffix(".parquet").rpartition("-")[2])


def _refuse_foreign(store: Store, plan: Plan, names: Sequence[str]) -> NoReturn:
    """Raises UserError for shards and parts that the plan does not have: they would stay among the new ones."""
    some = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    raise UserError(
        f"{store.root} holds {len(names):,} shards and manifest parts that this build does not make ({some}): it was "
        f"built from other photographs than the {plan.images:,} of this source. Choose another folder, or remove "
        "those files"
    )


def _whole(facts: Mapping[str, str], *names: str) -> bool:
    """Whether these facts are there, and are whole numbers."""
    return all(_NUMBER.fullmatch(facts.get(name, "")) for name in names)


def _planned(name: str, conditions: frozenset[Condition], blocks: int) -> bool:
    """Whether a file in the folders of shards and parts is one that the plan has."""
    found = _NAMED.fullmatch(name.rpartition("/")[2].rpartition(".")[0])
    if not found:
        return False
    condition, block = Condition(found["transform"], int(found["level"])), int(found["block"])
    return (
        condition in conditions
        and block < blocks
        and name in (shard_file(condition, block), part_file(condition, block))
    )
