"""The reader of mirrors: a folder of images under each condition, in which each file has its path in the source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

import manifests
from manifests import Row
from pipeline.datasets.base import payload_size
from pipeline.datasets.indexed import Files
from pipeline.datasets.paths import condition_folder
from pipeline.datasets.samples import Sample, StoredSample
from pipeline.recipes.schema import Recipe
from pipeline.storage import Store
from pipeline.transforms.family import Condition


@dataclass(frozen=True, kw_only=True, repr=False)
class Mirror(Files):
    """A mirror of a folder of images. The file of a failed sample may be missing, or a copy of the clean one."""

    recipe: Recipe

    def tars(self) -> Mapping[str, int]:
        """Return path -> size in bytes of all files under the conditions."""
        return {
            name: size
            for condition in self.recipe.conditions()
            for name, size in self.store.listing(condition_folder(condition), "").items()
        }

    def _size(self, row: Row) -> int:
        return payload_size(row) + 1  # a longer file has another digest

    def _sample(self, row: Row, data: bytes) -> Sample:
        encoder = self.recipe.encoder.of(row.origin)
        return StoredSample(row, {encoder.suffix: data}, encoder)


class PresentFiles:
    """The files in a mirror, to find parts whose files were removed. It holds the names of one condition.

    Args:
        store: The mirror.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._folder, self._sizes = "", dict[str, int]()

    def has_all(self, condition: Condition, part: bytes) -> bool:
        """Return whether all files of a manifest part exist with their sizes."""
        if (folder := condition_folder(condition)) != self._folder:
            self._folder, self._sizes = folder, self._store.listing(folder, "")
        rows = pq.read_table(pa.BufferReader(part), columns=["shard", "size", "status"]).to_pylist()
        return all(self._sizes.get(row["shard"]) == row["size"] for row in rows if row["status"] == manifests.OK)
