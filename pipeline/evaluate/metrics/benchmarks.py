"""Figures of RobustART (ImageNet-S), ARES-Bench and Laugros et al."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from pipeline.evaluate.metrics.checks import Figures, Floats, fractions, plain


def normalised_standard_deviation(accuracies: ArrayLike) -> Figures:
    """Return NSD: minus the population standard deviation of accuracies under different preparations.

    Args:
        accuracies: Fractions 0..1, (..., preparations).

    Returns:
        NSD (...) in percentage points, -50..0.

    Raises:
        ValueError: For no preparation and for numbers outside 0..1.

    Source: RobustART, arXiv 2109.05211.
    """
    return plain(-100 * fractions(accuracies, "accuracies", axes=1).std(axis=-1))


def residual_robustness(clean_accuracy: ArrayLike, corrupted_accuracy: ArrayLike) -> Figures:
    """Return the accuracy that a corruption takes, smaller is better.

    Args:
        clean_accuracy: Fractions 0..1, a number or (...).
        corrupted_accuracy: Fractions 0..1, a number or (...).

    Returns:
        The difference (...), -1..1.

    Raises:
        ValueError: For numbers outside 0..1.

    Source: Laugros et al., arXiv 2107.12052.
    """
    clean = fractions(clean_accuracy, "clean accuracies", axes=0)
    return plain(np.asarray(clean - fractions(corrupted_accuracy, "corrupted accuracies", axes=0)))


def robustness_curve(accuracies: Mapping[str, ArrayLike]) -> Floats:
    """Return accuracy against severity: the mean over corruptions at each severity.

    Args:
        accuracies: Corruption -> fractions 0..1, (..., severities), all of one shape.

    Returns:
        Means (..., severities), 0..1.

    Raises:
        ValueError: For no corruption, different numbers of severities, and numbers outside 0..1.

    Source: ARES-Bench, arXiv 2302.14301.
    """
    rows = [fractions(row, name, axes=1) for name, row in accuracies.items()]
    shapes = sorted({row.shape for row in rows})
    if len(shapes) != 1:
        raise ValueError(
            f"{len(rows)} corruptions with accuracies of the shapes {shapes}: pass one or more with the same severities"
        )
    return np.mean(rows, axis=0)
