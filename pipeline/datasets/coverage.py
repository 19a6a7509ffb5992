"""Checks across the shards of a data set."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from pipeline.datasets.findings import Findings
from pipeline.datasets.paths import MANIFEST_FILE
from pipeline.errors import UserError
from pipeline.text import shown
from pipeline.transforms.family import Condition

MAX_CONDITIONS = 10_000
"""Maximum number of conditions of a data set."""


class Coverage:
    """A check that the manifest has each condition of the recipe, as consecutive rows, with equal images and labels."""

    def __init__(self, conditions: Sequence[Condition] | None, tars: Iterable[str]) -> None:
        """Start a check.

        Args:
            conditions: Conditions that the manifest must have, or None to allow any.
            tars: Paths of the shards in the folder.
        """
        self.found = Findings()
        self._conditions = conditions
        self._unlisted = set(tars)
        self._images: dict[Condition, tuple[int, Any]] = {}
        self._latest: Condition | None = None
        self._changes = 0

    def add(self, condition: Condition, count: int, content: bytes) -> None:
        """Add rows of a condition, in manifest order.

        Args:
            condition: Condition of the rows.
            count: Number of rows.
            content: Bytes that identify the images and labels of the rows.

        Raises:
            UserError: The manifest has too many conditions.
        """
        if condition != self._latest:
            self._changes += 1
            if self._changes > MAX_CONDITIONS:
                raise UserError(
                    f"{MANIFEST_FILE} has more than {MAX_CONDITIONS} transforms and levels: it is damaged; copy or "
                    "download it again"
                )
            if condition in self._images:
                self.found.fault(MANIFEST_FILE, f"has rows of {condition} that are not consecutive")
            self._latest = condition
        earlier, digest = self._images.get(condition, (0, hashlib.sha256()))
        digest.update(content)
        self._images[condition] = (earlier + count, digest)

    def add_shard(self, shard: str) -> None:
        """Add a shard that the manifest lists."""
        self._unlisted.discard(shard)

    def finish(self) -> Findings:
        """Return the findings. Call it after all rows were added."""
        conditions = list(self._images) if self._conditions is None else self._conditions
        images = {condition: (count, digest.digest()) for condition, (count, digest) in self._images.items()}
        reference = next(iter(images.values()), None)
        for condition in (condition for condition in conditions if condition not in images):
            self.found.fault(MANIFEST_FILE, f"has no rows of {condition}")
        for condition in (condition for condition in images if condition not in conditions):
            self.found.fault(MANIFEST_FILE, f"{condition} is not in the recipe")
        for condition in (condition for condition, content in images.items() if content != reference):
            self.found.fault(str(condition), f"has other images or labels than {next(iter(images))}")
        for name in sorted(self._unlisted):
            self.found.fault(name, "is not in the manifest: delete it, it belongs to another build")
        return self.found


class ClassNames:
    """A check that labels and class names belong together in all rows: each label has one class name.

    In a data set with a task, several folders may have one label; there, each class name has one label.
    """

    def __init__(self, has_task: bool) -> None:
        """Start a check of the rows of a data set."""
        self._has_task = has_task
        self._first: dict[int | str, int | str] = {}

    def fault(self, label: int, class_name: str) -> str | None:
        """Return the fault of a row that contradicts an earlier one; None if it has none."""
        key, value = (class_name, label) if self._has_task else (label, class_name)
        first = self._first.setdefault(key, value)
        if first == value:
            return None
        if self._has_task:
            return f"has another label than the class {shown(class_name)} before: {first}"
        return f"has another class name than the label {label} before: {first}"
