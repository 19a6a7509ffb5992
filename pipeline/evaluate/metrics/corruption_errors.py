"""Corruption error metrics of ImageNet-C: CE, mCE and their relative versions.

Source: Hendrycks and Dietterich, ICLR 2019, arXiv 1903.12261.
"""

from __future__ import annotations

from collections.abc import Mapping

from numpy.typing import ArrayLike

from pipeline.evaluate.metrics.checks import Figures, check_covers, float_if_scalar, fractions
from pipeline.evaluate.metrics.means import mean_over_transforms, ratio


def mean_error(errors: ArrayLike) -> Figures:
    """Return the mean error over severities, without normalisation.

    Args:
        errors: Error rates 0..1 of shape (..., severities).

    Returns:
        Mean errors 0..1 of shape (...).

    Raises:
        ValueError: If there are no severities or a value is outside 0..1.
    """
    return float_if_scalar(fractions(errors, "errors", axes=1).mean(axis=-1))


def unnormalised_mean_error(errors: Mapping[str, ArrayLike]) -> Figures:
    """Return the mean error over severities, averaged over corruptions, without normalisation.

    This is not mCE, which is normalised by a baseline. Display it as "mean corruption error (unnormalised)".

    Args:
        errors: Mapping from corruption to error rates 0..1 of shape (..., severities). The number of severities may
            differ between corruptions.

    Returns:
        Mean errors 0..1 of shape (...).

    Raises:
        ValueError: If there are no corruptions or no severities, or a value is outside 0..1.
    """
    return mean_over_transforms({name: mean_error(fractions(row, name, axes=1)) for name, row in errors.items()})


def corruption_error(errors: ArrayLike, baseline: ArrayLike) -> Figures:
    """Return CE: the sum of errors over severities, divided by the same sum for the baseline.

    Args:
        errors: Error rates 0..1 of shape (..., severities).
        baseline: Error rates of the baseline at the same severities, shape (severities,).

    Returns:
        CE of shape (...): 0 for a perfect model, 1 for the baseline itself.

    Raises:
        ValueError: If a value is outside 0..1, the number of severities differs, or the baseline has no errors.
    """
    return relative_corruption_error(errors, 0.0, baseline, 0.0)


def relative_corruption_error(
    errors: ArrayLike, clean: ArrayLike, baseline: ArrayLike, baseline_clean: float
) -> Figures:
    """Return relative CE: ``corruption_error`` with the clean error subtracted from every error.

    Args:
        errors: Error rates 0..1 of shape (..., severities).
        clean: Error rate on clean images, 0..1, a number or an array of shape (...).
        baseline: Error rates of the baseline at the same severities, shape (severities,).
        baseline_clean: Error rate of the baseline on clean images.

    Returns:
        Relative CE of shape (...). It is negative if the model is better on corrupted images than on clean ones.

    Raises:
        ValueError: If a value is outside 0..1, the number of severities differs, or the mean error of the baseline is
            not above its clean error.
    """
    above = fractions(errors, "errors", axes=1) - fractions(clean, "the clean error", axes=0)[..., None]
    reference = fractions(baseline, "the baseline's errors", axes=1)
    if reference.shape != above.shape[-1:]:
        raise ValueError(
            f"errors have {above.shape[-1]} severities, but the baseline has shape {reference.shape}: "
            "pass one baseline error per severity"
        )
    reference_above = reference - fractions(baseline_clean, "the baseline's clean error", axes=0)
    return ratio(above.sum(axis=-1), float(reference_above.sum()), "the errors")


def mean_corruption_error(errors: Mapping[str, ArrayLike], baseline: Mapping[str, ArrayLike]) -> Figures:
    """Return mCE: the mean of ``corruption_error`` over corruptions.

    The published mCE uses the 15 benchmark corruptions and AlexNet's errors.

    Args:
        errors: Mapping from corruption to error rates 0..1 of shape (..., severities).
        baseline: Mapping from corruption to error rates of the baseline, shape (severities,). It must contain every
            corruption in ``errors``.

    Returns:
        mCE of shape (...), 1 for the baseline itself.

    Raises:
        ValueError: If there are no corruptions, the baseline has no errors for a corruption, or ``corruption_error``
            rejects the values.
    """
    return relative_mean_corruption_error(errors, 0.0, baseline, 0.0)


def corruption_robustness(errors: Mapping[str, ArrayLike], baseline: Mapping[str, ArrayLike]) -> Figures:
    """Return 1 - mCE. Larger is better.

    Args:
        errors: Mapping from corruption to error rates 0..1 of shape (..., severities).
        baseline: Mapping from corruption to error rates of the baseline, shape (severities,).

    Returns:
        1 - mCE of shape (...), 0 for the baseline itself.

    Raises:
        ValueError: If ``mean_corruption_error`` rejects the values.

    Source: RobustART, arXiv 2109.05211; ARES-Bench, arXiv 2302.14301.
    """
    return 1 - mean_corruption_error(errors, baseline)


def relative_mean_corruption_error(
    errors: Mapping[str, ArrayLike], clean: ArrayLike, baseline: Mapping[str, ArrayLike], baseline_clean: float
) -> Figures:
    """Return relative mCE: the mean of ``relative_corruption_error`` over corruptions.

    Args:
        errors: Mapping from corruption to error rates 0..1 of shape (..., severities).
        clean: Error rate on clean images, 0..1, a number or an array of shape (...).
        baseline: Mapping from corruption to error rates of the baseline, shape (severities,). It must contain every
            corruption in ``errors``.
        baseline_clean: Error rate of the baseline on clean images.

    Returns:
        Relative mCE of shape (...), 1 for the baseline itself.

    Raises:
        ValueError: If there are no corruptions, the baseline has no errors for a corruption, or
            ``relative_corruption_error`` rejects the values.
    """
    check_covers(errors, baseline)
    return mean_over_transforms(
        {name: relative_corruption_error(row, clean, baseline[name], baseline_clean) for name, row in errors.items()}
    )
