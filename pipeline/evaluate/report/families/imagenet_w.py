"""The report on ImageNet-W: what a watermark costs, and how often networks answer it with "carton"."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pipeline.evaluate.report.calibration import read_scores
from pipeline.evaluate.report.context import Context
from pipeline.evaluate.report.families.default import IMAGENET_CLASSES
from pipeline.evaluate.report.load import Evaluation
from pipeline.evaluate.report.measures import FamilyReport, Measure, Metric, Results, TransformNames
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
    scores = read_scores(evaluation)
    right, labels = 1 - scores.values[..., 0], scores.images.labels
    clean, of_imagenet = context.clean_error(evaluation, scores.images), evaluation.table.labels == IMAGENET_CLASSES
    carton = labels == CARTON if of_imagenet and not evaluation.groups_digest else np.zeros(len(labels), bool)
    measures: list[Measure] = [*context.grid(scores, right).estimate(ACCURACY, lambda means: means.cells[..., 0, 0])]
    if clean:
        before = 1 - clean.errors[:, None].astype(float)
        paired = context.grid(scores, right[clean.rows], others=before)
        measures += paired.estimate(GAP, lambda means: means.cells[..., 0, 0] - means.others[..., 0])
        measures += paired.estimate(CLEAN_ACCURACY, lambda means: means.others[..., 0])
        inside = carton[clean.rows]
        if inside.any():
            cartons = context.grid(scores, right[clean.rows][inside], others=before[inside])
            measures += cartons.estimate(CARTON_GAP, lambda means: means.cells[..., 0, 0] - means.others[..., 0])
    if of_imagenet and not evaluation.groups_digest:
        answers = (scores.values[..., 4] == CARTON).astype(float)
        measures += context.grid(scores, answers).estimate(ANSWERS, lambda means: means.cells[..., 0, 0])
    if carton.any():
        of_carton = context.grid(scores, scores.values[carton][..., 2])
        measures += of_carton.estimate(CARTON_PROBABILITY, lambda means: means.cells[..., 0, 0])
    else:
        reason = "it has no image of this class" if of_imagenet else "its labels are not those of ImageNet"
        context.warn(f"{evaluation.folder}: no carton gap, because {reason}")
    yield context.results(
        REPORT,
        evaluation,
        scores.images,
        measures=measures,
        counts={"images": (len(labels), 0), "carton images": (int(carton.sum()), 0)},
        transforms={name: TransformNames() for name in FAMILY.names},
        clean_images=clean.encoded if clean else "",
        clean_accuracy=1 - clean.value if clean else math.nan,
        published="imagenet-w" if of_imagenet and not evaluation.groups_digest else "",
    )


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
