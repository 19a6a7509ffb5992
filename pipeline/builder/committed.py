"""The finished shards in the output of a build."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

import manifests
from pipeline.builder.plan import Plan, WorkItem, listing_digest
from pipeline.datasets.indexed import PresentFiles
from pipeline.datasets.paths import (
    FACT_IMAGES,
    FACT_LISTING,
    FACT_SHARD_SIZE,
    FACT_TASK,
    MANIFEST_FILE,
    PARTS,
    SHARDS,
    part_file,
    shard_file,
    shard_of_part,
)
from pipeline.errors import UserError
from pipeline.execution.resumable import FACT_FAILED
from pipeline.storage import Store, read_ahead
from pipeline.transforms.family import Condition

_SHARD_STEM = re.compile(r"(?P<transform>.+)-(?P<level>\d{1,3})-(?P<block>\d{6,12})")
"""Stem of the names of a shard and its manifest part."""

_INTEGER = re.compile("[0-9]{1,18}")

_SHOWN = 3
"""Maximum number of file names in a message."""

COMPARED_IMAGES = 8
"""Number of images whose content is compared with an earlier build."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class RecordedBlock:
    """A block as recorded in a manifest part: name of the part, number of images, digest of their listing."""

    part: str
    images: int
    listing: str

    def is_prefix_of(self, block: WorkItem) -> bool:
        """Return whether the first images of a block are those that were built."""
        if len(block.images) == self.images:  # the tasks have the digest already
            return block.tasks[0].listing == self.listing
        return listing_digest(block.images[: self.images]) == self.listing


@dataclass(frozen=True)
class Committed:
    """The finished shards of a plan.

    Attributes:
        done: Block and digest of the finished tasks. The digest alone is not enough: images that were added before
            others move these to another block.
        blocks: Number of a block -> its record, for blocks whose labels must not change.
        parts_to_compare: Number of a block -> manifest part with the digests of its images, for the few blocks whose
            images are read again.
        is_fixed: Whether the images of ``blocks`` must not change either.
    """

    done: frozenset[tuple[int, str]] = frozenset()
    blocks: Mapping[int, RecordedBlock] = field(default_factory=dict)
    parts_to_compare: Mapping[int, str] = field(default_factory=dict)
    is_fixed: bool = False


def find_committed(store: Store, plan: Plan, retry_failed: bool = False) -> Committed:
    """Find the finished shards of a plan.

    Object stores respond slowly, so shards and parts are listed once and only listed parts are opened. The images of a
    finished data set without failures must not change, but images may be added at the end. Unless ``retry_failed``,
    the labels of no image may change.

    Args:
        store: The output.
        plan: The plan of the build.
        retry_failed: Whether a shard with failed samples counts as missing.

    Returns:
        The finished tasks, and the records for later checks.

    Raises:
        UserError: The output contains shards or parts that are not in the plan.
    """
    sizes = {} if plan.recipe.is_mirror else store.listing(SHARDS, ".tar")
    files = PresentFiles(store)
    conditions = frozenset(plan.recipe.conditions())
    unexpected = [name for name in sizes if not _is_planned(name, conditions, plan.blocks)]
    done, blocks, parts, failed = set[tuple[int, str]](), dict[int, RecordedBlock](), dict[int, str](), 0
    for part, content in read_ahead(store, store.listing(PARTS, ".parquet")):
        facts = manifests.part_facts((part, content))
        if not _is_planned(part, conditions, plan.blocks):
            unexpected.append(part)
        elif _are_integers(facts, FACT_SHARD_SIZE, FACT_FAILED) and FACT_TASK in facts:
            failures = int(facts[FACT_FAILED])
            failed += failures
            if _are_integers(facts, FACT_IMAGES) and FACT_LISTING in facts:
                blocks[_block_of(part)] = RecordedBlock(part, int(facts[FACT_IMAGES]), facts[FACT_LISTING])
            there = (
                files.has_all(_condition_of(part), content)
                if plan.recipe.is_mirror
                else sizes.get(shard_of_part(part)) == int(facts[FACT_SHARD_SIZE])
            )
            if there and not (retry_failed and failures):
                done.add((_block_of(part), facts[FACT_TASK]))
                parts[_block_of(part)] = part
    if unexpected:
        _raise_unexpected(store, plan, unexpected)
    compared = {block: parts[block] for block in evenly_spaced(sorted(parts), COMPARED_IMAGES)}  # a few blocks
    is_fixed = not failed and not retry_failed and store.size(MANIFEST_FILE) >= 0
    return Committed(frozenset(done), {} if retry_failed else blocks, compared, is_fixed)


def evenly_spaced(items: Sequence[Item], count: int) -> list[Item]:
    """Return at most ``count`` evenly spaced items, including the first and the last.

    Args:
        items: The items.
        count: Maximum number of items to return.
    """
    indices = {round(step * (len(items) - 1) / max(count - 1, 1)) for step in range(min(count, len(items)))}
    return [items[index] for index in sorted(indices)]


def _block_of(part: str) -> int:
    return int(part.removesuffix(".parquet").rpartition("-")[2])


def _condition_of(part: str) -> Condition:
    """Return the condition in the name of a shard or part."""
    transform, level, _ = part.rpartition("/")[2].rsplit("-", 2)
    return Condition(transform, int(level))


def _raise_unexpected(store: Store, plan: Plan, names: Sequence[str]) -> NoReturn:
    """Raise UserError for shards and parts that are not in the plan, because they would remain among the new ones."""
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    raise UserError(
        f"{store.root} contains {len(names):,} shards and manifest parts that this build does not make ({shown}): it "
        f"was built from other images than the {plan.images:,} of this source. Use another folder, or remove those "
        "files"
    )


def _are_integers(facts: Mapping[str, str], *names: str) -> bool:
    """Return whether these facts exist and are integers."""
    return all(_INTEGER.fullmatch(facts.get(name, "")) for name in names)


def _is_planned(name: str, conditions: frozenset[Condition], blocks: int) -> bool:
    """Return whether a shard or part is in the plan."""
    match = _SHARD_STEM.fullmatch(name.rpartition("/")[2].rpartition(".")[0])
    if not match:
        return False
    condition, block = _condition_of(name), int(match["block"])
    return (
        condition in conditions
        and block < blocks
        and name in (shard_file(condition, block), part_file(condition, block))
    )
