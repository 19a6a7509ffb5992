"""Metrics with confidence intervals that several families share."""

from __future__ import annotations

from pipeline.evaluate.metrics.bootstrap import Bootstrap, Estimate


def column_mean(bootstrap: Bootstrap, column: int) -> Estimate:
    """Return the mean of one column of per-image values, with its confidence interval."""
    return bootstrap.estimate(lambda means: means[..., column])


def accuracy(error: Estimate) -> Estimate:
    """Return the accuracy, 1 - error, with its confidence interval."""
    return Estimate(1 - error.value, 1 - error.high, 1 - error.low)
