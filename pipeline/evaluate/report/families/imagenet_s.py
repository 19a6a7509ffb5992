"""The report on ImageNet-S: accuracy by decoder and resize operator."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.evaluate import metrics
from pipeline.evaluate.report.calibration import CALIBRATION, calibration_of, read_scores
from pipeline.evaluate.report.context import Context
from pipeline.evaluate.report.load import Evaluation
from pipeline.evaluate.report.measures import FamilyReport, Metric, Pivot, Results, TransformNames
from pipeline.evaluate.report.views import PLAIN
from pipeline.transforms.imagenet_s import FAMILY, PAIRS

MEAN_ACCURACY, ACCURACY = Metric("mean accuracy", 1), Metric("accuracy", 1)
NSD = Metric("NSD (percentage points)", 1, "percentage points", PLAIN)


def measure(evaluation: Evaluation, context: Context) -> Iterator[Results]:
    """Yield the results of an evaluation on ImageNet-S."""
    scores = read_scores(evaluation)
    grid = context.grid(scores, 1 - scores.values[..., 0])
    calibration, bins = calibration_of(evaluation, scores, context)
    yield context.results(
        REPORT,
        evaluation,
        scores.images,
        measures=[
            *grid.estimate(MEAN_ACCURACY, lambda means: grid.mean(means.cells)),
            *grid.estimate(NSD, lambda means: metrics.normalised_standard_deviation(means.cells[..., 0])),
            *grid.estimate(ACCURACY, lambda means: means.cells[..., 0], "transform"),
            *calibration,
        ],
        transforms={name: TransformNames(labels=(PAIRS[name].decoder, PAIRS[name].resize)) for name in grid.transforms},
        details=bins,
    )


REPORT = FamilyReport(
    family=FAMILY.name,
    key="system_noise",
    measure=measure,
    metrics=(MEAN_ACCURACY, NSD, ACCURACY, *CALIBRATION),
    leads=(MEAN_ACCURACY.name,),
    note="Accuracy in percent, NSD in percentage points, with the 95 % confidence interval over images in brackets. "
    "Higher is better.",
    tables=(
        Pivot(
            "accuracy by decoder and resize operator",
            [ACCURACY.name],
            "Top-1 accuracy in percent, with the 95 % confidence interval over images in brackets. Higher is better.",
            head=["decoder", "resize operator"],
            plot="heat map",
        ),
    ),
    calibrated=("pair", "level"),
    glossary=(
        (
            "NSD",
            "The negated standard deviation of the accuracy over all pairs of decoder and resize operator, in "
            "percentage points. 0 means that the accuracy does not depend on how images are decoded and resized.",
        ),
    ),
    sources=("Tang et al., RobustART, 2021 (ImageNet-S)",),
)
