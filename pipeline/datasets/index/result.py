"""The result of indexing, as JSON and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.datasets.index.labelling import EXAMPLES
from pipeline.tasks.labels import LabelSpace
from pipeline.tasks.schema import Task
from pipeline.text import counted
from pipeline.transforms.family import Condition


@dataclass(frozen=True)
class IndexResult:
    """The result of indexing.

    Attributes:
        name: Name of the data set.
        layout: Name of the detected layout.
        family: Name of the family of its transforms.
        conditions: Its transforms and levels.
        samples: Number of samples, including failed ones.
        failed: Number of samples that could not be read.
        passed_over: Number of files that are not samples.
        labels: What the labels count. None if unknown, or if a task says it.
        task: The task. None if there is none.
        left_out: Folders that the task does not name, and the number of images in each.
        missing: Folders that the task names and that have no images.
        warnings: What to know about the files that are not samples.
    """

    name: str
    layout: str
    family: str
    conditions: tuple[Condition, ...]
    samples: int
    failed: int
    passed_over: int
    labels: LabelSpace | None
    task: Task | None
    left_out: Mapping[str, int]
    missing: tuple[str, ...]
    warnings: tuple[str, ...]

    def facts(self) -> dict[str, Any]:
        """Return the result for JSON output."""
        counts = ("name", "layout", "family", "samples", "failed", "passed_over")
        return {
            **{name: getattr(self, name) for name in counts},
            "steps": list(map(str, self.conditions)),
            "labels": self.labels
            and {**self.labels.model_dump(mode="json", exclude_none=True), "description": str(self.labels)},
            "task": self.task
            and {
                "name": self.task.name,
                "role": self.task.role,
                "labels": self.task.labels,
                "left_out_folders": len(self.left_out),
                "left_out_images": sum(self.left_out.values()),
                "missing_folders": list(self.missing),
                "complete_images": self.task.images or None,
            },
            "warnings": list(self.warnings),
        }

    def lines(self) -> Iterator[str]:
        """Yield the result as lines of text."""
        damaged = f"; {counted(self.failed, 'sample')} damaged" if self.failed else ""
        skipped = f"; skipped {counted(self.passed_over, 'other file')}" if self.passed_over else ""
        yield (
            f"indexed {self.name} (layout: {self.layout}): {counted(self.samples, 'sample')}, "
            f"{counted(len(self.conditions), 'combination')} of transform and level{damaged}{skipped}"
        )
        yield from (f"warning: {text}" for text in self.warnings)
        if self.labels:
            yield f"labels: {self.labels}"
        if self.task:
            yield from self._task_lines(self.task)

    def _task_lines(self, task: Task) -> Iterator[str]:
        kind = "group" if task.groups else "class"
        yield f"task: {task.name}, {counted(task.labels, kind, f'{kind}s' if task.groups else 'classes')}, {task.role}"
        if self.left_out:
            folders, images = len(self.left_out), sum(self.left_out.values())
            yield f"left out: {counted(folders, 'folder')} of other classes ({counted(images, 'image')})"
        if self.missing:
            examples = ", ".join(self.missing[:EXAMPLES]) + (" ..." if len(self.missing) > EXAMPLES else "")
            yield f"missing: {counted(len(self.missing), 'class folder')} of the task: {examples}"
        if task.images and self.samples != task.images:
            yield f"images: {self.samples:,}; the complete data set has {task.images:,}"
