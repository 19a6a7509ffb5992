"""A shard in the making, and how it is published with its manifest part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import manifests
from manifests import Row
from pipeline.build.failures import Failure
from pipeline.build.plan import ShardTask
from pipeline.build.records import Payload, SampleResult
from pipeline.datasets.paths import FACT_FAILED, FACT_IMAGES, FACT_LISTING, FACT_SHARD_SIZE, FACT_TASK
from pipeline.datasets.samples import side_members, told_columns
from pipeline.datasets.shards import ShardWriter
from pipeline.recipes.schema import Recipe
from pipeline.storage import Store


class ShardBuilder:
    """A shard that is being written: its tar in a scratch file, its rows in memory.

    Leaving its context removes the scratch file unless it was published: where the disk is full, the next attempt
    needs the room.
    """

    def __init__(self, task: ShardTask, recipe: Recipe, scratch: Path) -> None:
        self._task = task
        self._condition = str(task.condition)
        self._scratch = scratch
        self._tar = ShardWriter(scratch)
        self._blank = _blank_row(task, recipe)
        self._told = told_columns(self._blank)
        self._rows: list[Row] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._tar.close()
        finally:
            self._scratch.unlink(missing_ok=True)

    def append(self, result: SampleResult) -> None:
        """Write a sample and keep its row; of a failed one, keep the row alone.

        Raises OSError, after which the tar is of no use.
        """
        source, payload = result.source, result.payload
        known: dict[str, Any] = {
            "key": f"{source.id}-{self._condition}",
            "source_id": source.id,
            "source_sha256": result.source_sha256,
            "origin": source.origin,
            "label": source.label,
            "class_name": source.class_name,
        }
        if isinstance(payload, Failure):
            self._rows.append(self._blank._replace(**known, error=payload.reason))
        else:
            offset, size = self._store(known, payload)
            self._rows.append(
                self._blank._replace(
                    **known,
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
        """Finish the tar, commit it with its rows, and return its bytes. Raises OSError."""
        sha256, size = self._tar.finish()
        commit(store, self._task, self._scratch, size, [row._replace(shard_sha256=sha256) for row in self._rows])
        return size

    def _store(self, known: Mapping[str, Any], payload: Payload) -> tuple[int, int]:
        """Write the members of a sample. Return where its payload begins in the tar, and its bytes. Raises OSError."""
        members = {**payload.members, **side_members({**self._told, **known})}
        key = known["key"]
        offsets = self._tar.add({key + suffix: data for suffix, data in members.items()})
        *_, last = payload.members.values()
        return offsets[0], offsets[len(payload.members) - 1] + len(last) - offsets[0]


def commit(store: Store, task: ShardTask, tar: Path, size: int, rows: Sequence[Row]) -> None:
    """Publish a finished tar, then its manifest part: a shard exists once its part does."""
    store.publish(tar, task.shard)
    failed = sum(row.status == manifests.FAILED for row in rows)
    facts = {FACT_TASK: task.digest, FACT_FAILED: str(failed), FACT_SHARD_SIZE: str(size)}
    facts |= {FACT_IMAGES: str(len(rows)), FACT_LISTING: task.listing}
    part = store.scratch()
    manifests.write_part(rows, facts, part)
    store.publish(part, task.part)


def _blank_row(task: ShardTask, recipe: Recipe) -> Row:
    """Return what all rows of a shard share; the sample is a failed one as long as nothing has been stored of it."""
    condition = task.condition
    pair = recipe.pair(condition)
    return Row(
        key="",
        shard=task.shard,
        shard_sha256="",  # known when the tar is finished
        offset=None,
        size=None,
        source_id="",
        source_sha256=None,
        origin="",
        label=-1,
        class_name="",
        transform=condition.transform,
        version=recipe.family.version(condition.transform),
        level=condition.level,
        profile=recipe.profile,
        decoder=pair.decoder,
        resize=pair.resize,
        frames=None,
        height=None,
        width=None,
        encoder=str(recipe.encoder),
        payload_sha256=None,
        pixel_sha256=None,
        status=manifests.FAILED,
        error=None,
    )
