"""All metrics of means as functions of one array, to test them in the same way."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeline.evaluate import metrics

GOLDEN_TOLERANCE = 1e-9


def rates(shape: Sequence[int], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.05, 0.95, shape)


BASELINE = rates((4, 5), 1)
BASELINE_ABOVE = 0.5 + 0.4 * rates((4, 5), 2)
LABELS = np.array([True, False, True, False, False])

FIGURES: dict[str, Callable[[np.ndarray], Any]] = {
    "mean_over": lambda means: metrics.mean_over(means, axis=(-2, -1)),
    "mean_error": lambda means: metrics.mean_error(means[..., 0, :]),
    "unnormalised_mean_error": metrics.unnormalised_mean_error,
    "corruption_error": lambda means: metrics.corruption_error(means, BASELINE)[..., 1][()],
    "mean_corruption_error": lambda means: metrics.mean_corruption_error(means, BASELINE),
    "relative_corruption_error": lambda means: metrics.relative_corruption_error(
        means, means[..., 1, 0], BASELINE_ABOVE, 0.4
    )[..., 2][()],
    "relative_mean_corruption_error": lambda means: metrics.relative_mean_corruption_error(
        means, means[..., 1, 0], BASELINE_ABOVE, 0.4
    ),
    "flip_rate": lambda means: metrics.flip_rate(means[..., 0, 0], 0.3),
    "mean_flip_rate": lambda means: metrics.mean_flip_rate(means[..., 0], BASELINE[:, 0]),
    "negative_mean_flip_probability": lambda means: metrics.negative_mean_flip_probability(means[..., 0]),
    "top5_ratio": lambda means: metrics.top5_ratio(15 * means[..., 0, 0], 3.0),
    "mean_top5_distance": lambda means: metrics.mean_top5_distance(15 * means[..., 0], BASELINE[:, 0]),
    "natural_robustness": lambda means: metrics.natural_robustness(means.reshape(*means.shape[:-2], 2, 10)[..., 0, :]),
    "normalised_standard_deviation": lambda means: metrics.normalised_standard_deviation(means[..., 0, :]),
    "residual_robustness": lambda means: metrics.residual_robustness(means[..., 0, 0], means[..., 0, 1]),
    "robustness_curve": lambda means: metrics.robustness_curve(means)[..., 2][()],
    "normalised_accuracies": lambda means: metrics.normalised_accuracies(means[..., 0, :])[..., 2][()],
    "area_above_curve": lambda means: metrics.area_above_curve(means[..., 0, :], (1, 2, 4, 8, 46)),
    "anomaly_score": lambda means: metrics.anomaly_score(means[..., 0, :]),
    "negative_log_likelihood": lambda means: metrics.negative_log_likelihood(means[..., 0, :]),
    "brier_score": lambda means: metrics.brier_score(means[..., 0, :], means[..., 1, :]),
}
"""Metrics with leading axes, as functions of means of shape (..., 4 corruptions, 5 severities)."""

FIGURES_OF_IMAGES: dict[str, Callable[[np.ndarray], Any]] = {
    "area_under_precision_recall": lambda values: metrics.area_under_precision_recall(
        values[..., 0, :].round(1), LABELS
    ),
    "expected_calibration_error": lambda values: metrics.expected_calibration_error(
        values[..., 0, :], values[..., 1, :] < 0.5
    ),
    "adaptive_calibration_error": lambda values: metrics.adaptive_calibration_error(
        values[..., 0, :], values[..., 1, :] < 0.5, bins=2
    ),
}
"""The same for metrics that are not functions of means over images: their last axis is the images."""


def mean(means: np.ndarray) -> np.ndarray:
    return means
