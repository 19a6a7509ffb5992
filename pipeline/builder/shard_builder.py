"""Writing of one shard, or of the files of a mirror, and publishing it with its manifest part."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import manifests
from manifests import Row
from pipeline.builder.plan import ShardTask
from pipeline.builder.sample_maker import Failure, Payload, PreparedImage
from pipeline.datasets.content import template_row
from pipeline.datasets.paths import FACT_IMAGES, FACT_LISTING, FACT_SHARD_SIZE, FACT_TASK, condition_folder, sample_key
from pipeline.datasets.samples import described_columns, side_members
from pipeline.datasets.shards import ShardWriter
from pipeline.execution.resumable import FACT_FAILED
from pipeline.images.files import Own
from pipeline.recipes.schema import Recipe
from pipeline.sources.base import SourceImage
from pipeline.storage import Store, thread_pool

FILES_AT_ONCE = 4
"""Number of files of a mirror that are published at the same time, because publishing waits for the disk."""


class PartBuilder(ABC):
    """The samples of a task that are being stored, and their manifest rows, which are kept in memory.

    Leaving the context removes unpublished scratch files, because the next attempt needs the space on a full disk.
    """

    def __init__(self, task: ShardTask, recipe: Recipe, shard: str) -> None:
        self._task = task
        self._recipe = recipe
        self._template = template_row(recipe, task.condition, shard)
        self._rows: list[Row] = []

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(self, *_: object) -> None:
        """Remove scratch files."""

    def append(self, image: PreparedImage, payload: Payload | Failure) -> None:
        """Store a sample and keep its manifest row. A failed sample has a row only.

        Raises:
            OSError: The sample cannot be written, and the builder must not be used any more.
        """
        source = image.source
        fields: dict[str, Any] = {
            "key": sample_key(source.id, self._task.condition),
            "source_id": source.id,
            "source_sha256": image.sha256,
            "origin": source.origin,
            "label": source.label,
            "class_name": source.class_name,
        }
        if isinstance(payload, Failure):
            self._rows.append(self._template._replace(**self._place(source), **fields, error=payload.reason))
        else:
            stored = self._store(fields, payload)
            self._rows.append(
                self._template._replace(
                    **fields,
                    **stored,
                    frames=payload.frames,
                    height=payload.height,
                    width=payload.width,
                    payload_sha256=payload.payload_sha256,
                    pixel_sha256=payload.pixel_sha256,
                    status=manifests.OK,
                )
            )

    @abstractmethod
    def publish(self, store: Store) -> int:
        """Publish the samples, then their manifest part, and return their size in bytes. Raises OSError."""

    def _place(self, source: SourceImage) -> dict[str, Any]:
        """Return the columns that say where a failed sample would be, if they differ from the template."""
        return {}

    @abstractmethod
    def _store(self, fields: Mapping[str, Any], payload: Payload) -> dict[str, Any]:
        """Write a sample, and return the columns that say where it is. Raises OSError."""


class ShardBuilder(PartBuilder):
    """A shard that is being written: its tar in a scratch file."""

    def __init__(self, task: ShardTask, recipe: Recipe, scratch: Path) -> None:
        super().__init__(task, recipe, task.shard)
        self._scratch = scratch
        self._tar = ShardWriter(scratch)
        self._description = described_columns(self._template)

    def __exit__(self, *_: object) -> None:
        try:
            self._tar.close()
        finally:
            self._scratch.unlink(missing_ok=True)

    def publish(self, store: Store) -> int:
        """Finish the tar, publish it with its manifest part, and return its size in bytes. Raises OSError."""
        sha256, size = self._tar.finish()
        commit(store, self._task, self._scratch, size, [row._replace(shard_sha256=sha256) for row in self._rows])
        return size

    def _store(self, fields: Mapping[str, Any], payload: Payload) -> dict[str, Any]:
        """Write a sample to the tar, and return offset and length of its payload in bytes. Raises OSError."""
        draws = self._recipe.draws(self._task.condition, fields["source_id"], payload.height, payload.width)
        members = {**payload.members, **side_members({**self._description, **fields}, draws)}
        key = fields["key"]
        offsets = self._tar.add({key + suffix: data for suffix, data in members.items()})
        *_, last = payload.members.values()
        return {"offset": offsets[0], "size": offsets[len(payload.members) - 1] + len(last) - offsets[0]}


class MirrorBuilder(PartBuilder):
    """Files of a mirror that are being written, each in a scratch file until all of them are published.

    The row of a failed sample names the file that is missing.
    """

    def __init__(self, task: ShardTask, recipe: Recipe, store: Store) -> None:
        super().__init__(task, recipe, task.shard)
        self._output = store
        self._files: dict[str, Path] = {}

    def __exit__(self, *_: object) -> None:
        for scratch in self._files.values():
            scratch.unlink(missing_ok=True)

    def publish(self, store: Store) -> int:
        """Rename or upload the files, then publish their manifest part; return their size in bytes. Raises OSError."""
        with thread_pool(FILES_AT_ONCE) as pool:
            for _ in pool.map(lambda name: store.publish(self._files[name], name), self._files):
                pass
        size = sum(row.size or 0 for row in self._rows)
        publish_part(store, self._task, size, self._rows)
        return size

    def _store(self, fields: Mapping[str, Any], payload: Payload) -> dict[str, Any]:
        """Write a scratch file, and return the name and size of the file. Raises OSError."""
        (data,) = payload.members.values()
        name = self._name(fields["origin"])
        self._files[name] = self._output.scratch()
        self._files[name].write_bytes(data)
        return {"shard": name, "offset": 0, "size": len(data)}

    def _place(self, source: SourceImage) -> dict[str, Any]:
        return {"shard": self._name(source.origin)}

    def _name(self, origin: str) -> str:
        encoder = self._recipe.encoder
        name = encoder.file_name(origin) if isinstance(encoder, Own) else origin
        return f"{condition_folder(self._task.condition)}/{name}"


def part_builder(task: ShardTask, recipe: Recipe, store: Store) -> PartBuilder:
    """Return the builder of a task: of a tar, or of the files of a mirror."""
    return MirrorBuilder(task, recipe, store) if recipe.is_mirror else ShardBuilder(task, recipe, store.scratch())


def commit(store: Store, task: ShardTask, tar: Path, size: int, rows: Sequence[Row]) -> None:
    """Publish a finished tar, then its manifest part. A shard without a part does not count as finished."""
    store.publish(tar, task.shard)
    publish_part(store, task, size, rows)


def publish_part(store: Store, task: ShardTask, size: int, rows: Sequence[Row]) -> None:
    """Publish the manifest part of a task whose samples are published. Raises OSError."""
    failed = sum(row.status == manifests.FAILED for row in rows)
    facts = {FACT_TASK: task.digest, FACT_FAILED: str(failed), FACT_SHARD_SIZE: str(size)}
    facts |= {FACT_IMAGES: str(len(rows)), FACT_LISTING: task.listing}
    part = store.scratch()
    manifests.write_part(rows, facts, part)
    store.publish(part, task.part)
