"""Figures of images of no class: ImageNet-O."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pipeline.evaluate.metrics.checks import Floats


def anomaly_score(probabilities: ArrayLike) -> Floats:
    """Minus the largest probability of each image: larger for what the model is less sure of.

    (..., K) floating point, 0..1, such as a softmax gives -> (...), -1..0. Raises ValueError for others.
    Source: ImageNet-O.
    """
    array = np.asarray(probabilities)
    if not np.issubdtype(array.dtype, np.floating) or array.ndim == 0 or array.shape[-1] == 0:
        raise ValueError(
            f"probabilities of shape {array.shape} and type {array.dtype}; allowed are floats of (..., classes)"
        )
    if not ((array >= 0) & (array <= 1)).all():
        raise ValueError(f"probabilities {array.min()}..{array.max()}; 0..1 are allowed (logits need a softmax first)")
    return -array.max(axis=-1).astype(np.float64)


def area_under_precision_recall(scores: ArrayLike, anomalous: ArrayLike) -> float:
    """Average precision: sum over thresholds of precision times the recall gained there, 0..1.

    ``scores``: (N,) numbers, larger for what is more likely an anomaly; equal scores pass a threshold together.
    ``anomalous``: (N,) bool. Raises ValueError for others, for NaN and where nothing is anomalous.
    Source: ImageNet-O, AUPR; the definition is that of scikit-learn's average_precision_score.
    """
    values, positive = np.asarray(scores, np.float64), np.asarray(anomalous)
    if values.ndim != 1 or positive.shape != values.shape or positive.dtype != np.bool_:
        raise ValueError(
            f"scores of shape {values.shape}, anomalous of shape {positive.shape} and type {positive.dtype}; "
            "allowed are (images,) and bool of the same shape"
        )
    if np.isnan(values).any() or not positive.any():
        raise ValueError("scores with NaN, or no image that is anomalous; neither has a precision")
    order = np.argsort(-values)
    falling = values[order]
    thresholds = np.append(np.flatnonzero(falling[1:] != falling[:-1]), len(falling) - 1)
    hits = np.cumsum(positive[order])[thresholds]
    return float(np.sum(np.diff(hits, prepend=0) / hits[-1] * hits / (thresholds + 1)))
