"""The result of indexing, as JSON and as text."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pipeline.datasets.index.detected import DetectedLayout
from pipeline.datasets.index.labelling import EXAMPLES
from pipeline.sources.files import warnings_of_unread
from pipeline.tasks.schema import Task
from pipeline.text import counted
from pipeline.transforms.family import Condition


@dataclass(frozen=True)
class IndexResult:
    """The result of indexing.

    Attributes:
        name: Name of the data set.
        layout: The detected layout.
        family: Name of the family of its transforms.
        conditions: Its transforms and levels.
        samples: Number of samples, including failed ones.
        failed: Number of samples that could not be read.
    """

    name: str
    layout: DetectedLayout
    family: str
    conditions: tuple[Condition, ...]
    samples: int
    failed: int

    def facts(self) -> dict[str, Any]:
        """Return the result for JSON output."""
        space, task = self.layout.labelled.space, self.layout.labelled.task
        left_out, missing = self.layout.labelled.left_out, self.layout.labelled.missing
        return {
            "name": self.name,
            "layout": self.layout.name,
            "family": self.family,
            "samples": self.samples,
            "failed": self.failed,
            "passed_over": self.layout.ignored.total(),
            "steps": list(map(str, self.conditions)),
            "labels": space and {**space.model_dump(mode="json", exclude_none=True), "description": str(space)},
            "task": task
            and {
                "name": task.name,
                "role": task.role,
                "labels": task.labels,
                "left_out_folders": len(left_out),
                "left_out_images": sum(left_out.values()),
                "missing_folders": list(missing),
                "complete_images": task.images or None,
            },
            "warnings": list(warnings_of_unread(self.layout.ignored)),
        }

    def lines(self) -> Iterator[str]:
        """Yield the result as lines of text."""
        other, labelled = self.layout.ignored.total(), self.layout.labelled
        damaged = f"; {counted(self.failed, 'sample')} damaged" if self.failed else ""
        skipped = f"; skipped {counted(other, 'other file')}" if other else ""
        yield (
            f"indexed {self.name} (layout: {self.layout.name}): {counted(self.samples, 'sample')}, "
            f"{counted(len(self.conditions), 'combination')} of transform and level{damaged}{skipped}"
        )
        yield from (f"warning: {text}" for text in warnings_of_unread(self.layout.ignored))
        if labelled.space:
            yield f"labels: {labelled.space}"
        if labelled.task:
            yield from self._task_lines(labelled.task)

    def _task_lines(self, task: Task) -> Iterator[str]:
        kind = "group" if task.groups else "class"
        left_out, missing = self.layout.labelled.left_out, self.layout.labelled.missing
        yield f"task: {task.name}, {counted(task.labels, kind, f'{kind}s' if task.groups else 'classes')}, {task.role}"
        if left_out:
            images = counted(sum(left_out.values()), "image")
            yield f"left out: {counted(len(left_out), 'folder')} of other classes ({images})"
        if missing:
            examples = ", ".join(missing[:EXAMPLES]) + (" ..." if len(missing) > EXAMPLES else "")
            yield f"missing: {counted(len(missing), 'class folder')} of the task: {examples}"
        if task.images and self.samples != task.images:
            yield f"images: {self.samples:,}; the complete data set has {task.images:,}"
