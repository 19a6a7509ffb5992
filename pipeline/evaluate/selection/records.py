"""The settings and the result of an analysis of candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pipeline.evaluate.metrics.arrays import Floats


@dataclass(frozen=True)
class SelectionSettings:
    """The settings of an analysis.

    Attributes:
        normalised: Whether overlaps divide accuracies by the clean accuracy of the model.
        threshold: Mean correlation within categories that must be exceeded, -1..1.
        benchmarks: Corruptions by name of a benchmark that the user chose.
        sizes: Numbers of categories, and of corruptions of each. Default: those of the paper that are possible.
        count: Number of random benchmarks of each size.
        seed: Seed of categories and random benchmarks.
    """

    normalised: bool = True
    threshold: float = 0.5
    benchmarks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sizes: Sequence[tuple[int, int]] = ()
    count: int = 1000
    seed: int = 0


@dataclass(frozen=True)
class Overlaps:
    """Overlap scores (C, C) of the C corruptions ``names``."""

    names: Sequence[str]
    scores: Floats


@dataclass(frozen=True)
class Correlations:
    """Mean correlations of pairs of corruptions of the same and of different categories; None without such pairs."""

    same: float | None
    different: float | None


@dataclass(frozen=True)
class Categories:
    """Categories of corruptions.

    Attributes:
        members: Corruptions by name of the category.
        overlaps: Correlations of overlap scores; None without overlaps.
        robustness: Correlations of residual robustness over models; None without models.
    """

    members: Mapping[str, Sequence[str]]
    overlaps: Correlations | None
    robustness: Correlations | None


@dataclass(frozen=True)
class ChosenBenchmark:
    """A benchmark of some corruptions; spread and mean overlap within categories are None if they are undefined."""

    name: str
    corruptions: Sequence[str]
    spread: float | None
    overlap: float | None


@dataclass(frozen=True)
class Prediction:
    """How well a benchmark predicts robustness to natural images, or a group of benchmarks on average.

    Attributes:
        title: What the benchmarks have in common.
        benchmarks: Number of benchmarks.
        correlations: Correlation of residual robustness over models, by natural set.
        p_values: Two-sided p-value, by natural set.
    """

    title: str
    benchmarks: int
    correlations: Mapping[str, float]
    p_values: Mapping[str, float]


@dataclass(frozen=True)
class Selection:
    """The result of an analysis. What needs data that was not given is None or empty.

    Attributes:
        settings: Settings.
        models: Models on candidates and natural images.
        overlaps: Overlap scores.
        categories: Categories.
        benchmarks: Chosen benchmarks.
        by_size: Predictions by random benchmarks of each size, other benchmarks, and chosen benchmarks.
        by_spread: Predictions by random benchmarks of each spread.
        warnings: Warnings for the reader.
    """

    settings: SelectionSettings
    models: Sequence[str]
    overlaps: Overlaps | None
    categories: Categories | None
    benchmarks: Sequence[ChosenBenchmark]
    by_size: Sequence[Prediction]
    by_spread: Sequence[Prediction]
    warnings: Sequence[str]

    def facts(self) -> dict[str, Any]:
        """Return the result as built-in types that can be written as JSON."""
        facts = asdict(self)
        if self.overlaps:
            facts["overlaps"]["scores"] = self.overlaps.scores.tolist()
        return facts
