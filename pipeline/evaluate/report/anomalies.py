"""The report on images of no class, told apart from clean ones by the model's confidence (ImageNet-O)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.errors import UserError
from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.bootstrap import Estimate, estimate_of_groups
from pipeline.evaluate.metrics.checks import Figures, Numbers
from pipeline.evaluate.report.belonging import settings_that_differ
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.family import Figure, ReportLayout
from pipeline.evaluate.report.scores import Evaluation, confidences, is_clean

MOST_RESAMPLES = 200
"""Bootstrap draws at most: each sorts all images."""


@dataclass(frozen=True)
class AnomalySummary:
    """AUPR of one model."""

    model: str
    aupr: Estimate
    data_set: str = ""
    manifest_sha256: str = ""
    source_ids_sha256: str = ""


def find_anomalies(anomalous: Evaluation, context: ReportContext) -> dict[str, Estimate]:
    """Return model -> AUPR of telling images of no class from clean ones by the confidence of the same model.

    Raises:
        UserError: The images are not clean ones, or no single evaluation of clean images by the same model was given.
    """
    if not is_clean(anomalous):
        raise UserError(
            f"{anomalous.folder} is an evaluation of {anomalous.table.data_set.family}: anomalous images have no "
            "transform"
        )
    usual = _usual(anomalous, context)
    if differ := settings_that_differ(usual, anomalous):
        context.warn(
            f"{anomalous.folder} and the clean images, {usual.folder}, were evaluated with different settings: {differ}"
        )
    scores = [metrics.anomaly_score(confidences(each)[:, None]) for each in (usual, anomalous)]
    area = estimate_of_groups(_area, scores, resamples=min(context.resamples, MOST_RESAMPLES))
    return {anomalous.table.model.name: area}


def _usual(anomalous: Evaluation, context: ReportContext) -> Evaluation:
    """Return the clean images to tell anomalous ones from."""
    usual = [
        each.evaluation for each in context.clean if each.evaluation.table.model.name == anomalous.table.model.name
    ]
    if not usual:
        raise UserError(
            f"{anomalous.folder} needs an evaluation of clean images by {anomalous.model} beside it, to tell them from"
        )
    if len(usual) > 1:
        folders = " and ".join(each.folder for each in usual)
        raise UserError(
            f"{folders} are both clean images of {anomalous.model}: give the one to tell {anomalous.folder} from"
        )
    if usual[0].place == anomalous.place:
        raise UserError(f"{anomalous.folder} is given as the clean images and as the anomalous ones")
    return usual[0]


def _area(groups: Sequence[Numbers]) -> Figures:
    anomalous = np.repeat([False, True], [len(group) for group in groups])
    return metrics.area_under_precision_recall(np.concatenate(groups), anomalous)


def summaries(anomalies: Mapping[str, Estimate]) -> list[AnomalySummary]:
    """Return the anomalies of a report in the form of other summaries."""
    return [AnomalySummary(model, aupr) for model, aupr in anomalies.items()]


AUPR = Figure("AUPR", lambda summary: summary.aupr)

LAYOUT = ReportLayout[AnomalySummary](
    key="anomalies",
    figures=(AUPR,),
    leads=(AUPR,),
    note="Area under the precision-recall curve of the anomalies, in percent, in brackets the 95 % interval over "
    "images; an image is the more anomalous the smaller its largest probability. Higher is better.",
    counts=(),
    title=lambda summary: "Anomalies",
    sources=("Hendrycks et al., CVPR 2021 (ImageNet-O)",),
)
