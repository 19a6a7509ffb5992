"""The report on clean images."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.evaluate.metrics.bootstrap import Estimate
from pipeline.evaluate.report.calibration import CalibrationSummary, CalibrationTable, natural_calibration
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.estimates import column_mean
from pipeline.evaluate.report.family import Figure, ReportFamily, ReportLayout
from pipeline.evaluate.report.scores import Evaluation
from pipeline.transforms.clean import FAMILY


@dataclass(frozen=True)
class CleanSummary:
    """Top-1 and top-5 error of one model on clean images."""

    model: str
    data_set: str
    images: int
    failed: int
    error: Estimate
    top5_error: Estimate
    manifest_sha256: str = ""
    source_ids_sha256: str = ""
    calibration: CalibrationSummary | None = None


def summarise_clean(evaluation: Evaluation, context: ReportContext) -> list[CleanSummary]:
    """Return the top-1 and top-5 error of an evaluation on clean images."""
    clean = context.clean_images(evaluation)
    bootstrap = context.bootstrap(np.stack([clean.top1_errors, clean.top5_errors], axis=1))
    about = context.about(evaluation, clean.images)
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
        )
    ]


TOP1_ERROR = Figure("top-1 error", lambda summary: summary.error)

REPORT = ReportFamily(
    FAMILY.name,
    summarise_clean,
    ReportLayout[CleanSummary](
        key="clean",
        figures=(TOP1_ERROR, Figure("top-5 error", lambda summary: summary.top5_error)),
        leads=(TOP1_ERROR,),
        note="Error rates on clean images, in percent, with the 95 % confidence interval over images in brackets. "
        "Lower is better.",
        calibration=CalibrationTable(),
    ),
)
