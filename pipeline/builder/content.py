"""Checks that a source contains the images from which a data set was built."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

import manifests
from manifests import Row
from pipeline.builder.committed import COMPARED_IMAGES, Committed, RecordedBlock, evenly_spaced, find_committed
from pipeline.builder.compatibility import check_claim
from pipeline.builder.plan import Missing, Plan, WorkItem, count_missing, make_blocks, missing_blocks
from pipeline.errors import UserError
from pipeline.render.renderer import source_digest
from pipeline.sources.base import Source
from pipeline.storage import Store

_SHOWN_DIGITS = 12
"""Number of digits of a digest in a message."""


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
