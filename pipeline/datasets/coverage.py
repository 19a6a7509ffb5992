"""What must hold across the shards of a data set."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from pipeline.datasets.findings import Findings
from pipeline.datasets.paths import MANIFEST_FILE
from pipeline.errors import UserError
from pipeline.transforms.family import Condition

MAX_CONDITIONS = 10_000
"""Transforms and levels of one data set."""


class Coverage:
    """Checks that each condition of the recipe is in the manifest, in one place, over the same images and labels."""

    def __init__(self, conditions: Sequence[Condition] | None, tars: Iterable[str]) -> None:
        """Expect these conditions, or any if None; ``tars`` are the shards that the folder holds."""
        self.found = Findings()
        self._conditions = conditions
        self._foreign = set(tars)
        self._images: dict[Condition, tuple[int, Any]] = {}
        self._latest: Condition | None = None
        self._changes = 0

    def see(self, condition: Condition, count: int, content: bytes) -> None:
        """Take note of some rows of a condition; ``content`` says which images they are of.

        Raises UserError for more conditions than any data set has.
        """
        if condition != self._latest:
            self._changes += 1
            if self._changes > MAX_CONDITIONS:
                raise UserError(f"{MANIFEST_FILE} has more than {MAX_CONDITIONS} transforms and levels: it is damaged")
            if condition in self._images:
                self.found.fault(MANIFEST_FILE, f"has {condition} in two places")
            self._latest = condition
        so_far, digest = self._images.get(condition, (0, hashlib.sha256()))
        digest.update(content)
        self._images[condition] = (so_far + count, digest)

    def see_shard(self, shard: str) -> None:
        """Take note of a shard that the manifest names."""
        self._foreign.discard(shard)

    def findings(self) -> Findings:
        """Return all that was found, once every row has been seen."""
        conditions = list(self._images) if self._conditions is None else self._conditions
        images = {condition: (count, digest.digest()) for condition, (count, digest) in self._images.items()}
        reference = next(iter(images.values()), None)
        for condition in (condition for condition in conditions if condition not in images):
            self.found.fault(MANIFEST_FILE, f"has no rows of {condition}")
        for condition in (condition for condition in images if condition not in conditions):
            self.found.fault(MANIFEST_FILE, f"{condition} is not in the recipe")
        for condition in (condition for condition, content in images.items() if content != reference):
            self.found.fault(str(condition), f"covers other images or labels than {next(iter(images))}")
        for name in sorted(self._foreign):
            self.found.fault(name, "is not in the manifest: left from another build, delete it")
        return self.found
