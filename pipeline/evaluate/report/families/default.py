"""The report on a family of images that has none of its own: accuracy by transform and level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pipeline.evaluate import metrics
from pipeline.evaluate.report.calibration import CALIBRATION, calibration_of, read_scores
from pipeline.evaluate.report.context import Context
from pipeline.evaluate.report.load import Evaluation
from pipeline.evaluate.report.measures import FamilyReport, Metric, Pivot, Results, TransformNames
from pipeline.transforms.family import Family

IMAGENET_CLASSES = 1000
"""Number of classes of the models whose figures were published."""

MEAN_ACCURACY, ACCURACY = Metric("mean accuracy", 1), Metric("accuracy", 1)


def default_report(
    family: Family, benchmark: Sequence[str] = (), published: str = "", note: str = "", **shown: Any
) -> FamilyReport:
    """Return the report on a family whose transforms produce images, not sequences.

    Args:
        family: The family.
        benchmark: All transforms of the published data set, if a mean over fewer of them must say so.
        published: Data set of the published figures, which are of models with 1000 classes.
        note: Explanation of the key figures, after what they are.
        shown: Further fields of the report.
    """
    options: dict[str, Any] = {"benchmark": benchmark, "what": "corruption", "levels": family.levels}

    def measure(evaluation: Evaluation, context: Context) -> Iterator[Results]:
        scores = read_scores(evaluation)
        grid = context.grid(scores, 1 - scores.values[..., 0], **(options if benchmark else {}))
        calibration, bins = calibration_of(evaluation, scores, context, **(options if benchmark else {}))
        comparable = evaluation.table.labels == IMAGENET_CLASSES and not evaluation.groups_digest
        yield context.results(
            report,
            evaluation,
            scores.images,
            measures=[
                *grid.estimate(MEAN_ACCURACY, lambda means: grid.mean(means.cells)),
                *grid.estimate(ACCURACY, lambda means: metrics.mean_over(means.cells), "transform"),
                *grid.estimate(ACCURACY, lambda means: means.cells, "both"),
                *calibration,
            ],
            transforms={name: TransformNames("all transforms") for name in grid.transforms},
            published=published if comparable else "",
            details=bins,
        )

    report = FamilyReport(
        family=family.name,
        key=family.name.replace("-", "_"),
        measure=measure,
        metrics=(MEAN_ACCURACY, ACCURACY, *CALIBRATION),
        leads=(MEAN_ACCURACY.name,),
        note="Accuracy in percent, with the 95 % confidence interval over images in brackets. Higher is better."
        f"{note and ' '}{note}",
        tables=(
            Pivot(
                "accuracy by transform and level",
                [ACCURACY.name],
                "Percent; ± is half the width of the 95 % confidence interval. Higher is better.",
                rows="transform, model",
                columns="level",
                level="level ",
                plot="small lines",
            ),
        ),
        calibrated=("transform", "level"),
        **shown,
    )
    return report
