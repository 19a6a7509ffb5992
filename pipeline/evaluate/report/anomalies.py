"""The report on anomaly detection: images of none of the classes (ImageNet-O) against clean ones, by confidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.bootstrap import Estimate, estimate_of_groups
from pipeline.evaluate.metrics.arrays import Figures, Numbers
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.family import Figure, ReportFamily, ReportLayout
from pipeline.evaluate.report.formats import COUNT
from pipeline.evaluate.report.scores import Evaluation, read_untransformed
from pipeline.transforms.clean import FAMILY

MAX_RESAMPLES = 200
"""Maximum number of bootstrap draws: each draw sorts all images."""


@dataclass(frozen=True)
class AnomalySummary:
    """The detection of anomalous images among clean ones by one model.

    Attributes:
        model: Name of the model.
        data_set: Name of the data set in this report.
        images: Number of anomalous images.
        clean_images: Number of clean images.
        failed: Number of failed samples.
        aupr: Area under the precision-recall curve; None without clean images of the same classes.
        clean_encoder: How the clean images are stored; empty if they were not evaluated.
        complete_images: Number of images of the complete data set; 0 if unknown.
        manifest_sha256: Digest of the data set's manifest.
        source_ids_sha256: Digest of the sorted source ids of the images.
    """

    model: str
    data_set: str
    images: int
    clean_images: int
    failed: int
    aupr: Estimate | None
    complete_images: int = 0
    manifest_sha256: str = ""
    source_ids_sha256: str = ""
    clean_encoder: str = ""


AUPR = Figure("AUPR", lambda summary: summary.aupr, higher_is_better=True, of_clean=True)


def summarise_anomalies(evaluation: Evaluation, context: ReportContext) -> list[AnomalySummary]:
    """Return the AUPR of an evaluation on images of none of the classes.

    Positive images are the anomalous ones. The score of an image is minus its largest probability among the groups.
    """
    anomalous, task = read_untransformed(evaluation), evaluation.table.task
    about = context.about(evaluation, anomalous.images)
    clean = context.clean_counterpart(evaluation, AUPR.name)
    aupr = None
    if clean:
        scores = [metrics.anomaly_score(each.confidences[:, None]) for each in (clean, anomalous)]
        aupr = estimate_of_groups(_area, scores, resamples=min(context.resamples, MAX_RESAMPLES))
    return [
        AnomalySummary(
            model=about.model,
            data_set=about.data_set,
            images=len(anomalous.images.ids),
            clean_images=len(clean.images.ids) if clean else 0,
            failed=about.failed,
            aupr=aupr,
            complete_images=task.images if task else 0,
            manifest_sha256=about.manifest_sha256,
            source_ids_sha256=about.source_ids_sha256,
            clean_encoder=clean.evaluation.encoded if clean else "",
        )
    ]


def _area(groups: Sequence[Numbers]) -> Figures:
    """Return the AUPR of two groups of anomaly scores: clean, anomalous."""
    anomalous = np.repeat([False, True], [len(group) for group in groups])
    return metrics.area_under_precision_recall(np.concatenate(groups), anomalous)


REPORT = ReportFamily(
    FAMILY.name,
    summarise_anomalies,
    ReportLayout[AnomalySummary](
        key="anomalies",
        figures=(AUPR,),
        leads=(AUPR,),
        note="Percent, with the 95 % confidence interval over images in brackets. Higher is better. AUPR is the area "
        "under the precision-recall curve for detecting anomalous images among clean ones: the smaller the largest "
        "class probability of an image, the higher its anomaly score.",
        counts=(
            Figure(
                "anomalous images", lambda summary: summary.images, COUNT, total=lambda summary: summary.complete_images
            ),
            Figure("clean images", lambda summary: summary.clean_images, COUNT),
            Figure("failed", lambda summary: summary.failed, COUNT),
        ),
        clean_images=lambda summary: summary.clean_encoder,
        glossary=(
            (
                "AUPR",
                "Area under the precision-recall curve for detecting, by the model's confidence, images that belong to "
                "none of its classes (ImageNet-O) among clean images. A model that is equally confident on all images "
                "has the share of anomalous images.",
            ),
        ),
        sources=("Hendrycks et al., CVPR 2021 (ImageNet-O)",),
    ),
    needs_labels=False,
)
