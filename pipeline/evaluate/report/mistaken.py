"""Data sets that count as clean because they were indexed without their task."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import chain

from pipeline.evaluate.report.scores import Untransformed
from pipeline.tasks.library import load, shipped


def mistaken_for(clean: Untransformed) -> tuple[str, ...]:
    """Return the shipped tasks whose images these may be: those with the same classes, if the images have no task."""
    table = clean.evaluation.table
    if table.task is not None:
        return ()
    return _tasks_by_classes().get((table.model.classes, frozenset(clean.images.labels.tolist())), ())


@cache
def _tasks_by_classes() -> Mapping[tuple[int, frozenset[int]], tuple[str, ...]]:
    """Return the tasks that have part of the classes, other than clean ones, by number of outputs and classes."""
    tasks: dict[tuple[int, frozenset[int]], tuple[str, ...]] = {}
    for loaded in map(load, shipped()):
        task = loaded.task
        classes = frozenset(chain.from_iterable(task.groups)) or frozenset(loaded.folders.values())
        if task.role != "clean" and len(classes) < task.outputs:
            key = (task.outputs, classes)
            tasks[key] = (*tasks.get(key, ()), task.name)
    return tasks
