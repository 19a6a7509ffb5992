"""What a report shows: the papers' figures, each with its confidence interval over images.

``manifest_sha256`` is the digest of the data set's manifest, ``source_ids_sha256`` that of the sorted source ids of its
images: summaries in which both are equal are over the same images. Both are empty where they are unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.evaluate.report.clean import CleanSummary
from pipeline.evaluate.report.estimates import Estimate
from pipeline.evaluate.report.imagenet_c import CorruptionSummary
from pipeline.evaluate.report.imagenet_p import PerturbationSummary
from pipeline.evaluate.report.imagenet_s import SystemNoiseSummary


@dataclass(frozen=True)
class Summary:
    """Everything that a report shows. ``aupr``: model -> area under the precision-recall curve of the anomalies."""

    corruptions: Sequence[CorruptionSummary]
    perturbations: Sequence[PerturbationSummary]
    system_noise: Sequence[SystemNoiseSummary]
    clean: Sequence[CleanSummary]
    anomalies: Mapping[str, Estimate]
    warnings: Sequence[str]

    def facts(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)
