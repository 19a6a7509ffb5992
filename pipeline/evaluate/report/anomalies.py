"""The report on anomaly detection: ImageNet-O images against clean ones, by the model's confidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.errors import UserError
from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.bootstrap import Estimate, estimate_of_groups
from pipeline.evaluate.metrics.checks import Figures, Numbers
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.family import Figure, ReportLayout
from pipeline.evaluate.report.matching import differing_settings
from pipeline.evaluate.report.scores import Evaluation, confidences, is_clean

MAX_RESAMPLES = 200
"""Maximum number of bootstrap draws: each draw sorts all images."""


@dataclass(frozen=True)
class AnomalySummary:
    """The AUPR of one model."""

    model: str
    aupr: Estimate
    data_set: str = ""
    manifest_sha256: str = ""
    source_ids_sha256: str = ""


def find_anomalies(anomalous: Evaluation, context: ReportContext) -> dict[str, Estimate]:
    """Return the AUPR of detecting anomalous images among clean ones, by model.

    Args:
        anomalous: Evaluation on images of no known class (ImageNet-O).
        context: State of the report, with one evaluation on clean images by the same model.

    Raises:
        UserError: If the anomalous images have a transform, or the report does not have exactly one evaluation on clean
            images by the same model.
    """
    if not is_clean(anomalous):
        raise UserError(
            f"{anomalous.folder} is an evaluation of the family {anomalous.table.data_set.family!r}: give anomalous "
            "images without a transform"
        )
    clean = _clean_evaluation(anomalous, context)
    if differ := differing_settings(clean, anomalous):
        context.warn(
            f"{anomalous.folder} and the clean images, {clean.folder}, were evaluated with different settings: {differ}"
        )
    scores = [metrics.anomaly_score(confidences(each)[:, None]) for each in (clean, anomalous)]
    area = estimate_of_groups(_area, scores, resamples=min(context.resamples, MAX_RESAMPLES))
    return {anomalous.table.model.name: area}


def _clean_evaluation(anomalous: Evaluation, context: ReportContext) -> Evaluation:
    """Return the same model's evaluation on clean images."""
    clean = [
        each.evaluation for each in context.clean if each.evaluation.table.model.name == anomalous.table.model.name
    ]
    if not clean:
        raise UserError(
            f"{anomalous.folder} cannot be compared with clean images: add an evaluation on clean images by the model "
            f"{anomalous.model!r}"
        )
    if len(clean) > 1:
        folders = " and ".join(each.folder for each in clean)
        raise UserError(
            f"{folders} are both evaluations on clean images by {anomalous.model!r}: give the one to compare "
            f"{anomalous.folder} with"
        )
    if clean[0].location == anomalous.location:
        raise UserError(
            f"{anomalous.folder} is given both as clean and as anomalous images: give an evaluation for each"
        )
    return clean[0]


def _area(groups: Sequence[Numbers]) -> Figures:
    """Return the AUPR of two groups of anomaly scores: clean, anomalous."""
    anomalous = np.repeat([False, True], [len(group) for group in groups])
    return metrics.area_under_precision_recall(np.concatenate(groups), anomalous)


def summaries(anomalies: Mapping[str, Estimate]) -> list[AnomalySummary]:
    """Return one summary per model."""
    return [AnomalySummary(model, aupr) for model, aupr in anomalies.items()]


AUPR = Figure("AUPR", lambda summary: summary.aupr)

LAYOUT = ReportLayout[AnomalySummary](
    key="anomalies",
    figures=(AUPR,),
    leads=(AUPR,),
    note="Percent, with the 95 % confidence interval over images in brackets. Higher is better. AUPR is the area under "
    "the precision-recall curve for detecting anomalous images: the smaller an image's largest class probability, the "
    "higher its anomaly score.",
    counts=(),
    title=lambda summary: "Anomalies",
    glossary=(
        (
            "AUPR",
            "Area under the precision-recall curve for detecting, by the model's confidence, images that belong to "
            "none of its classes (ImageNet-O) among clean images.",
        ),
    ),
    sources=("Hendrycks et al., CVPR 2021 (ImageNet-O)",),
)
