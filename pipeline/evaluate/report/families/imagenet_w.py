"""The report on ImageNet-W: what a watermark costs, and how often networks answer it with "carton"."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pipeline.evaluate.metrics.arrays import Floats
from pipeline.evaluate.report.context import Context
from pipeline.evaluate.report.join import condition_scores, top1_errors
from pipeline.evaluate.report.load import Evaluation
from pipeline.evaluate.report.measures import FamilyReport, Measure, Metric, Results, TransformNames
from pipeline.evaluate.report.real_labels import has_imagenet_labels
from pipeline.evaluate.report.subject import Means, Subject
from pipeline.evaluate.report.views import INTERVAL
from pipeline.evaluate.results.predictions import ConditionPredictions
from pipeline.transforms.imagenet_w import CARTON, FAMILY

ACCURACY = Metric("accuracy", 1)
CLEAN_ACCURACY = Metric("clean accuracy", 1, of_clean=True)
GAP = Metric("IN-W gap", 1, "difference", of_clean=True)
CARTON_GAP = Metric("carton gap", -1, "difference", of_clean=True)
PROBABILITY = Metric("probability of carton", -1)
CLEAN_PROBABILITY = Metric("clean probability of carton", of_clean=True)
PROBABILITY_GAP = Metric("carton probability gap", -1, "difference", of_clean=True)
CARTON_PROBABILITY = Metric("probability of carton on carton images")
ANSWERS = Metric("answers carton", -1)

AGAIN = "evaluate again into a new folder"


def measure(evaluation: Evaluation, context: Context) -> Iterator[Results]:
    """Yield the results of an evaluation on ImageNet-W. Gaps are over the images that have a clean version."""
    subject = Subject(evaluation, context, condition_scores(evaluation, _values))
    scores, paired = subject.scores, subject.paired
    labels, of_imagenet = scores.images.labels, has_imagenet_labels(evaluation)
    carton = (labels == CARTON) & of_imagenet
    measures = [*subject.grid.estimate(ACCURACY, lambda means: 1 - means.cells[..., 0, 0])]
    if paired and subject.clean:
        measures += paired.estimate(GAP, _gap)
        measures += paired.estimate(CLEAN_ACCURACY, lambda means: 1 - means.others[..., 0])
        rows = np.flatnonzero(carton[subject.clean.rows])
        if rows.size:
            cartons = subject.grid_of(subject.errors[subject.clean.rows[rows]], subject.clean.errors[rows, None])
            measures += cartons.estimate(CARTON_GAP, _gap)
    if of_imagenet:
        measures += _means(subject, ANSWERS, scores.values[..., 2])
        measures += _probabilities(subject)
    if carton.any():
        measures += _means(subject, CARTON_PROBABILITY, scores.values[carton][..., 3])
    else:
        reason = "it has no image of this class" if of_imagenet else "its labels are not those of ImageNet"
        context.warn(f"{evaluation.folder}: no carton gap, because {reason}")
    yield subject.results(
        REPORT,
        measures,
        counts={"images": (len(labels), 0), "carton images": (int(carton.sum()), 0)},
        transforms={name: TransformNames() for name in FAMILY.names},
        published="imagenet-w" if of_imagenet else "",
    )


def _values(evaluation: Evaluation, predicted: ConditionPredictions) -> NDArray[np.float64]:
    """Return error, probability of carton, whether it is the answer, and the probability of the label, (S, 4)."""
    shortcut = predicted.shortcut_probability
    columns = [
        top1_errors(evaluation, predicted),
        np.full(len(predicted.labels), np.nan) if shortcut is None else shortcut[:, 0],
        predicted.top1[:, 0] == CARTON,
        predicted.label_probability[:, 0],
    ]
    return np.stack(columns, axis=1).astype(np.float64)


def _means(subject: Subject, metric: Metric, values: Floats) -> Iterator[Measure]:
    """Yield the mean of values of images, (images, 1)."""
    return subject.grid_of(values).estimate(metric, lambda means: means.cells[..., 0, 0])


def _probabilities(subject: Subject) -> Iterator[Measure]:
    """Yield the mean probability of carton, that on the clean images, and how much larger the former is."""
    marked, clean, folder = subject.scores.values[..., 1], subject.clean, subject.evaluation.folder
    if np.isnan(marked).any():
        subject.context.warn(f"{folder}: no probability of carton, because it was not recorded: {AGAIN}")
        return
    yield from _means(subject, PROBABILITY, marked)
    if clean is None:
        return
    if clean.shortcuts is None or np.isnan(clean.shortcuts).any():
        subject.context.warn(f"{folder}: no carton probability gap, because its clean images have none: {AGAIN}")
    else:
        paired = subject.grid_of(marked[clean.rows], clean.shortcuts[:, None])
        yield from paired.estimate(CLEAN_PROBABILITY, lambda means: means.others[..., 0])
        yield from paired.estimate(PROBABILITY_GAP, lambda means: means.cells[..., 0, 0] - means.others[..., 0])


def _gap(means: Means) -> Floats:
    """Return the accuracy minus that on the clean images, (...)."""
    return np.asarray(means.others[..., 0] - means.cells[..., 0, 0])


REPORT = FamilyReport(
    family=FAMILY.name,
    key="imagenet_w",
    measure=measure,
    metrics=(
        *(GAP, CARTON_GAP, ACCURACY, CLEAN_ACCURACY, ANSWERS),
        *(PROBABILITY, CLEAN_PROBABILITY, PROBABILITY_GAP, CARTON_PROBABILITY),
    ),
    leads=(GAP.name, ACCURACY.name),
    note=f"Percent, gaps in percentage points, {INTERVAL}. A negative IN-W gap and a positive carton gap show that the "
    "model relies on the watermark. Gaps need an evaluation on clean images of the same preparation.",
    glossary={
        "IN-W gap, carton gap": "The accuracy on watermarked images minus that on the same images without the "
        "watermark: over all images, and over those of the class carton, of which the validation set of ImageNet has "
        "50.",
        "Probability of carton, carton probability gap": "The mean probability of the class carton over all "
        "watermarked images, and that minus the same on the clean images. The gap is the most sensitive of these "
        "figures: it needs no image whose answer changes.",
    },
    sources=("Li et al., CVPR 2023 (ImageNet-W)",),
)
