"""The registry of reports: one row per family."""

from __future__ import annotations

from collections.abc import Sequence

import corruptions
import perturbations
from pipeline.evaluate.report.clean import CLEAN_FIGURES
from pipeline.evaluate.report.family import Family, Figure
from pipeline.evaluate.report.imagenet_c import CORRUPTION_FIGURES, CORRUPTION_ROWS, _corruption_tables
from pipeline.evaluate.report.imagenet_p import PERTURBATION_FIGURES, PERTURBATION_ROWS, _perturbation_tables
from pipeline.evaluate.report.imagenet_s import SYSTEM_NOISE_FIGURES, _pair_tables

FAMILIES: Sequence[Family] = (
    Family(
        "corruptions",
        CORRUPTION_FIGURES,
        ("mCE", "mean corruption error (unnormalised)"),
        "Percent, in brackets the 95 % interval over images. Residual robustness is clean accuracy less mean accuracy. "
        "Lower is better.",
        total=len(corruptions.names("benchmark")),
        what="corruptions",
        normalised_note="mCE and relative mCE are in percent of the baseline's.",
        rows=CORRUPTION_ROWS,
        tables=_corruption_tables,
    ),
    Family(
        "perturbations",
        PERTURBATION_FIGURES,
        ("mFR", "mean flip probability (unnormalised)"),
        "Percent but for top-5 distances, which run from 0 to 15; in brackets the 95 % interval over sequences. "
        "Lower is better.",
        counted=("sequences", "failed"),
        total=len(perturbations.names("benchmark")),
        what="perturbations",
        normalised_note="mFR and mT5D are in percent of the baseline's.",
        rows=PERTURBATION_ROWS,
        tables=_perturbation_tables,
        title=lambda summary: (
            summary.data_set + (f", difficulty {summary.difficulty}" if summary.difficulty != 1 else "")
        ),
    ),
    Family(
        "system_noise",
        SYSTEM_NOISE_FIGURES,
        ("mean accuracy",),
        "In brackets the 95 % interval over images. Accuracy in percent; NSD is minus the standard deviation of the "
        "accuracies. Higher is better.",
        rows=(Figure("accuracy", "accuracy"),),
        tables=_pair_tables,
    ),
    Family(
        "clean",
        CLEAN_FIGURES,
        ("top-1 error",),
        "Images without any transform. Percent, in brackets the 95 % interval over images. Lower is better.",
    ),
    Family(
        "anomalies",
        (Figure("AUPR", "aupr"),),
        ("AUPR",),
        "Area under the precision-recall curve of the anomalies, in percent, in brackets the 95 % interval over "
        "images; an image is the more anomalous the smaller its largest probability. Higher is better.",
        counted=(),
        title=lambda summary: "Anomalies",
    ),
)
"""The kinds of data sets in the order of a report."""
