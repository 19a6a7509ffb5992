"""The average robustness to natural distribution shifts of ARES-Bench."""

from __future__ import annotations

from collections.abc import Mapping

from numpy.typing import ArrayLike

from pipeline.evaluate.metrics.checks import Figures
from pipeline.evaluate.metrics.means import mean_over_transforms

NATURAL_FIGURES = (
    "imagenet",
    "imagenet-v2-matched-frequency",
    "accuracy (ReaL)",
    "objectnet",
    "imagenet-a",
    "imagenet-r",
    "imagenet-v",
    "1 - mCE",
    "stylized-imagenet",
    "imagenet-sketch",
)
"""The ten figures of the average in the published order: accuracies by task, and two other figures."""


def natural_robustness(figures: Mapping[str, ArrayLike]) -> Figures:
    """Return the natural robustness (average of ten): the plain mean of ten figures.

    Args:
        figures: Mapping from each of ``NATURAL_FIGURES`` to values of shape (...), as fractions. Accuracies are 0..1;
            1 - mCE may be negative.

    Returns:
        Means of shape (...), or a float for numbers.

    Raises:
        ValueError: If a figure is missing or unknown, the shapes differ, or a value is not finite.

    Source: ARES-Bench, arXiv 2302.14301.
    """
    if differ := figures.keys() ^ set(NATURAL_FIGURES):
        raise ValueError(
            f"missing or unknown figures {', '.join(sorted(differ))}: pass exactly {', '.join(NATURAL_FIGURES)}"
        )
    return mean_over_transforms(figures)
