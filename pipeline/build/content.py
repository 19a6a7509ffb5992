"""Whether the photographs of a source are those that a data set was built from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

import manifests
from pipeline.build.committed import COMPARED_IMAGES, Committed, RecordedBlock, evenly_spaced
from pipeline.build.plan import WorkItem
from pipeline.errors import UserError
from pipeline.render.renderer import source_digest
from pipeline.sources.base import Source
from pipeline.storage import Store

_DIGITS = 12
"""Digits of a digest that a message shows."""


def checked_blocks(
    blocks: Iterable[WorkItem], committed: Committed, store: Store, source: Source
) -> Iterator[WorkItem]:
    """Yield the blocks unchanged, each after its check.

    Some photographs are read again: names and sizes may be equal where content is not, as in every array of CIFAR.

    Args:
        blocks: The blocks of the plan.
        committed: What the output holds.
        store: The output.
        source: The source of the photographs.

    Yields:
        The blocks.

    Raises:
        UserError: A block does not begin with the images that were built, or a photograph has other content.
    """
    each = -(-COMPARED_IMAGES // max(len(committed.compared), 1))
    for block in blocks:
        part = committed.compared.get(block.index)
        if part and any(task.digest in committed.done for task in block.tasks):
            _compare_content(store, part, block, source, each)
        recorded = committed.blocks.get(block.index)
        if recorded and not recorded.begins(block):
            raise UserError(
                f"{store.root} is finished, and was built from other photographs: "
                f"{_difference(store, recorded, block)}. Choose another folder; if the source was mended on purpose, "
                "--retry-failed makes what has changed"
            )
        yield block


def _compare_content(store: Store, part: str, block: WorkItem, source: Source, count: int) -> None:
    """Read some photographs of a block again, and compare them with the manifest part. Raises UserError."""
    try:
        rows = {row.source_id: row for row in manifests.read_rows(store.path(part)) if row.status == manifests.OK}
    except (OSError, ValueError):
        return
    for image in evenly_spaced([image for image in block.images if image.id in rows], count):
        try:
            found = source_digest(source.read(image))
        except OSError:  # the build will say so, if it needs it
            continue
        if found != rows[image.id].source_sha256:
            raise UserError(
                f"{store.root} was built from other photographs: {image.origin} of {source.location} has sha256 "
                f"{found[:_DIGITS]}..., and was built from {(rows[image.id].source_sha256 or '')[:_DIGITS]}...; "
                "choose another folder"
            )


def _difference(store: Store, recorded: RecordedBlock, block: WorkItem) -> str:
    """Return in words how a block differs from the one that was built, by its first different image."""
    where = f"block {block.index:06d}"
    try:
        rows = list(manifests.read_rows(store.path(recorded.part)))
    except (OSError, ValueError):
        return where
    for row, image in zip_longest(rows, block.images[: recorded.images]):
        if row is None or image is None:
            return f"{where} has {len(rows):,} images, now {min(len(block.images), recorded.images):,} of them"
        if (row.source_id, row.label, row.class_name, row.origin) != (
            image.id, image.label, image.class_name, image.origin,
        ):  # fmt: skip
            return (
                f"{where} has {row.origin} of class {row.class_name or 'none'} ({row.label}), the source "
                f"{image.origin} of class {image.class_name or 'none'} ({image.label})"
            )
    return f"{where}: the files from {rows[0].origin} on have other sizes" if rows else where
