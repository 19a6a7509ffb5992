"""The report on ImageNet-Syn2Nat and its candidates: the accuracy that corruptions cost."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pipeline.evaluate import metrics
from pipeline.evaluate.report.calibration import CALIBRATION, calibration_of, read_scores
from pipeline.evaluate.report.context import Context
from pipeline.evaluate.report.load import Evaluation
from pipeline.evaluate.report.measures import FamilyReport, Metric, Pivot, Results, TransformNames
from pipeline.transforms.syn2nat import CATEGORY_OF, FAMILY, SYN2NAT

RESIDUAL_ROBUSTNESS = Metric("residual robustness", -1, "difference", of_clean=True)
MEAN_ACCURACY, ACCURACY = Metric("mean accuracy", 1), Metric("accuracy", 1)
CLEAN_ACCURACY = Metric("clean accuracy", 1, of_clean=True)


def measure(evaluation: Evaluation, context: Context) -> Iterator[Results]:
    """Yield the results of an evaluation on ImageNet-Syn2Nat or its candidates.

    Means are over the candidates of the benchmark in the data set; if it has none of them, over all its candidates.
    Residual robustness is over the images that have a clean version.
    """
    scores, benchmark = read_scores(evaluation), {"benchmark": SYN2NAT, "what": "corruption"}
    clean, right = context.clean_error(evaluation, scores.images), 1 - scores.values[..., 0]
    grid = context.grid(scores, right, **benchmark)
    calibration, bins = calibration_of(evaluation, scores, context, **benchmark)
    measures = [
        *grid.estimate(MEAN_ACCURACY, lambda means: grid.mean(means.cells)),
        *grid.estimate(ACCURACY, lambda means: means.cells[..., 0], "transform"),
    ]
    if clean:
        paired = context.grid(scores, right[clean.rows], others=1 - clean.errors[:, None], **benchmark)
        lost = metrics.residual_robustness
        measures += [
            *paired.estimate(RESIDUAL_ROBUSTNESS, lambda means: lost(means.others[..., 0], paired.mean(means.cells))),
            *paired.estimate(RESIDUAL_ROBUSTNESS, lambda means: lost(means.others, means.cells[..., 0]), "transform"),
            *paired.estimate(CLEAN_ACCURACY, lambda means: means.others[..., 0], covers=""),
        ]
    yield context.results(
        REPORT,
        evaluation,
        scores.images,
        measures=[*measures, *calibration],
        transforms={name: TransformNames(CATEGORY_OF.get(name, ""), name in SYN2NAT) for name in grid.transforms},
        clean_images=clean.encoded if clean else "",
        clean_accuracy=1 - clean.value if clean else math.nan,
        details=bins,
    )


REPORT = FamilyReport(
    family=FAMILY.name,
    key="syn2nat",
    measure=measure,
    metrics=(RESIDUAL_ROBUSTNESS, MEAN_ACCURACY, CLEAN_ACCURACY, ACCURACY, *CALIBRATION),
    leads=(RESIDUAL_ROBUSTNESS.name, MEAN_ACCURACY.name),
    note="Percent, with the 95 % confidence interval over images in brackets. Residual robustness is the clean "
    "accuracy minus the mean accuracy on corrupted images: smaller is better. Compare only models of similar clean "
    "accuracy by it.",
    tables=(
        Pivot(
            "accuracy by candidate",
            [ACCURACY.name],
            "Top-1 accuracy in percent, with the 95 % confidence interval over images in brackets. Higher is better.",
            head=["candidate"],
            plot="bars",
        ),
        Pivot(
            "residual robustness by candidate",
            [RESIDUAL_ROBUSTNESS.name],
            "Clean accuracy minus accuracy, in percentage points, with the 95 % confidence interval over images in "
            "brackets. Smaller is better.",
            head=["candidate"],
            plot="bars",
        ),
    ),
    calibrated=("candidate", "level"),
    glossary=(
        (
            "Residual robustness (ImageNet-Syn2Nat)",
            "The clean accuracy minus the mean accuracy under the 18 corruptions of ImageNet-Syn2Nat, in percentage "
            "points. Other candidates are not included in means.",
        ),
    ),
    sources=("Laugros, Caplier and Ospici, BMVC 2021 (ImageNet-Syn2Nat)",),
)
