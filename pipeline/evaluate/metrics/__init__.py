"""The figures of the benchmarks as functions of arrays: no model, no file, no other state.

Errors, accuracies and probabilities are fractions, 0..1; what is shown in percent is multiplied by whoever shows it.
Sequences have the shape (S, T): S sequences of T frames. ``ordered`` says whether the frames have an order in time: it
is True but for the noise perturbations. Ordered frames are compared with the frame ``difficulty`` before them, frames
of noise with the first of their sequence (there the difficulty lies in the data, and the argument changes nothing).

Sources: Hendrycks and Dietterich (ICLR 2019, arXiv 1903.12261) for ImageNet-C and ImageNet-P; Hendrycks et al. (CVPR
2021, arXiv 1907.07174) for ImageNet-O; Tang et al., RobustART (arXiv 2109.05211) for NmFP and NSD; ARES-Bench (arXiv
2302.14301) for robustness curves; Laugros et al. (arXiv 2107.12052) for residual robustness and correlation.
"""

from pipeline.evaluate.metrics.anomalies import (
    anomaly_score,
    area_under_precision_recall,
)
from pipeline.evaluate.metrics.benchmarks import (
    correlation_of_benchmarks,
    normalised_standard_deviation,
    residual_robustness,
    robustness_curve,
)
from pipeline.evaluate.metrics.corruption_error import (
    Errors,
    corruption_error,
    mean_corruption_error,
    relative_corruption_error,
    relative_mean_corruption_error,
    unnormalised_mean_error,
)
from pipeline.evaluate.metrics.ranks import (
    TOP,
    ordinal_ranks,
    top5_lists,
)
from pipeline.evaluate.metrics.sequences import (
    flip_probabilities_by_sequence,
    flip_probability,
    mean_flip_rate,
    mean_top5_distance,
    noise_mean_flip,
    top5_distance,
    top5_distance_of_lists,
    top5_distances_by_sequence,
    top5_distances_of_lists_by_sequence,
    zipf_distance,
    zipf_distances_by_sequence,
)

__all__ = [
    "TOP",
    "Errors",
    "anomaly_score",
    "area_under_precision_recall",
    "correlation_of_benchmarks",
    "corruption_error",
    "flip_probabilities_by_sequence",
    "flip_probability",
    "mean_corruption_error",
    "mean_flip_rate",
    "mean_top5_distance",
    "noise_mean_flip",
    "normalised_standard_deviation",
    "ordinal_ranks",
    "relative_corruption_error",
    "relative_mean_corruption_error",
    "residual_robustness",
    "robustness_curve",
    "top5_distance",
    "top5_distance_of_lists",
    "top5_distances_by_sequence",
    "top5_distances_of_lists_by_sequence",
    "top5_lists",
    "unnormalised_mean_error",
    "zipf_distance",
    "zipf_distances_by_sequence",
]
