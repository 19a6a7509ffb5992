"""The finished shards in the output of a build, and checks that the source contains the images that they are of."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TypeVar

import manifests
from manifests import Row
from pipeline.builder.compatibility import check_claim
from pipeline.builder.plan import Missing, Plan, WorkItem, count_missing, listing_digest, make_blocks, missing_blocks
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
from pipeline.render.renderer import source_digest
from pipeline.sources.base import Source
from pipeline.storage import Store, read_ahead
from pipeline.transforms.family import Condition

_SHARD_STEM = re.compile(r"(?P<transform>.+)-(?P<level>\d{1,7})-(?P<block>\d{6,12})")
"""Stem of the names of a shard and its manifest part."""

_INTEGER = re.compile("[0-9]{1,18}")

_SHOWN, _SHOWN_DIGITS = 3, 12
"""Maximum number of file names in a message, and number of digits of a digest."""

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
    """Find the finished shards of a plan in an output.

    Object stores respond slowly, so shards and parts are listed once and only listed parts are opened. The images of a
    finished data set without failures must not change, but images may be added at the end. With ``retry_failed``,
    shards with failed samples count as missing; otherwise the labels of no image may change.

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
    if unexpected:  # they would remain among the new ones
        shown = ", ".join(unexpected[:_SHOWN]) + (", ..." if len(unexpected) > _SHOWN else "")
        raise UserError(
            f"{store.root} contains {len(unexpected):,} shards and manifest parts that this build does not make "
            f"({shown}): it was built from other images than the {plan.images:,} of this source. Use another folder, "
            "or remove those files"
        )
    compared = {block: parts[block] for block in evenly_spaced(sorted(parts), COMPARED_IMAGES)}  # a few blocks
    is_fixed = not failed and not retry_failed and store.size(MANIFEST_FILE) >= 0
    return Committed(frozenset(done), {} if retry_failed else blocks, compared, is_fixed)


def evenly_spaced(items: Sequence[Item], count: int) -> list[Item]:
    """Return at most ``count`` evenly spaced items, including the first and the last."""
    indices = {round(step * (len(items) - 1) / max(count - 1, 1)) for step in range(min(count, len(items)))}
    return [items[index] for index in sorted(indices)]


def _block_of(part: str) -> int:
    return int(part.removesuffix(".parquet").rpartition("-")[2])


def _condition_of(part: str) -> Condition:
    """Return the condition in the name of a shard or part."""
    transform, level, _ = part.rpartition("/")[2].rsplit("-", 2)
    return Condition(transform, int(level))


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


def find_missing(store: Store, plan: Plan, source: Source, retry_failed: bool) -> tuple[Committed, Missing]:
    """Return the finished shards of an output, and what is missing. Raise UserError if it holds another data set."""
    check_claim(store, plan.recipe)
    committed = find_committed(store, plan, retry_failed)
    blocks = _checked(make_blocks(plan, source), committed, store, source)
    return committed, count_missing(missing_blocks(blocks, committed.done))


def _checked(blocks: Iterable[WorkItem], committed: Committed, store: Store, source: Source) -> Iterator[WorkItem]:
    """Check blocks against the finished shards, and yield them unchanged.

    A few images are read again, because their content can differ even if names and sizes are the same, as in CIFAR
    arrays.

    Raises:
        UserError: A block does not start with the images that were built, or the content or label of an image has
            changed.
    """
    each = -(-COMPARED_IMAGES // max(len(committed.parts_to_compare), 1))
    for block in blocks:
        part = committed.parts_to_compare.get(block.index)
        if part and any((task.block, task.digest) in committed.done for task in block.tasks):
            _compare_content(store, part, block, source, each)
        recorded = committed.blocks.get(block.index)
        if recorded and not recorded.is_prefix_of(block):
            _refuse_other_labels(store, recorded.part, block, source)
        if recorded and committed.is_fixed and not recorded.is_prefix_of(block):
            raise UserError(
                f"{store.root} is a finished data set that was built from other images: "
                f"{_difference(store, recorded, block)}. Use another folder; if you changed the source on purpose, "
                "build with --retry-failed to remake the changed shards"
            )
        yield block


def _rows(store: Store, part: str) -> list[Row]:
    """Return the rows of a manifest part; none if it cannot be read."""
    try:
        return list(manifests.read_rows(store.path(part)))
    except (OSError, ValueError):
        return []


def _compare_content(store: Store, part: str, block: WorkItem, source: Source, count: int) -> None:
    """Read some images of a block again and compare them with the manifest part. Raises UserError."""
    rows = {row.source_id: row for row in _rows(store, part) if row.status == manifests.OK}
    for image in evenly_spaced([image for image in block.images if image.id in rows], count):
        try:
            digest = source_digest(source.read(image))
        except OSError:  # reported by the build if it needs this image
            continue
        if digest != rows[image.id].source_sha256:
            raise UserError(
                f"{store.root} was built from other images: {image.origin} of {source.location} has sha256 "
                f"{digest[:_SHOWN_DIGITS]}..., but the build used "
                f"{(rows[image.id].source_sha256 or '')[:_SHOWN_DIGITS]}...; use another folder"
            )


def _refuse_other_labels(store: Store, part: str, block: WorkItem, source: Source) -> None:
    """Raise UserError if an image of a block was built with another label."""
    built = {(row.source_id, row.class_name): row.label for row in _rows(store, part)}
    for image in block.images:
        label = built.get((image.id, image.class_name), image.label)
        if label != image.label:
            raise UserError(
                f"{store.root} was built with other labels: {image.origin} of class {image.class_name} has the label "
                f"{label} there, but now {image.label} ({source.labels or 'as the source says'}). Use another folder, "
                "or build with --retry-failed to remake the shards with these labels"
            )


def _difference(store: Store, recorded: RecordedBlock, block: WorkItem) -> str:
    """Return the first difference between a block and the one that was built, for messages."""
    name, rows = f"block {block.index:06d}", _rows(store, recorded.part)
    for row, image in zip_longest(rows, block.images[: recorded.images] if rows else ()):
        if row is None or image is None:
            return f"{name} had {len(rows):,} images, of which {min(len(block.images), recorded.images):,} remain"
        if (row.source_id, row.label, row.class_name, row.origin) != (
            image.id, image.label, image.class_name, image.origin,
        ):  # fmt: skip
            return (
                f"{name} has {row.origin} of class {row.class_name or 'none'} ({row.label}), but the source has "
                f"{image.origin} of class {image.class_name or 'none'} ({image.label})"
            )
    return f"{name}: sizes of the files from {rows[0].origin} on differ" if rows else name
