"""Errors under corruptions, ImageNet-C: CE, mCE and their relatives.

Source: Hendrycks and Dietterich, ICLR 2019, arXiv 1903.12261.
"""

from __future__ import annotations

from collections.abc import Mapping

from numpy.typing import ArrayLike

from pipeline.evaluate.metrics.checks import Figures, check_covers, fractions, plain
from pipeline.evaluate.metrics.means import mean_over_transforms, ratio


def mean_error(errors: ArrayLike) -> Figures:
    """Return the mean error over severities, not normalised.

    Args:
        errors: Error rates 0..1, (..., severities).

    Returns:
        Means (...), 0..1.

    Raises:
        ValueError: For no severity and for numbers outside 0..1.
    """
    return plain(fractions(errors, "errors", axes=1).mean(axis=-1))


def unnormalised_mean_error(errors: Mapping[str, ArrayLike]) -> Figures:
    """Return the mean over corruptions of the mean error over severities.

    This is not mCE, which is relative to a baseline: show it as "mean corruption error (unnormalised)".

    Args:
        errors: Corruption -> error rates 0..1, (..., severities). Corruptions may differ in their severities.

    Returns:
        Means (...), 0..1.

    Raises:
        ValueError: For no corruption, no severity and numbers outside 0..1.
    """
    return mean_over_transforms({name: mean_error(fractions(row, name, axes=1)) for name, row in errors.items()})


def corruption_error(errors: ArrayLike, baseline: ArrayLike) -> Figures:
    """Return CE: the sum of errors over severities, divided by the baseline's.

    Args:
        errors: Error rates 0..1, (..., severities).
        baseline: The baseline's error rates at the same severities, (severities,).

    Returns:
        CE (...): 0 without errors, 1 for the baseline itself.

    Raises:
        ValueError: For numbers outside 0..1, different numbers of severities, and a baseline without errors.
    """
    return relative_corruption_error(errors, 0.0, baseline, 0.0)


def relative_corruption_error(
    errors: ArrayLike, clean: ArrayLike, baseline: ArrayLike, baseline_clean: float
) -> Figures:
    """Return relative CE: ``corruption_error`` of what each error exceeds the error on clean images by.

    Args:
        errors: Error rates 0..1, (..., severities).
        clean: Error rate on clean images, 0..1, a number or (...).
        baseline: The baseline's error rates at the same severities, (severities,).
        baseline_clean: The baseline's error rate on clean images.

    Returns:
        Relative CE (...), negative where the model is better on corrupted images than on clean ones.

    Raises:
        ValueError: As ``corruption_error``, and for a baseline whose errors do not exceed its clean error on average.
    """
    above = fractions(errors, "errors", axes=1) - fractions(clean, "the clean error", axes=0)[..., None]
    reference = fractions(baseline, "the baseline's errors", axes=1)
    if reference.shape != above.shape[-1:]:
        raise ValueError(
            f"errors at {above.shape[-1]} severities, but the baseline's have the shape {reference.shape}: "
            "pass one baseline error for each severity"
        )
    reference_above = reference - fractions(baseline_clean, "the baseline's clean error", axes=0)
    return ratio(above.sum(axis=-1), float(reference_above.sum()), "the errors")


def mean_corruption_error(errors: Mapping[str, ArrayLike], baseline: Mapping[str, ArrayLike]) -> Figures:
    """Return the mean of ``corruption_error``; over the benchmark's 15 corruptions and AlexNet's errors this is mCE.

    Args:
        errors: Corruption -> error rates 0..1, (..., severities).
        baseline: Corruption -> the baseline's error rates, (severities,), at least for those in ``errors``.

    Returns:
        mCE (...), 1 for the baseline itself.

    Raises:
        ValueError: As ``corruption_error``, for no corruption, and for a corruption that the baseline lacks.
    """
    return relative_mean_corruption_error(errors, 0.0, baseline, 0.0)


def corruption_robustness(errors: Mapping[str, ArrayLike], baseline: Mapping[str, ArrayLike]) -> Figures:
    """Return 1 - mCE, larger is better; arguments and errors as of ``mean_corruption_error``.

    Source: RobustART, arXiv 2109.05211; ARES-Bench, arXiv 2302.14301.
    """
    return 1 - mean_corruption_error(errors, baseline)


def relative_mean_corruption_error(
    errors: Mapping[str, ArrayLike], clean: ArrayLike, baseline: Mapping[str, ArrayLike], baseline_clean: float
) -> Figures:
    """Return relative mCE: the mean of ``relative_corruption_error`` over the corruptions in ``errors``.

    Args:
        errors: Corruption -> error rates 0..1, (..., severities).
        clean: Error rate on clean images, 0..1, a number or (...).
        baseline: Corruption -> the baseline's error rates, (severities,), at least for those in ``errors``.
        baseline_clean: The baseline's error rate on clean images.

    Returns:
        Relative mCE (...).

    Raises:
        ValueError: As ``relative_corruption_error``, for no corruption, and for a corruption that the baseline lacks.
    """
    check_covers(errors, baseline)
    return mean_over_transforms(
        {name: relative_corruption_error(row, clean, baseline[name], baseline_clean) for name, row in errors.items()}
    )
