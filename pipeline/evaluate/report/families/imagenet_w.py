"""The report on ImageNet-W: what a watermark costs, and how often networks answer it with "carton"."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pipeline.evaluate.metrics.arrays import Floats
from pipeline.evaluate.report.context import Context
from pipeline.evaluate.report.load import Evaluation
from pipeline.evaluate.report.measures import FamilyReport, Metric, Results, TransformNames
from pipeline.evaluate.report.real_labels import has_imagenet_labels
from pipeline.evaluate.report.subject import Means, Subject
from pipeline.transforms.imagenet_w import FAMILY

CARTON = 478
"""Label of carton (n02971356)."""

ACCURACY = Metric("accuracy", 1)
CLEAN_ACCURACY = Metric("clean accuracy", 1, of_clean=True)
GAP = Metric("IN-W gap", 1, "difference", of_clean=True)
CARTON_GAP = Metric("carton gap", -1, "difference", of_clean=True)
CARTON_PROBABILITY = Metric("probability of carton on carton images")
ANSWERS = Metric("answers carton", -1)


def measure(evaluation: Evaluation, context: Context) -> Iterator[Results]:
    """Yield the results of an evaluation on ImageNet-W. Gaps are over the images that have a clean version."""
    subject = Subject(evaluation, context)
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
        answers = subject.grid_of((scores.values[..., 4] == CARTON).astype(float))
        measures += answers.estimate(ANSWERS, lambda means: means.cells[..., 0, 0])
    if carton.any():
        of_carton = subject.grid_of(scores.values[carton][..., 2])
        measures += of_carton.estimate(CARTON_PROBABILITY, lambda means: means.cells[..., 0, 0])
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


def _gap(means: Means) -> Floats:
    """Return the accuracy minus that on the clean images, (...)."""
    return np.asarray(means.others[..., 0] - means.cells[..., 0, 0])


REPORT = FamilyReport(
    family=FAMILY.name,
    key="imagenet_w",
    measure=measure,
    metrics=(GAP, CARTON_GAP, ACCURACY, CLEAN_ACCURACY, ANSWERS, CARTON_PROBABILITY),
    leads=(GAP.name, ACCURACY.name),
    note="Percent, gaps in percentage points, with the 95 % confidence interval over images in brackets. A negative "
    "IN-W gap and a positive carton gap show that the model relies on the watermark. Gaps need an evaluation on clean "
    "images of the same preparation.",
    glossary=(
        (
            "IN-W gap, carton gap",
            "The accuracy on watermarked images minus that on the same images without the watermark: over all images, "
            "and over those of the class carton, of which the validation set of ImageNet has 50.",
        ),
    ),
    sources=("Li et al., CVPR 2023 (ImageNet-W)",),
)
