"""The report on images without any transform."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.evaluate.metrics.bootstrap import Estimate
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.estimates import column_mean
from pipeline.evaluate.report.family import Figure, ReportFamily, ReportLayout
from pipeline.evaluate.report.scores import Evaluation
from pipeline.transforms.clean import FAMILY


@dataclass(frozen=True)
class CleanSummary:
    """Images without any transform, of one model."""

    model: str
    data_set: str
    images: int
    failed: int
    error: Estimate
    top5_error: Estimate
    manifest_sha256: str = ""
    source_ids_sha256: str = ""


def summarise_clean(each: Evaluation, context: ReportContext) -> list[CleanSummary]:
    """Return top-1 and top-5 error of clean images."""
    clean = context.clean_images(each)
    found = context.bootstrap(np.stack([clean.errors, clean.beyond], axis=1))
    about = context.about(each, clean.images)
    return [
        CleanSummary(
            about.model,
            about.data_set,
            len(clean.errors),
            about.failed,
            column_mean(found, 0),
            column_mean(found, 1),
            about.manifest_sha256,
            about.source_ids_sha256,
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
        note="Images without any transform. Percent, in brackets the 95 % interval over images. Lower is better.",
    ),
)
