"""Benchmark metrics as pure functions of arrays. They need no models and no files.

Errors, accuracies and probabilities are fractions 0..1, not percentages. Most functions accept any leading axes: an
input of shape (..., severities) or (...) gives an output of shape (...), and a float if there are no leading axes. The
same function therefore computes a metric and, for the draws of ``Bootstrap``, its confidence interval.
"""

from pipeline.evaluate.metrics.adversarial import (
    accuracy_at_budgets,
    adversarial_robustness,
    area_under_accuracy,
    attack_success_rate,
    median_budget,
    robust_accuracy,
    robust_by_image,
    smallest_budgets,
    survived_by_image,
    worst_case_adversarial_robustness,
)
from pipeline.evaluate.metrics.alexnet import (
    ALEXNET_CLEAN_ERROR,
    ALEXNET_ERRORS,
    ALEXNET_FLIP_PROBABILITIES,
    ALEXNET_MEAN_ERRORS,
    alexnet_errors,
)
from pipeline.evaluate.metrics.anomalies import anomaly_score, area_under_precision_recall
from pipeline.evaluate.metrics.benchmarks import (
    normalised_standard_deviation,
    residual_robustness,
    robustness_curve,
)
from pipeline.evaluate.metrics.bootstrap import Bootstrap, Estimate, estimate_of_groups
from pipeline.evaluate.metrics.calibration import (
    BINS,
    Reliability,
    adaptive_calibration_error,
    adaptive_reliability,
    brier_score,
    brier_scores,
    expected_calibration_error,
    negative_log_likelihood,
    negative_log_likelihoods,
    reliability,
)
from pipeline.evaluate.metrics.corruption_errors import (
    corruption_error,
    corruption_robustness,
    mean_corruption_error,
    mean_error,
    relative_corruption_error,
    relative_mean_corruption_error,
    unnormalised_mean_error,
)
from pipeline.evaluate.metrics.frequency import (
    area_above_curve,
    cutoff_bandwidths,
    frequency_bias,
    normalised_accuracies,
)
from pipeline.evaluate.metrics.means import mean_over_transforms
from pipeline.evaluate.metrics.natural import NATURAL_FIGURES, natural_robustness
from pipeline.evaluate.metrics.ranks import TOP, ordinal_ranks
from pipeline.evaluate.metrics.real import real_accuracy, real_hits
from pipeline.evaluate.metrics.sequences import (
    flip_probabilities_by_sequence,
    flip_probability,
    flip_rate,
    mean_flip_rate,
    mean_top5_distance,
    negative_mean_flip_probability,
    top5_distance,
    top5_distances_by_sequence,
    top5_distances_of_lists_by_sequence,
    top5_ratio,
    zipf_distance,
    zipf_distances_by_sequence,
)

__all__ = [
    "ALEXNET_CLEAN_ERROR",
    "ALEXNET_ERRORS",
    "ALEXNET_FLIP_PROBABILITIES",
    "ALEXNET_MEAN_ERRORS",
    "BINS",
    "NATURAL_FIGURES",
    "TOP",
    "Bootstrap",
    "Estimate",
    "Reliability",
    "accuracy_at_budgets",
    "adaptive_calibration_error",
    "adaptive_reliability",
    "adversarial_robustness",
    "alexnet_errors",
    "anomaly_score",
    "area_above_curve",
    "area_under_accuracy",
    "area_under_precision_recall",
    "attack_success_rate",
    "brier_score",
    "brier_scores",
    "corruption_error",
    "corruption_robustness",
    "cutoff_bandwidths",
    "estimate_of_groups",
    "expected_calibration_error",
    "flip_probabilities_by_sequence",
    "flip_probability",
    "flip_rate",
    "frequency_bias",
    "mean_corruption_error",
    "mean_error",
    "mean_flip_rate",
    "mean_over_transforms",
    "mean_top5_distance",
    "median_budget",
    "natural_robustness",
    "negative_log_likelihood",
    "negative_log_likelihoods",
    "negative_mean_flip_probability",
    "normalised_accuracies",
    "normalised_standard_deviation",
    "ordinal_ranks",
    "real_accuracy",
    "real_hits",
    "relative_corruption_error",
    "relative_mean_corruption_error",
    "reliability",
    "residual_robustness",
    "robust_accuracy",
    "robust_by_image",
    "robustness_curve",
    "smallest_budgets",
    "survived_by_image",
    "top5_distance",
    "top5_distances_by_sequence",
    "top5_distances_of_lists_by_sequence",
    "top5_ratio",
    "unnormalised_mean_error",
    "worst_case_adversarial_robustness",
    "zipf_distance",
    "zipf_distances_by_sequence",
]
