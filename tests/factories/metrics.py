"""All metrics of means as functions of one array, to test them in the same way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeline.evaluate import metrics

GOLDEN_TOLERANCE = 1e-9


def rates(shape: Sequence[int], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.05, 0.95, shape)


def by_name(values: np.ndarray) -> dict[str, np.ndarray]:
    """Split the axis before the severities into a mapping from corruption to errors."""
    return {f"c{index}": values[..., index, :] for index in range(values.shape[-2])}


def columns(values: np.ndarray) -> dict[str, np.ndarray]:
    return {f"c{index}": values[..., index] for index in range(values.shape[-1])}


BASELINE = rates((4, 5), 1)
BASELINE_ABOVE = 0.5 + 0.4 * rates((4, 5), 2)
NUMBERS = {name: float(row[0]) for name, row in by_name(BASELINE).items()}

FIGURES: dict[str, Callable[[np.ndarray], Any]] = {
    "mean_error": lambda means: metrics.mean_error(means[..., 0, :]),
    "unnormalised_mean_error": lambda means: metrics.unnormalised_mean_error(by_name(means)),
    "corruption_error": lambda means: metrics.corruption_error(means[..., 0, :], BASELINE[0]),
    "mean_corruption_error": lambda means: metrics.mean_corruption_error(by_name(means), by_name(BASELINE)),
    "corruption_robustness": lambda means: metrics.corruption_robustness(by_name(means), by_name(BASELINE)),
    "relative_corruption_error": lambda means: metrics.relative_corruption_error(
        means[..., 0, :], means[..., 1, 0], BASELINE_ABOVE[0], 0.4
    ),
    "relative_mean_corruption_error": lambda means: metrics.relative_mean_corruption_error(
        by_name(means), means[..., 1, 0], by_name(BASELINE_ABOVE), 0.4
    ),
    "flip_rate": lambda means: metrics.flip_rate(means[..., 0, 0], 0.3),
    "mean_flip_rate": lambda means: metrics.mean_flip_rate(columns(means[..., 0]), NUMBERS),
    "negative_mean_flip_probability": lambda means: metrics.negative_mean_flip_probability(columns(means[..., 0])),
    "top5_ratio": lambda means: metrics.top5_ratio(15 * means[..., 0, 0], 3.0),
    "mean_top5_distance": lambda means: metrics.mean_top5_distance(columns(15 * means[..., 0]), NUMBERS),
    "mean_over_transforms": lambda means: metrics.mean_over_transforms(columns(means[..., 0])),
    "natural_robustness": lambda means: metrics.natural_robustness(
        {name: means[..., index % 4, index // 4] for index, name in enumerate(metrics.NATURAL_FIGURES)}
    ),
    "normalised_standard_deviation": lambda means: metrics.normalised_standard_deviation(means[..., 0, :]),
    "residual_robustness": lambda means: metrics.residual_robustness(means[..., 0, 0], means[..., 0, 1]),
    "robustness_curve": lambda means: metrics.robustness_curve(by_name(means))[..., 2][()],
    "normalised_accuracies": lambda means: metrics.normalised_accuracies(means[..., 0, :])[..., 2][()],
    "area_above_curve": lambda means: metrics.area_above_curve(means[..., 0, :], (1, 2, 4, 8, 46)),
    "anomaly_score": lambda means: metrics.anomaly_score(means[..., 0, :]),
    "area_under_precision_recall": lambda means: metrics.area_under_precision_recall(
        means[..., 0, :].round(1), np.array([True, False, True, False, False])
    ),
    "expected_calibration_error": lambda means: metrics.expected_calibration_error(
        means[..., 0, :], means[..., 1, :] < 0.5
    ),
    "adaptive_calibration_error": lambda means: metrics.adaptive_calibration_error(
        means[..., 0, :], means[..., 1, :] < 0.5, bins=2
    ),
    "negative_log_likelihood": lambda means: metrics.negative_log_likelihood(means[..., 0, :]),
    "brier_score": lambda means: metrics.brier_score(means[..., 0, :], means[..., 1, :]),
}
"""Metrics with leading axes, as functions of means of shape (..., 4 corruptions, 5 severities)."""

OF_IMAGES = {"area_under_precision_recall", "expected_calibration_error", "adaptive_calibration_error"}
FIGURES_OF_MEANS = [name for name in FIGURES if name not in OF_IMAGES]


def mean(means: np.ndarray) -> np.ndarray:
    return means
