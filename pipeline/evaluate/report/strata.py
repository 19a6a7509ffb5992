"""Accuracy by class, and by other parts that the task of a data set names, such as styles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipeline.evaluate.metrics.arrays import Floats
from pipeline.evaluate.report.family import Figure, Models, ReportLayout, Table
from pipeline.evaluate.report.scores import Untransformed
from pipeline.evaluate.report.tables import TransformTable, by_transform
from pipeline.tasks.schema import Task

CLASS = "class"
"""The kind of parts that are classes."""


@dataclass(frozen=True)
class Stratum:
    """The accuracy on a part of the images.

    Attributes:
        name: Kind and name of the part, such as "class bird".
        group: Kind of the part, such as "class" or "style".
        images: Number of images.
        accuracy: Top-1 accuracy.
        clean_accuracy: Top-1 accuracy on the clean images of the same part; None if there are none.
        drop: Clean accuracy minus accuracy.
        benchmark: False, since no benchmark averages over such parts.
    """

    name: str
    group: str
    images: int
    accuracy: float
    clean_accuracy: float | None = None
    drop: float | None = None
    benchmark: bool = False


def strata_of(natural: Untransformed, clean: Untransformed | None) -> list[Stratum]:
    """Return the accuracy on each part that the task names, by kind; nothing for data sets without such a task.

    Args:
        natural: Predictions for natural images.
        clean: Predictions of the same model for clean images with the same labels; None if there are none.
    """
    task = natural.evaluation.table.task
    if task is None:
        return []
    found: list[Stratum] = []
    for kind, names in _parts(task, natural).items():
        of_clean = _parts(task, clean).get(kind, ()) if clean else ()
        clean_means = _means(of_clean, clean) if clean else {}
        for name, (count, accuracy) in _means(names, natural).items():
            clean_accuracy = clean_means[name][1] if name in clean_means else None
            drop = None if clean_accuracy is None else clean_accuracy - accuracy
            found.append(Stratum(f"{kind} {name}", kind, count, accuracy, clean_accuracy, drop))
    return found


def _parts(task: Task, natural: Untransformed) -> Mapping[str, Sequence[str]]:
    """Return for each kind of parts the part of each image."""
    images = natural.images
    parts: dict[str, Sequence[str]] = {}
    if task.classes:
        names = dict(enumerate(task.classes))
        parts[CLASS] = [names.get(label, str(label)) for label in images.labels.tolist()]
    for position, kind in enumerate(task.folders or ()):
        folders = [id_.split("/")[:-1] for id_ in images.ids]
        if kind and all(len(each) > position for each in folders):
            parts[kind] = [each[position] for each in folders]
    return parts


def _means(names: Sequence[str], natural: Untransformed) -> dict[str, tuple[int, float]]:
    """Return the number of images and the accuracy by part, in sorted order."""
    if not names:
        return {}
    distinct, members = np.unique(names, return_inverse=True)
    counts = np.bincount(members)
    accuracies: Floats = np.bincount(members, 1.0 - natural.top1_errors) / counts
    return dict(zip(distinct.tolist(), zip(counts.tolist(), accuracies.tolist(), strict=True), strict=True))


ROW_FIGURES = (
    Figure("accuracy", lambda row: row.accuracy),
    Figure("clean accuracy", lambda row: row.clean_accuracy, of_clean=True),
    Figure("drop (percentage points)", lambda row: row.drop, of_clean=True),
)


def strata_tables(layout: ReportLayout[Any], section: str, models: Models[Any]) -> Iterator[Table]:
    """Yield one table for each kind of parts: parts as rows, models as columns."""
    for kind in dict.fromkeys(row.group for summary in models.values() for row in layout.rows(summary)):
        definition = TransformTable(f"accuracy by {kind}", "Top-1 accuracy in percent. Higher is better.", ROW_FIGURES)
        yield by_transform(replace(layout, rows=_rows_of(kind)), section, definition, models, kind)


def _rows_of(kind: str) -> Any:
    return lambda summary: [
        replace(row, name=row.name.removeprefix(f"{kind} ")) for row in summary.strata if row.group == kind
    ]
