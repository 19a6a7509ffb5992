"""Figures of corruptions at severities: ImageNet-C."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pipeline.evaluate.metrics.checks import Floats, check_covers, fractions, ratio

Errors = Sequence[float] | Floats
"""One error rate for each severity."""


def corruption_error(errors: Errors, baseline: Errors) -> float:
    """Sum over severities of the error divided by the sum of the baseline's, 1 for a model like the baseline.

    ``errors``, ``baseline``: error rates at the same severities, 0..1. Raises ValueError for other values, for
    different lengths and for a baseline without errors. Source: ImageNet-C, CE.
    """
    return relative_corruption_error(errors, 0.0, baseline, 0.0)


def relative_corruption_error(errors: Errors, clean: float, baseline: Errors, baseline_clean: float) -> float:
    """As ``corruption_error``, of what each error is above the error on clean images.

    Negative for a model that gains by the corruption. Raises ValueError also for a baseline that loses nothing by the
    corruption. Source: ImageNet-C, relative CE.
    """
    above = fractions(errors, "errors") - fractions([clean], "the clean error")
    baseline_above = fractions(baseline, "the baseline's errors") - fractions([baseline_clean], "its clean error")
    if len(above) != len(baseline_above):
        raise ValueError(
            f"errors at {len(above)} severities, the baseline's at {len(baseline_above)}; both need the same"
        )
    return ratio(above.sum(), baseline_above.sum(), "the errors")


def mean_corruption_error(errors: Mapping[str, Errors], baseline: Mapping[str, Errors]) -> float:
    """Mean of ``corruption_error`` over the corruptions in ``errors``.

    Over the 15 of the benchmark and by AlexNet this is mCE. Raises ValueError where the baseline lacks a corruption.
    Source: ImageNet-C.
    """
    return relative_mean_corruption_error(errors, 0.0, baseline, 0.0)


def relative_mean_corruption_error(
    errors: Mapping[str, Errors], clean: float, baseline: Mapping[str, Errors], baseline_clean: float
) -> float:
    """Mean of ``relative_corruption_error`` over the corruptions in ``errors``. Source: ImageNet-C, relative mCE."""
    check_covers(errors, baseline)
    ratios = [relative_corruption_error(row, clean, baseline[name], baseline_clean) for name, row in errors.items()]
    return float(np.mean(ratios))


def unnormalised_mean_error(errors: Mapping[str, Errors]) -> float:
    """Mean over corruptions of the mean over severities, 0..1: show it as "mean corruption error (unnormalised)".

    It is no mCE, which is relative to a baseline. Raises ValueError for no corruption and for values beyond 0..1.
    """
    return float(fractions([fractions(row, name).mean() for name, row in errors.items()], "mean errors").mean())
