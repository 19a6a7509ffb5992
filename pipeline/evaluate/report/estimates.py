"""Metrics with confidence intervals that several families share."""

from __future__ import annotations

from pipeline.evaluate.metrics.bootstrap import Bootstrap, Estimate


def column_mean(bootstrap: Bootstrap, column: int) -> Estimate:
    """Return the mean of one column of per-image values, with its confidence interval."""
    return bootstrap.estimate(lambda means: means[..., column])


def complement(fraction: Estimate) -> Estimate:
    """Return 1 - fraction, such as the accuracy for an error, with its confidence interval."""
    return Estimate(1 - fraction.value, 1 - fraction.high, 1 - fraction.low)
