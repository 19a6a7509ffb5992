"""Telling images of no class from the others, ImageNet-O: anomaly score and AUPR.

Source: Hendrycks et al., CVPR 2021, arXiv 1907.07174.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.evaluate.metrics.checks import Figures, Floats, plain, span


def anomaly_score(probabilities: ArrayLike) -> Floats:
    """Return minus the largest probability of each image: larger where the model is less sure.

    Args:
        probabilities: Floats 0..1, (..., classes), for example from a softmax.

    Returns:
        Scores (...), -1..0.

    Raises:
        ValueError: For another type, no class and numbers outside 0..1.
    """
    array = np.asarray(probabilities)
    if not np.issubdtype(array.dtype, np.floating) or array.ndim == 0 or array.shape[-1] == 0:
        raise ValueError(
            f"invalid probabilities of shape {array.shape} and type {array.dtype}: pass floats of shape (..., classes)"
        )
    if not ((array >= 0) & (array <= 1)).all():
        raise ValueError(f"invalid probabilities {span(array)}: use 0..1 (apply a softmax to logits first)")
    return -array.max(axis=-1).astype(np.float64)


def area_under_precision_recall(scores: ArrayLike, anomalous: ArrayLike) -> Figures:
    """Return AUPR as average precision: the sum over thresholds of precision times the recall gained there.

    Args:
        scores: Numbers (..., images), larger for what is more likely an anomaly. Equal scores share a threshold.
        anomalous: Whether each image is an anomaly: bool, (images,) or as ``scores``.

    Returns:
        Areas (...), 0..1, equal to scikit-learn's ``average_precision_score``.

    Raises:
        ValueError: For other types and shapes, for NaN, and where no image is anomalous.
    """
    values, flags = np.asarray(scores, np.float64), np.asarray(anomalous)
    if flags.dtype != np.bool_ or values.ndim == 0 or flags.shape not in {values.shape, values.shape[-1:]}:
        raise ValueError(
            f"invalid scores of shape {values.shape} with anomalous of shape {flags.shape} and type {flags.dtype}: "
            "pass scores of shape (..., images) and one bool for each image"
        )
    if np.isnan(values).any():
        raise ValueError("invalid scores: some are NaN, which has no place in an order")
    if not flags.any(axis=-1).all():
        raise ValueError("no image is anomalous: AUPR needs at least one that is")
    rows = values.reshape(-1, values.shape[-1])
    flag_rows = np.broadcast_to(flags, values.shape).reshape(rows.shape)
    areas = [_average_precision(row, flags_of_row) for row, flags_of_row in zip(rows, flag_rows, strict=True)]
    return plain(np.reshape(areas, values.shape[:-1]))


def _average_precision(scores: Floats, anomalous: NDArray[np.bool_]) -> float:
    """Return the area for one row of images."""
    order = np.argsort(-scores)
    falling = scores[order]
    thresholds = np.append(np.flatnonzero(falling[1:] != falling[:-1]), len(falling) - 1)
    hits = np.cumsum(anomalous[order])[thresholds]
    return float(np.sum(np.diff(hits, prepend=0) / hits[-1] * hits / (thresholds + 1)))
