"""What a report shows: the papers' figures, each with its confidence interval over images.

``manifest_sha256`` is the digest of the data set's manifest, ``source_ids_sha256`` that of the sorted source ids of its
images: summaries in which both are equal are over the same images. Both are empty where they are unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Estimate:
    """A figure, and the 95 % interval that bootstrapping the images gives it. Fractions, not percent."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class CorruptionRow:
    """One corruption: top-1 error by severity, their mean, and what a baseline makes of them."""

    name: str
    group: str
    benchmark: bool
    errors: Mapping[int, Estimate]
    mean_error: Estimate
    corruption_error: Estimate | None
    relative_corruption_error: float | None


@dataclass(frozen=True)
class CorruptionSummary:
    """ImageNet-C and its editions, of one model.

    The means are over the benchmark's corruptions that are there, ``complete`` tells whether that is all 15 at all five
    severities. ``mean_error`` is the mean corruption error (unnormalised). ``curve``: severity -> mean accuracy.
    """

    model: str
    data_set: str
    images: int
    failed: int
    baseline: str | None
    complete: bool
    rows: Sequence[CorruptionRow]
    curve: Mapping[int, Estimate]
    mean_error: Estimate | None
    mean_corruption_error: Estimate | None
    relative_mean_corruption_error: float | None
    clean_error: float | None
    residual_robustness: float | None
    manifest_sha256: str = ""
    source_ids_sha256: str = ""


@dataclass(frozen=True)
class PerturbationRow:
    """One perturbation at one difficulty: flip probability, top-5 distance, and their ratios to a baseline's."""

    name: str
    group: str
    benchmark: bool
    difficulty: int
    flip_probability: Estimate
    flip_rate: Estimate | None
    top5_distance: Estimate
    top5_ratio: Estimate | None


@dataclass(frozen=True)
class PerturbationSummary:
    """ImageNet-P and its editions, of one model at one difficulty.

    ``mean_flip_probability`` is unnormalised; minus it is RobustART's NmFP. Means over the benchmark's perturbations
    that are there, ``complete``: all ten.
    """

    model: str
    data_set: str
    sequences: int
    failed: int
    difficulty: int
    baseline: str | None
    complete: bool
    rows: Sequence[PerturbationRow]
    mean_flip_probability: Estimate | None
    mean_flip_rate: Estimate | None
    mean_top5_distance: Estimate | None
    mean_top5_ratio: Estimate | None
    manifest_sha256: str = ""
    source_ids_sha256: str = ""


@dataclass(frozen=True)
class PairRow:
    """Accuracy through one pair of decoder and resize operator."""

    name: str
    decoder: str
    resize: str
    accuracy: Estimate


@dataclass(frozen=True)
class SystemNoiseSummary:
    """ImageNet-S, of one model. ``nsd``: minus the standard deviation of the accuracies, in percentage points."""

    model: str
    data_set: str
    images: int
    failed: int
    rows: Sequence[PairRow]
    mean_accuracy: Estimate
    nsd: Estimate
    manifest_sha256: str = ""
    source_ids_sha256: str = ""


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
