"""From evaluations of one or more models to a summary: which is clean, which is the baseline, what to warn of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.evaluate.report.anomalies import find_anomalies
from pipeline.evaluate.report.belonging import check_models, check_once, compare_models
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.families import layouts, report_of
from pipeline.evaluate.report.scores import Evaluation, open_evaluation
from pipeline.evaluate.report.summary import Summary


def summarise(
    folders: Sequence[str],
    baselines_from: Sequence[str] = (),
    anomalous: str | None = None,
    resamples: int = 1000,
) -> Summary:
    """Return the figures of one or more evaluations, of one or more models.

    Evaluations of clean images give the clean error of their model, for evaluations of the same images.

    Args:
        folders: Folders or URLs that ``evaluate`` wrote.
        baselines_from: Evaluations of the model whose figures others are divided by, over the same images. Default:
            AlexNet as published, for models of 1000 classes on images of 224 pixels, and no baseline for others.
        anomalous: An evaluation of images that belong to no class (ImageNet-O), told apart from the clean ones by the
            same model.
        resamples: Draws of the bootstrap.

    Returns:
        The figures. What does not belong together in every respect, and is shown all the same, is among the warnings.

    Raises:
        UserError: What was given is no evaluation, a family has no report, two models have one name, one data set was
            evaluated twice, or the baseline is of other images.
        UnfinishedError: An evaluation is not finished.
    """
    evaluations = [open_evaluation(folder) for folder in folders]
    reports = [report_of(each.table.data_set.family) for each in evaluations]
    baseline = [open_evaluation(folder) for folder in baselines_from]
    other = None if anomalous is None else open_evaluation(anomalous)
    check_models([*evaluations, *baseline, *([other] if other else [])])
    check_once(evaluations)
    context = ReportContext(evaluations, baseline, resamples)
    families: dict[str, list[Any]] = {key: [] for key in layouts()}
    for each, report in zip(evaluations, reports, strict=True):
        families[report.layout.key] += report.summarise(each, context)
    anomalies = find_anomalies(other, context) if other else {}
    compare_models(evaluations, context.images, context.warn)
    for each in evaluations:
        _warn_of_samples(each, context)
    return Summary(families, anomalies, context.warnings)


def _warn_of_samples(each: Evaluation, context: ReportContext) -> None:
    changed, checked = each.changed()
    if changed:
        context.warn(
            f"{each.folder}: {changed:,} of {checked:,} samples that were compared decode to other pixels on the "
            "machine of the evaluation than where they were built: the decoder differs, and results may too"
        )
    if failed := each.table.data_set.failed:
        context.warn(f"{each.folder}: {failed:,} samples of the data set had failed and are not counted")
