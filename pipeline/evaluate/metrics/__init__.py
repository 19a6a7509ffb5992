"""Benchmark metrics as pure functions of arrays with axes. They need no models and no files.

Errors, accuracies and probabilities are fractions 0..1, not percentages. Most functions accept any leading axes: errors
of shape (..., corruptions, severities) give an mCE of shape (...), and a float if there are no leading axes. The same
function therefore computes a metric and, for the draws of ``Bootstrap``, its confidence interval.

NaN marks a condition that was not evaluated, or a value of the baseline that is unknown: means over severities leave it
out, and ratios to an unknown baseline are NaN. Any other value out of range raises ValueError.
"""

from pipeline.evaluate.metrics.adversarial import adversarial_robustness as adversarial_robustness
from pipeline.evaluate.metrics.adversarial import area_under_accuracy as area_under_accuracy
from pipeline.evaluate.metrics.adversarial import attack_success_rate as attack_success_rate
from pipeline.evaluate.metrics.adversarial import median_budget as median_budget
from pipeline.evaluate.metrics.adversarial import robust_accuracy as robust_accuracy
from pipeline.evaluate.metrics.adversarial import robust_by_image as robust_by_image
from pipeline.evaluate.metrics.adversarial import smallest_budgets as smallest_budgets
from pipeline.evaluate.metrics.adversarial import survived_by_image as survived_by_image
from pipeline.evaluate.metrics.adversarial import worst_case_adversarial_robustness as worst_case_adversarial_robustness
from pipeline.evaluate.metrics.alexnet import ALEXNET_CLEAN_ERROR as ALEXNET_CLEAN_ERROR
from pipeline.evaluate.metrics.alexnet import ALEXNET_ERRORS as ALEXNET_ERRORS
from pipeline.evaluate.metrics.alexnet import ALEXNET_FLIP_PROBABILITIES as ALEXNET_FLIP_PROBABILITIES
from pipeline.evaluate.metrics.alexnet import ALEXNET_MEAN_ERRORS as ALEXNET_MEAN_ERRORS
from pipeline.evaluate.metrics.alexnet import SEVERITIES as SEVERITIES
from pipeline.evaluate.metrics.alexnet import alexnet_errors as alexnet_errors
from pipeline.evaluate.metrics.arrays import mean_over as mean_over
from pipeline.evaluate.metrics.bootstrap import Bootstrap as Bootstrap
from pipeline.evaluate.metrics.bootstrap import Estimate as Estimate
from pipeline.evaluate.metrics.bootstrap import draws_of_groups as draws_of_groups
from pipeline.evaluate.metrics.bootstrap import estimate_of_groups as estimate_of_groups
from pipeline.evaluate.metrics.bootstrap import intervals as intervals
from pipeline.evaluate.metrics.bootstrap import wilson as wilson
from pipeline.evaluate.metrics.calibration import BINS as BINS
from pipeline.evaluate.metrics.calibration import Reliability as Reliability
from pipeline.evaluate.metrics.calibration import adaptive_calibration_error as adaptive_calibration_error
from pipeline.evaluate.metrics.calibration import adaptive_reliability as adaptive_reliability
from pipeline.evaluate.metrics.calibration import brier_score as brier_score
from pipeline.evaluate.metrics.calibration import brier_scores as brier_scores
from pipeline.evaluate.metrics.calibration import expected_calibration_error as expected_calibration_error
from pipeline.evaluate.metrics.calibration import negative_log_likelihood as negative_log_likelihood
from pipeline.evaluate.metrics.calibration import negative_log_likelihoods as negative_log_likelihoods
from pipeline.evaluate.metrics.calibration import reliability as reliability
from pipeline.evaluate.metrics.corruptions import DetectionFigures as DetectionFigures
from pipeline.evaluate.metrics.corruptions import area_above_curve as area_above_curve
from pipeline.evaluate.metrics.corruptions import corruption_error as corruption_error
from pipeline.evaluate.metrics.corruptions import cutoff_bandwidths as cutoff_bandwidths
from pipeline.evaluate.metrics.corruptions import frequency_bias as frequency_bias
from pipeline.evaluate.metrics.corruptions import mean_corruption_error as mean_corruption_error
from pipeline.evaluate.metrics.corruptions import mean_error as mean_error
from pipeline.evaluate.metrics.corruptions import mpc as mpc
from pipeline.evaluate.metrics.corruptions import normalised_accuracies as normalised_accuracies
from pipeline.evaluate.metrics.corruptions import normalised_standard_deviation as normalised_standard_deviation
from pipeline.evaluate.metrics.corruptions import relative_corruption_error as relative_corruption_error
from pipeline.evaluate.metrics.corruptions import relative_mean_corruption_error as relative_mean_corruption_error
from pipeline.evaluate.metrics.corruptions import residual_robustness as residual_robustness
from pipeline.evaluate.metrics.corruptions import robustness_curve as robustness_curve
from pipeline.evaluate.metrics.corruptions import unnormalised_mean_error as unnormalised_mean_error
from pipeline.evaluate.metrics.natural import NATURAL_FIGURES as NATURAL_FIGURES
from pipeline.evaluate.metrics.natural import anomaly_score as anomaly_score
from pipeline.evaluate.metrics.natural import area_under_precision_recall as area_under_precision_recall
from pipeline.evaluate.metrics.natural import natural_robustness as natural_robustness
from pipeline.evaluate.metrics.natural import real_accuracy as real_accuracy
from pipeline.evaluate.metrics.natural import real_hits as real_hits
from pipeline.evaluate.metrics.sequences import TOP as TOP
from pipeline.evaluate.metrics.sequences import flip_probabilities_by_sequence as flip_probabilities_by_sequence
from pipeline.evaluate.metrics.sequences import flip_probability as flip_probability
from pipeline.evaluate.metrics.sequences import flip_rate as flip_rate
from pipeline.evaluate.metrics.sequences import mean_flip_rate as mean_flip_rate
from pipeline.evaluate.metrics.sequences import mean_top5_distance as mean_top5_distance
from pipeline.evaluate.metrics.sequences import negative_mean_flip_probability as negative_mean_flip_probability
from pipeline.evaluate.metrics.sequences import ordinal_ranks as ordinal_ranks
from pipeline.evaluate.metrics.sequences import top5_distance as top5_distance
from pipeline.evaluate.metrics.sequences import top5_distances_by_sequence as top5_distances_by_sequence
from pipeline.evaluate.metrics.sequences import (
    top5_distances_of_lists_by_sequence as top5_distances_of_lists_by_sequence,
)
from pipeline.evaluate.metrics.sequences import top5_ratio as top5_ratio
from pipeline.evaluate.metrics.sequences import zipf_distance as zipf_distance
from pipeline.evaluate.metrics.sequences import zipf_distances_by_sequence as zipf_distances_by_sequence
