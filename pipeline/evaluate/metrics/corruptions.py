"""Metrics of corrupted and of filtered images: mCE and its relatives, curves, and frequency bias.

Sources: Hendrycks and Dietterich, ICLR 2019, arXiv 1903.12261 (CE, mCE and their relative versions); RobustART, arXiv
2109.05211 (NSD); Laugros et al., arXiv 2107.12052 (residual robustness); ARES-Bench, arXiv 2302.14301 (curves, and
frequency bias).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.evaluate.metrics.arrays import Figures, Floats, float_if_scalar, fractions, mean_over


def mean_error(errors: ArrayLike) -> Figures:
    """Return the mean error over severities, without normalisation, of shape (...).

    Args:
        errors: Error rates 0..1 of shape (..., severities).

    Raises:
        ValueError: If there are no severities or a value is outside 0..1.
    """
    return mean_over(fractions(errors, "errors", axes=1, missing=True))


def unnormalised_mean_error(errors: ArrayLike) -> Figures:
    """Return the mean over corruptions of each one's mean error over its severities, of shape (...).

    This is not mCE, which is normalised by a baseline. Display it as "mean corruption error (unnormalised)".

    Args:
        errors: Error rates 0..1 of shape (..., corruptions, severities).

    Raises:
        ValueError: If there are no corruptions or no severities, or a value is outside 0..1.
    """
    return mean_over(mean_error(fractions(errors, "errors", axes=2, missing=True)))


def corruption_error(errors: ArrayLike, baseline: ArrayLike) -> Floats:
    """Return CE: the sum of errors over severities, divided by the baseline's sum over the same severities.

    Args:
        errors: Error rates 0..1 of shape (..., corruptions, severities).
        baseline: Error rates of the baseline, shape (corruptions, severities).

    Returns:
        CE of shape (..., corruptions): 0 for a perfect model, 1 for the baseline itself. NaN if the errors have no
        severity, the baseline has no value for one that they have, or its sum is 0.

    Raises:
        ValueError: If a value is outside 0..1, or the shapes do not fit.
    """
    return relative_corruption_error(errors, 0.0, baseline, 0.0)


def mean_corruption_error(errors: ArrayLike, baseline: ArrayLike) -> Figures:
    """Return mCE, of shape (...): the mean of ``corruption_error`` over corruptions; NaN if one CE is.

    The published mCE uses the 15 benchmark corruptions and AlexNet's errors. Arguments: see ``corruption_error``.
    """
    return float_if_scalar(corruption_error(errors, baseline).mean(axis=-1))


def relative_corruption_error(
    errors: ArrayLike, clean: ArrayLike, baseline: ArrayLike, baseline_clean: float
) -> Floats:
    """Return relative CE: ``corruption_error`` with the clean error subtracted from every error.

    Args:
        errors: Error rates 0..1 of shape (..., corruptions, severities).
        clean: Error rate on clean images, 0..1, a number or an array of shape (...).
        baseline: Error rates of the baseline, shape (corruptions, severities).
        baseline_clean: Error rate of the baseline on clean images.

    Returns:
        Relative CE of shape (..., corruptions): negative if the model is better on corrupted images than on clean
        ones. NaN where CE is, and where the baseline loses no accuracy.

    Raises:
        ValueError: If a value is outside 0..1, or the shapes do not fit.
    """
    rates = fractions(errors, "errors", axes=2, missing=True)
    reference = fractions(baseline, "the baseline's errors", axes=2, missing=True)
    if reference.shape != rates.shape[-2:]:
        raise ValueError(
            f"errors have shape {rates.shape}, but the baseline has shape {reference.shape}: pass errors of shape "
            "(..., corruptions, severities) and one baseline error for each corruption and severity"
        )
    above = rates - fractions(clean, "the clean error", axes=0, missing=True)[..., None, None]
    reference_above = reference - fractions(baseline_clean, "the baseline's clean error", axes=0, missing=True)
    known = ~np.isnan(rates)
    total = np.where(known, above, 0).sum(axis=-1)
    reference_total = np.where(known, reference_above, 0).sum(axis=-1)
    return total / np.where(reference_total > 0, reference_total, np.nan)


def relative_mean_corruption_error(
    errors: ArrayLike, clean: ArrayLike, baseline: ArrayLike, baseline_clean: float
) -> Figures:
    """Return relative mCE, of shape (...): the mean of relative CE over corruptions; NaN if one relative CE is.

    Arguments: see ``relative_corruption_error``.
    """
    return float_if_scalar(relative_corruption_error(errors, clean, baseline, baseline_clean).mean(axis=-1))


def residual_robustness(clean_accuracy: ArrayLike, corrupted_accuracy: ArrayLike) -> Figures:
    """Return the accuracy lost to a corruption, -1..1: clean minus corrupted accuracy. Smaller is better.

    Args:
        clean_accuracy: Accuracy on clean images, 0..1, a number or an array of shape (...).
        corrupted_accuracy: Accuracy on corrupted images, 0..1, a number or an array of shape (...).

    Raises:
        ValueError: If a value is outside 0..1.
    """
    clean = fractions(clean_accuracy, "clean accuracies", axes=0, missing=True)
    return float_if_scalar(clean - fractions(corrupted_accuracy, "corrupted accuracies", axes=0, missing=True))


def robustness_curve(accuracies: ArrayLike) -> Floats:
    """Return the mean accuracy over corruptions at each severity, of shape (..., severities).

    Args:
        accuracies: Accuracies 0..1 of shape (..., corruptions, severities).

    Raises:
        ValueError: If there are no corruptions, or a value is outside 0..1.
    """
    return np.asarray(mean_over(fractions(accuracies, "accuracies", axes=2, missing=True), axis=-2))


def normalised_standard_deviation(accuracies: ArrayLike) -> Figures:
    """Return NSD: the negated population standard deviation of accuracies, in percentage points -50..0.

    Args:
        accuracies: Accuracies 0..1 of all preparations, shape (..., preparations). NaN is not allowed.

    Raises:
        ValueError: If there are no preparations, or a value is NaN or outside 0..1.
    """
    return float_if_scalar(-100 * fractions(accuracies, "accuracies", axes=1).std(axis=-1))


# Frequency bias: bandwidths are in cycles per image; the largest one leaves images unfiltered


def cutoff_bandwidths(correct: ArrayLike, bandwidths: Sequence[int], *, settled: bool = False) -> NDArray[np.int64]:
    """Return the cutoff bandwidth of each image that is classified correctly unfiltered.

    Args:
        correct: Whether each image is classified correctly at each bandwidth, bool (images, bandwidths).
        bandwidths: Increasing bandwidths in cycles per image. The last one leaves images unfiltered.
        settled: Whether the cutoff is the smallest bandwidth from which on the image is always classified correctly.
            Default: the smallest bandwidth at which it is, as published.

    Returns:
        Bandwidths (images that are correct at the last bandwidth,), in the order of the images.

    Raises:
        ValueError: If the bandwidths are not increasing, or the shape or type of ``correct`` does not fit.
    """
    grid, hits = _grid(bandwidths), np.asarray(correct)
    if hits.dtype != np.bool_ or hits.ndim != 2 or hits.shape[1] != grid.size:
        raise ValueError(
            f"invalid correctness of shape {hits.shape} and type {hits.dtype}: pass bool of shape (images, {grid.size})"
        )
    hits = hits[hits[:, -1]]
    if settled:
        misses_from_last = np.argmin(np.c_[hits[:, ::-1], np.zeros(len(hits), bool)], axis=1)
        settled_at: NDArray[np.int64] = grid[grid.size - misses_from_last]
        return settled_at
    first: NDArray[np.int64] = grid[np.argmax(hits, axis=1)]
    return first


def frequency_bias(correct: ArrayLike, bandwidths: Sequence[int], *, settled: bool = False) -> float:
    """Return f_bias: the mean cutoff bandwidth over the images that are classified correctly unfiltered.

    The smaller it is, the lower are the frequencies that a model needs. Arguments: see ``cutoff_bandwidths``.

    Raises:
        ValueError: If no image is classified correctly unfiltered, or an argument is invalid.
    """
    found = cutoff_bandwidths(correct, bandwidths, settled=settled)
    if not found.size:
        raise ValueError("no image is classified correctly unfiltered: pass results of a model that classifies some")
    return float(found.mean())


def normalised_accuracies(accuracies: ArrayLike) -> Floats:
    """Return accuracies divided by the accuracy on unfiltered images: the curve ACC-LPB, which ends at 1.

    Args:
        accuracies: Accuracies 0..1 by increasing bandwidth, (..., bandwidths). NaN is not allowed.

    Returns:
        Quotients (..., bandwidths), 0 or larger. They can exceed 1.

    Raises:
        ValueError: If a value is NaN or outside 0..1, or an accuracy on unfiltered images is 0.
    """
    rows = fractions(accuracies, "accuracies", axes=1)
    if not rows[..., -1].all():
        raise ValueError("the accuracy on unfiltered images is 0: pass results of a model that classifies some images")
    return rows / rows[..., -1:]


def area_above_curve(accuracies: ArrayLike, bandwidths: Sequence[int]) -> Figures:
    """Return the area between 1 and the curve ACC-LPB, as a sum of steps, of shape (...) and in cycles per image.

    With bandwidths b_1 < ... < b_n and accuracies a_1 ... a_n, it is b_1 + sum over i < n of
    (1 - a_i / a_n) (b_(i+1) - b_i): the curve keeps a value up to the next bandwidth, and is 0 below the first one.
    Trapezoids, which assume straight lines, would give a smaller area.

    It equals the frequency bias if each image that is classified correctly at a bandwidth also is at all larger ones.

    Args:
        accuracies: Accuracies, as in ``normalised_accuracies``.
        bandwidths: Bandwidths, as in ``cutoff_bandwidths``.

    Raises:
        ValueError: If an argument is invalid, or an accuracy on unfiltered images is 0.
    """
    grid, curve = _grid(bandwidths), normalised_accuracies(accuracies)
    if curve.shape[-1] != grid.size:
        raise ValueError(f"{curve.shape[-1]} accuracies for {grid.size} bandwidths: pass one for each")
    return float_if_scalar(grid[0] + ((1 - curve[..., :-1]) * np.diff(grid)).sum(axis=-1))


def _grid(bandwidths: Sequence[int]) -> NDArray[np.int64]:
    """Return the bandwidths as an array. Raises ValueError if they are not increasing."""
    grid = np.asarray(bandwidths)
    if grid.ndim != 1 or not grid.size or grid.dtype.kind not in "iu" or grid[0] < 0 or (np.diff(grid) <= 0).any():
        raise ValueError(f"invalid bandwidths {list(bandwidths)!r:.200}: pass increasing integers, 0 or larger")
    return grid.astype(np.int64)


class DetectionFigures(NamedTuple):
    """Robustness of a detector, each of shape (...)."""

    mpc: Figures
    """Mean performance under corruption, 0..1."""
    rpc: Figures
    """Relative performance under corruption: mPC divided by the performance on clean images."""


def mpc(table: ArrayLike, clean: ArrayLike) -> DetectionFigures:
    """Return mPC and rPC of Michaelis et al. 2019, arXiv 1907.07484.

    The published ones are over 15 corruptions at 5 severities: of AP for COCO and Cityscapes, of AP50 for Pascal VOC.
    If there are values by class, pass the means over classes: rPC is the ratio of means.

    Args:
        table: Performance, such as AP, 0..1, of shape (..., corruptions, severities). None may be missing.
        clean: Performance on clean images, 0..1, a number or an array of shape (...).

    Raises:
        ValueError: If a value is missing or outside 0..1, or a clean one is 0.
    """
    values = np.asarray(table, np.float64)
    if np.isnan(values).any():
        raise ValueError(
            f"invalid table: {np.isnan(values).sum()} of {values.size} values are missing; measure them, because a "
            "missing severity does not count as 0"
        )
    performance = fractions(clean, "clean performance", axes=0)
    if (performance == 0).any():
        raise ValueError("invalid clean performance 0: rPC is relative to it")
    mean = fractions(table, "table", axes=2).mean(axis=(-2, -1))
    return DetectionFigures(float_if_scalar(mean), float_if_scalar(mean / performance))
