"""Published errors and flip probabilities of AlexNet, the baseline of ImageNet-C and ImageNet-P.

All values are fractions 0..1, measured on the 50,000 ImageNet validation photographs at 224 x 224 pixels.

The following AlexNet values were never published: top-5 distances, flip probabilities at difficulties 2 and 3, and the
errors at each severity of the four validation corruptions. CIFAR, Tiny ImageNet and ImageNet 64x64 have no standard
baseline. To normalise by any of these, evaluate a baseline model of your choice.

Source: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common Corruptions and Perturbations, ICLR
2019, arXiv 1903.12261.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pipeline.evaluate.metrics.arrays import Floats

SEVERITIES = (1, 2, 3, 4, 5)

ALEXNET_CLEAN_ERROR = 0.4348  # top-1 error on clean validation photographs

ALEXNET_ERRORS: Mapping[str, tuple[float, ...]] = {
    "gaussian_noise": (0.69528, 0.82542, 0.93554, 0.98138, 0.99452),
    "shot_noise": (0.71224, 0.85108, 0.93574, 0.98182, 0.99146),
    "impulse_noise": (0.78374, 0.89808, 0.9487, 0.9872, 0.99548),
    "defocus_blur": (0.65624, 0.73202, 0.85036, 0.91364, 0.94714),
    "glass_blur": (0.64308, 0.75054, 0.88806, 0.91622, 0.93344),
    "motion_blur": (0.5843, 0.70048, 0.82108, 0.8975, 0.92638),
    "zoom_blur": (0.70008, 0.76992, 0.80784, 0.84198, 0.87198),
    "snow": (0.71726, 0.88392, 0.86468, 0.9187, 0.94952),
    "frost": (0.6139, 0.79734, 0.8879, 0.89942, 0.9343),
    "fog": (0.67474, 0.7605, 0.84378, 0.8726, 0.945),
    "brightness": (0.4514, 0.48502, 0.54048, 0.62166, 0.7244),
    "contrast": (0.64548, 0.7615, 0.88874, 0.9776, 0.9927),
    "elastic_transform": (0.52596, 0.70116, 0.55686, 0.64076, 0.80554),
    "pixelate": (0.52218, 0.5462, 0.73728, 0.87092, 0.91262),
    "jpeg_compression": (0.51002, 0.54718, 0.57294, 0.65458, 0.74778),
}
"""Top-1 errors at severities 1 to 5 for the 15 benchmark corruptions, in the published order."""

ALEXNET_MEAN_ERRORS: Mapping[str, float] = {
    "speckle_noise": 0.8454,
    "gaussian_blur": 0.7871,
    "spatter": 0.7175,
    "saturate": 0.6583,
    "style_transfer": 0.757,
}
"""Mean top-1 errors over the five severities, for the four validation corruptions and for style transfer.

Style transfer is from the earlier version of the paper, arXiv 1807.01697. Its images and settings were not published.
"""

ALEXNET_FLIP_PROBABILITIES: Mapping[str, float] = {
    "gaussian_noise": 0.23653,
    "shot_noise": 0.30062,
    "motion_blur": 0.09297,
    "zoom_blur": 0.05942,
    "snow": 0.11928,
    "brightness": 0.04889,
    "translate": 0.11007,
    "rotate": 0.13104,
    "tilt": 0.0705,
    "scale": 0.23531,
    "spatter": 0.05053,
    "speckle_noise": 0.18649,
    "gaussian_blur": 0.02775,
    "shear": 0.10658,
}
"""Flip probabilities at difficulty 1: the ten benchmark perturbations, then the four validation perturbations."""


def alexnet_errors(corruptions: Sequence[str], severities: Sequence[int] = SEVERITIES) -> Floats:
    """Return AlexNet's top-1 errors, as the baseline of ``corruption_error``.

    For a validation corruption and for style transfer, only the mean over the five severities was published. The mean
    is returned once per severity, which keeps the sum over all five severities correct.

    Args:
        corruptions: Names of corruptions.
        severities: Distinct severities 1..5.

    Returns:
        Error rates 0..1, shape (corruptions, severities). NaN where AlexNet's error was not published: for other
        corruptions, and for those of which only the mean was published if ``severities`` are not all five.

    Raises:
        ValueError: If ``corruptions`` is a single name, or ``severities`` is empty, repeats a severity or is out of
            range.
    """
    if isinstance(corruptions, str):
        raise ValueError(
            f"invalid corruptions {corruptions!r}: pass a sequence of names, for example [{corruptions!r}]"
        )
    if not len(severities) or not set(severities) <= set(SEVERITIES) or len(set(severities)) < len(severities):
        raise ValueError(f"invalid severities {tuple(severities)}: use one or more distinct severities of {SEVERITIES}")
    means = ALEXNET_MEAN_ERRORS if len(severities) == len(SEVERITIES) else {}
    unknown = (np.nan,) * len(SEVERITIES)
    rows = [
        ALEXNET_ERRORS.get(name, (means[name],) * len(SEVERITIES) if name in means else unknown) for name in corruptions
    ]
    return np.reshape(rows, (len(corruptions), len(SEVERITIES)))[:, np.asarray(severities) - 1].astype(np.float64)
