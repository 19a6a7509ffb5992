"""The summary of one or more evaluations: metrics, normalisation by the baseline, warnings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.evaluate.report.anomalies import find_anomalies
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.families import layouts, report_of
from pipeline.evaluate.report.matching import check_duplicates, check_model_names, warn_of_different_images
from pipeline.evaluate.report.scores import Evaluation, open_evaluation
from pipeline.evaluate.report.summary import Summary


def summarise(
    folders: Sequence[str],
    baselines_from: Sequence[str] = (),
    anomalous: str | None = None,
    resamples: int = 1000,
) -> Summary:
    """Compute the metrics of one or more evaluations.

    An evaluation on clean images provides the clean error of its model for its other evaluations of the same images.

    Args:
        folders: Folders or URLs that ``evaluate`` wrote, of one or more models.
        baselines_from: Evaluations of the baseline model on the same images. Default: AlexNet's published results for
            models of 1000 classes on images of 224 x 224, otherwise no baseline.
        anomalous: Evaluation on images of no known class (ImageNet-O). Needs an evaluation on clean images by the
            same model.
        resamples: Number of bootstrap draws.

    Returns:
        The metrics, and warnings about evaluations that are not fully comparable.

    Raises:
        UserError: If a folder has no evaluation, a family has no report, two models have the same name, a model was
            evaluated twice on one data set, or the baseline has other images.
        UnfinishedError: If an evaluation is incomplete.
    """
    evaluations = [open_evaluation(folder) for folder in folders]
    reports = [report_of(each.table.data_set.family) for each in evaluations]
    baseline = [open_evaluation(folder) for folder in baselines_from]
    other = None if anomalous is None else open_evaluation(anomalous)
    check_model_names([*evaluations, *baseline, *([other] if other else [])])
    check_duplicates(evaluations)
    context = ReportContext(evaluations, baseline, resamples)
    families: dict[str, list[Any]] = {key: [] for key in layouts()}
    for evaluation, report in zip(evaluations, reports, strict=True):
        families[report.layout.key] += report.summarise(evaluation, context)
    anomalies = find_anomalies(other, context) if other else {}
    warn_of_different_images(evaluations, context.images, context.warn)
    for evaluation in evaluations:
        _warn_of_samples(evaluation, context)
    return Summary(families, anomalies, context.warnings)


def _warn_of_samples(evaluation: Evaluation, context: ReportContext) -> None:
    """Warn of samples that failed, or that decoded to other pixels than when they were built."""
    changed, checked = evaluation.changed_samples()
    if changed:
        context.warn(
            f"{evaluation.folder}: {changed:,} of {checked:,} checked samples were decoded to other pixels than when "
            "they were built, because the decoder differs: results may differ too"
        )
    if failed := evaluation.table.data_set.failed:
        context.warn(f"{evaluation.folder}: {failed:,} samples of the data set failed to build and are not included")
