"""Writing of one shard, and publishing it with its manifest part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import manifests
from manifests import Row
from pipeline.builder.plan import ShardTask
from pipeline.builder.records import Failure, Payload, SampleResult
from pipeline.datasets.paths import FACT_IMAGES, FACT_LISTING, FACT_SHARD_SIZE, FACT_TASK
from pipeline.datasets.samples import described_columns, side_members
from pipeline.datasets.shards import ShardWriter
from pipeline.datasets.template import template_row
from pipeline.execution.resumable import FACT_FAILED
from pipeline.recipes.schema import Recipe
from pipeline.storage import Store


class ShardBuilder:
    """A shard that is being written: its tar in a scratch file, its manifest rows in memory.

    Leaving the context removes an unpublished scratch file, because the next attempt needs the space on a full disk.
    """

    def __init__(self, task: ShardTask, recipe: Recipe, scratch: Path) -> None:
        self._task = task
        self._recipe = recipe
        self._condition = str(task.condition)
        self._scratch = scratch
        self._tar = ShardWriter(scratch)
        self._template = template_row(recipe, task.condition, task.shard)
        self._description = described_columns(self._template)
        self._rows: list[Row] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._tar.close()
        finally:
            self._scratch.unlink(missing_ok=True)

    def append(self, result: SampleResult) -> None:
        """Write a sample to the tar and keep its manifest row. A failed sample has a row only.

        Args:
            result: The sample.

        Raises:
            OSError: The tar cannot be written, and must not be used any more.
        """
        source, payload = result.source, result.payload
        fields: dict[str, Any] = {
            "key": f"{source.id}-{self._condition}",
            "source_id": source.id,
            "source_sha256": result.source_sha256,
            "origin": source.origin,
            "label": source.label,
            "class_name": source.class_name,
        }
        if isinstance(payload, Failure):
            self._rows.append(self._template._replace(**fields, error=payload.reason))
        else:
            offset, size = self._store(fields, payload)
            self._rows.append(
                self._template._replace(
                    **fields,
                    offset=offset,
                    size=size,
                    frames=payload.frames,
                    height=payload.height,
                    width=payload.width,
                    payload_sha256=payload.payload_sha256,
                    pixel_sha256=payload.pixel_sha256,
                    status=manifests.OK,
                )
            )

    def publish(self, store: Store) -> int:
        """Finish the tar, publish it with its manifest part, and return its size in bytes. Raises OSError."""
        sha256, size = self._tar.finish()
        commit(store, self._task, self._scratch, size, [row._replace(shard_sha256=sha256) for row in self._rows])
        return size

    def _store(self, fields: Mapping[str, Any], payload: Payload) -> tuple[int, int]:
        """Write a sample to the tar, and return offset and length of its payload in bytes. Raises OSError."""
        draws = self._recipe.draws(self._task.condition, fields["source_id"], payload.height, payload.width)
        members = {**payload.members, **side_members({**self._description, **fields}, draws)}
        key = fields["key"]
        offsets = self._tar.add({key + suffix: data for suffix, data in members.items()})
        *_, last = payload.members.values()
        return offsets[0], offsets[len(payload.members) - 1] + len(last) - offsets[0]


def commit(store: Store, task: ShardTask, tar: Path, size: int, rows: Sequence[Row]) -> None:
    """Publish a finished tar, then its manifest part. A shard without a part does not count as finished.

    Args:
        store: The output.
        task: The task of the shard.
        tar: Path of the finished tar.
        size: Size of the tar in bytes.
        rows: Manifest rows of the shard.

    Raises:
        OSError: A file cannot be written.
    """
    store.publish(tar, task.shard)
    failed = sum(row.status == manifests.FAILED for row in rows)
    facts = {FACT_TASK: task.digest, FACT_FAILED: str(failed), FACT_SHARD_SIZE: str(size)}
    facts |= {FACT_IMAGES: str(len(rows)), FACT_LISTING: task.listing}
    part = store.scratch()
    manifests.write_part(rows, facts, part)
    store.publish(part, task.part)
