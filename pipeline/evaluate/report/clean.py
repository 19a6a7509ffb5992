"""The report on clean images."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.bootstrap import Estimate
from pipeline.evaluate.report.calibration import CalibrationSummary, CalibrationTable, natural_calibration
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.estimates import column_mean
from pipeline.evaluate.report.family import Figure, ReportFamily, ReportLayout
from pipeline.evaluate.report.formats import COUNT
from pipeline.evaluate.report.real_labels import RealImages
from pipeline.evaluate.report.scores import Evaluation, Untransformed
from pipeline.evaluate.report.validation import complete_images
from pipeline.transforms.clean import FAMILY


@dataclass(frozen=True)
class CleanSummary:
    """Top-1 and top-5 error of one model on clean images.

    Attributes:
        model: Name of the model.
        data_set: Name of the data set in this report.
        images: Number of images.
        failed: Number of failed samples.
        error: Top-1 error.
        top5_error: Top-5 error.
        manifest_sha256: Digest of the data set's manifest.
        source_ids_sha256: Digest of the sorted source ids of the images.
        calibration: Calibration of the probabilities.
        real_accuracy: Top-1 accuracy by the reassessed labels; None if there are none.
        real_top5_accuracy: Top-5 accuracy by the reassessed labels.
        real_images: Number of images that have reassessed labels.
        complete_images: Number of images of the complete data set; 0 if unknown.
        clean_images: How the images are stored.
    """

    model: str
    data_set: str
    images: int
    failed: int
    error: Estimate
    top5_error: Estimate
    manifest_sha256: str = ""
    source_ids_sha256: str = ""
    calibration: CalibrationSummary | None = None
    real_accuracy: Estimate | None = None
    real_top5_accuracy: Estimate | None = None
    real_images: int | None = None
    complete_images: int = 0
    clean_images: str = ""


def summarise_clean(evaluation: Evaluation, context: ReportContext) -> list[CleanSummary]:
    """Return the summary of an evaluation on clean images."""
    clean = context.clean_images(evaluation)
    bootstrap = context.bootstrap(np.stack([clean.top1_errors, clean.top5_errors], axis=1))
    about = context.about(evaluation, clean.images)
    real = context.real_images(evaluation, clean.images)
    accuracies = context.bootstrap(_real_hits(clean, real)) if real else None
    return [
        CleanSummary(
            about.model,
            about.data_set,
            len(clean.images.ids),
            about.failed,
            column_mean(bootstrap, 0),
            column_mean(bootstrap, 1),
            about.manifest_sha256,
            about.source_ids_sha256,
            natural_calibration(clean, context),
            column_mean(accuracies, 0) if accuracies else None,
            column_mean(accuracies, 1) if accuracies else None,
            len(real.rows) if real else None,
            complete_images(evaluation, clean.images.ids),
            evaluation.encoded,
        )
    ]


def _real_hits(clean: Untransformed, real: RealImages) -> NDArray[np.bool_]:
    """Return whether a reassessed label is the first class, and is among the first five, (S, 2)."""
    first, five = clean.predicted.top1[real.rows, 0], clean.predicted.top5[real.rows, 0]
    return np.stack([metrics.real_hits(first, real.labels), metrics.real_hits(five, real.labels)], axis=1)


TOP1_ERROR = Figure("top-1 error", lambda summary: summary.error, higher_is_better=False, of_clean=True)
REAL_ACCURACY = Figure("accuracy (ReaL)", lambda summary: summary.real_accuracy, of_clean=True)

REPORT = ReportFamily(
    FAMILY.name,
    summarise_clean,
    ReportLayout[CleanSummary](
        key="clean",
        figures=(
            TOP1_ERROR,
            Figure("top-5 error", lambda summary: summary.top5_error, of_clean=True),
            REAL_ACCURACY,
            Figure("top-5 accuracy (ReaL)", lambda summary: summary.real_top5_accuracy, of_clean=True),
            Figure("images (ReaL)", lambda summary: summary.real_images, COUNT),
        ),
        leads=(TOP1_ERROR,),
        note="Error rates on clean images, in percent, with the 95 % confidence interval over images in brackets. "
        "Lower is better, except for accuracies.",
        counts=(
            Figure("images", lambda summary: summary.images, COUNT, total=lambda summary: summary.complete_images),
            Figure("failed", lambda summary: summary.failed, COUNT),
        ),
        clean_images=lambda summary: summary.clean_images,
        calibration=CalibrationTable(of_clean=True),
        glossary=(
            (
                "Accuracy (ReaL)",
                "Accuracy by the reassessed labels of the ImageNet validation images, 0 to 9 per image. A prediction "
                "is correct if it is one of the image's labels; a top-5 prediction, if at least one of its five "
                "classes is. Images without a label are not counted.",
            ),
        ),
        sources=("Beyer et al., arXiv 2006.07159 (ReaL)",),
    ),
)
