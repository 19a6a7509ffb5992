"""The report on LAION-C: accuracy among 16 superclasses, and among ImageNet's classes where labels are these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.arrays import Floats
from pipeline.evaluate.report.context import Context
from pipeline.evaluate.report.families.accuracies import ACCURACY, MEAN_ACCURACY, TABLE
from pipeline.evaluate.report.join import condition_scores, top1_errors
from pipeline.evaluate.report.load import Evaluation
from pipeline.evaluate.report.measures import FamilyReport, Measure, Metric, Results, TransformNames
from pipeline.evaluate.report.subject import Subject
from pipeline.evaluate.report.views import INTERVAL
from pipeline.evaluate.results.predictions import ConditionPredictions
from pipeline.transforms.laion_c import FAMILY

MEAN_SUPERCLASS, SUPERCLASS = Metric("mean superclass accuracy", 1), Metric("superclass accuracy", 1)

NONE = -1
"""Superclass of classes in none of them."""


def _right(evaluation: Evaluation, predicted: ConditionPredictions) -> Floats:
    """Return whether superclass and class of each image are right, (S, 2); NaN where it has none, or none is known."""
    right, task = 1.0 - top1_errors(evaluation, predicted), evaluation.table.task
    unknown = np.full_like(right, np.nan)
    if task is None or not task.groups:
        return np.stack([unknown, right], axis=1)
    if task.labels_are is None:
        return np.stack([right, unknown], axis=1)
    superclasses = np.full(task.outputs, NONE)
    for superclass, classes in enumerate(task.groups):
        superclasses[list(classes)] = superclass
    labels = superclasses[predicted.labels]
    of_group = np.where(labels == NONE, np.nan, predicted.free[:, 0] == labels)
    return np.stack([of_group, np.where(labels == NONE, np.nan, right)], axis=1)


def measure(evaluation: Evaluation, context: Context) -> Iterator[Results]:
    """Yield the results of an evaluation on LAION-C, over the images whose class is in a superclass."""
    options = {"benchmark": FAMILY.names, "what": "distortion", "levels": FAMILY.levels}
    subject = Subject(evaluation, context, condition_scores(evaluation, _right), **options)
    scores = subject.scores
    measures: list[Measure] = []
    counted, outside = 0, 0
    for column, (mean, by_condition) in enumerate(((MEAN_SUPERCLASS, SUPERCLASS), (MEAN_ACCURACY, ACCURACY))):
        values = scores.values[..., column]
        rows = np.flatnonzero(~np.isnan(values).any(axis=1))
        if not rows.size:
            continue
        grid = subject.grid_of(values[rows])
        measures += grid.estimate(mean, lambda means, grid=grid: grid.mean(means.cells))  # type: ignore[misc]
        measures += grid.estimate(by_condition, lambda means: metrics.mean_over(means.cells), "transform")
        measures += grid.estimate(by_condition, lambda means: means.cells, "both")
        counted, outside = len(rows), len(values) - len(rows)
    if not measures:
        context.warn(f"{evaluation.folder}: no image is of one of the 16 superclasses of LAION-C")
    yield subject.results(
        REPORT,
        measures,
        counts={"images": (counted, 0), "of no superclass": (outside, 0)},
        transforms={name: TransformNames("distortions") for name in FAMILY.names},
        published=FAMILY.name if any(each.metric == MEAN_SUPERCLASS.name for each in measures) else "",
    )


REPORT = FamilyReport(
    family=FAMILY.name,
    key="laion_c",
    measure=measure,
    metrics=(MEAN_SUPERCLASS, MEAN_ACCURACY, SUPERCLASS, ACCURACY),
    leads=(MEAN_SUPERCLASS.name, MEAN_ACCURACY.name),
    note=f"Accuracy in percent, {INTERVAL}; chance among 16 superclasses is 6.25. Higher is better. Numbers over your "
    "own photographs, and with another bank of tiles, differ from the published ones: compare models on one data set.",
    transform="distortion",
    level="severity",
    tables=[
        replace(TABLE, title=f"{of.name} by distortion and severity", metrics=[of.name], level="severity ")
        for of in (SUPERCLASS, ACCURACY)
    ],
    glossary={
        "Superclass accuracy (LAION-C)": "Share of images whose superclass has the largest mean probability of its "
        "classes among 16 superclasses. The mean, not the sum, is published: superclasses of many classes are at a "
        "disadvantage. Images of the 715 classes that are in no superclass are left out.",
    },
    sources=("Li, Klein, Brendel, Geirhos and Zimmermann, ICML 2025 (LAION-C)",),
)
