"""Metrics of RobustART (ImageNet-S), ARES-Bench and Laugros et al."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from pipeline.evaluate.metrics.checks import Figures, Floats, float_if_scalar, fractions


def normalised_standard_deviation(accuracies: ArrayLike) -> Figures:
    """Return NSD: the negated population standard deviation of accuracies across image preparations.

    Args:
        accuracies: Accuracies 0..1 of shape (..., preparations).

    Returns:
        NSD of shape (...), in percentage points -50..0.

    Raises:
        ValueError: If there are no preparations or a value is outside 0..1.

    Source: RobustART, arXiv 2109.05211.
    """
    return float_if_scalar(-100 * fractions(accuracies, "accuracies", axes=1).std(axis=-1))


def residual_robustness(clean_accuracy: ArrayLike, corrupted_accuracy: ArrayLike) -> Figures:
    """Return the accuracy lost to a corruption: clean minus corrupted accuracy. Smaller is better.

    Args:
        clean_accuracy: Accuracy on clean images, 0..1, a number or an array of shape (...).
        corrupted_accuracy: Accuracy on corrupted images, 0..1, a number or an array of shape (...).

    Returns:
        Differences -1..1 of shape (...).

    Raises:
        ValueError: If a value is outside 0..1.

    Source: Laugros et al., arXiv 2107.12052.
    """
    clean = fractions(clean_accuracy, "clean accuracies", axes=0)
    return float_if_scalar(np.asarray(clean - fractions(corrupted_accuracy, "corrupted accuracies", axes=0)))


def robustness_curve(accuracies: Mapping[str, ArrayLike]) -> Floats:
    """Return the mean accuracy over corruptions at each severity.

    Args:
        accuracies: Mapping from corruption to accuracies 0..1 of shape (..., severities). All shapes must be equal.

    Returns:
        Mean accuracies 0..1 of shape (..., severities).

    Raises:
        ValueError: If there are no corruptions, the shapes differ, or a value is outside 0..1.

    Source: ARES-Bench, arXiv 2302.14301.
    """
    rows = [fractions(row, name, axes=1) for name, row in accuracies.items()]
    shapes = sorted({row.shape for row in rows})
    if len(shapes) != 1:
        raise ValueError(
            f"{len(rows)} corruptions with accuracies of shapes {shapes}: pass one or more with the same severities"
        )
    return np.mean(rows, axis=0)
