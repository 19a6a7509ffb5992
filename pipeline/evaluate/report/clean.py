"""The report on images without any transform."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.evaluate.report.estimates import Estimate, _column, _Figures
from pipeline.evaluate.report.family import Figure
from pipeline.evaluate.report.scores import About, Clean

CLEAN_FIGURES = (Figure("top-1 error", "error"), Figure("top-5 error", "top5_error"))


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


def clean_figures(clean: Clean, about: About, resamples: int) -> CleanSummary:
    """Return top-1 and top-5 error of clean images."""
    figures = _Figures(np.stack([clean.errors, clean.beyond], axis=1).astype(np.float64), resamples)
    return CleanSummary(
        about.model,
        about.data_set,
        len(clean.errors),
        about.failed,
        figures.estimate(_column(0)),
        figures.estimate(_column(1)),
        about.manifest_sha256,
        about.source_ids_sha256,
    )
