"""Figures with intervals that several families share."""

from __future__ import annotations

from pipeline.evaluate.metrics.bootstrap import Bootstrap, Estimate


def column_mean(found: Bootstrap, column: int) -> Estimate:
    """Return the mean of one column of per-image values."""
    return found.estimate(lambda means: means[..., column])


def accuracy(error: Estimate) -> Estimate:
    """Return one minus an error."""
    return Estimate(1 - error.value, 1 - error.high, 1 - error.low)
