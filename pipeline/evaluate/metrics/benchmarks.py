"""Figures of RobustART, ARES-Bench and Laugros et al."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pipeline.evaluate.metrics.checks import Floats, fractions


def normalised_standard_deviation(accuracies: Sequence[float] | Floats) -> float:
    """Minus the population standard deviation of accuracies under different preparations, in percentage points, -50..0.

    ``accuracies``: fractions, 0..1. Raises ValueError for others. Source: RobustART, ImageNet-S, NSD.
    """
    return -100 * float(fractions(accuracies, "accuracies").std())


def residual_robustness(clean_accuracy: float, corrupted_accuracy: float) -> float:
    """The accuracy that a corruption takes, -1..1: smaller is better. Raises ValueError beyond 0..1.

    Source: Laugros et al.
    """
    clean, corrupted = fractions([clean_accuracy, corrupted_accuracy], "accuracies")
    return float(clean - corrupted)


def robustness_curve(accuracies: Mapping[str, Sequence[float] | Floats]) -> Floats:
    """Accuracy against severity, (severities,): the mean over the corruptions, 0..1.

    Raises ValueError for values beyond 0..1 and for corruptions with different numbers of severities.
    Source: ARES-Bench.
    """
    rows = [fractions(row, name) for name, row in accuracies.items()]
    lengths = sorted({len(row) for row in rows})
    if len(lengths) != 1:
        raise ValueError(
            f"{len(rows)} corruptions with {lengths} severities; allowed are one or more with as many each"
        )
    return np.mean(rows, axis=0)


def correlation_of_benchmarks(first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> float:
    """Pearson correlation of two benchmarks' figures for the same models, -1..1.

    (M,) each, in one order of models. Raises ValueError for different shapes, for what is not finite, and where a
    benchmark gives all models the same figure. Source: Laugros et al.
    """
    pair = [np.asarray(first, np.float64), np.asarray(second, np.float64)]
    if pair[0].ndim != 1 or pair[0].shape != pair[1].shape or not np.isfinite(pair).all():
        raise ValueError(f"figures of shapes {pair[0].shape} and {pair[1].shape}; allowed are finite (models,) twice")
    if any(len(figures) < 2 or np.ptp(figures) == 0 for figures in pair):
        raise ValueError("a benchmark with one figure for all models; a correlation needs at least two")
    deviations = [(figures - figures.mean()) / figures.std() for figures in pair]
    return float(np.clip(np.mean(deviations[0] * deviations[1]), -1, 1))
