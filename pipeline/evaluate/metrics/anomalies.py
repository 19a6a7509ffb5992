"""Anomaly detection metrics of ImageNet-O: anomaly score and AUPR.

Source: Hendrycks et al., CVPR 2021, arXiv 1907.07174.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.evaluate.metrics.checks import Figures, Floats, float_if_scalar, value_range


def anomaly_score(probabilities: ArrayLike) -> Floats:
    """Return the negated maximum class probability of each image. Less confident predictions score higher.

    Args:
        probabilities: Class probabilities 0..1, floats of shape (..., classes), for example a softmax output.

    Returns:
        Anomaly scores -1..0, float64 of shape (...).

    Raises:
        ValueError: If the values are not floats, there are no classes, or a value is outside 0..1.
    """
    array = np.asarray(probabilities)
    if not np.issubdtype(array.dtype, np.floating) or array.ndim == 0 or array.shape[-1] == 0:
        raise ValueError(
            f"invalid probabilities of shape {array.shape} and type {array.dtype}: pass floats of shape (..., classes)"
        )
    if not ((array >= 0) & (array <= 1)).all():
        raise ValueError(f"invalid probabilities {value_range(array)}: use 0..1 (apply softmax to logits first)")
    return -array.max(axis=-1).astype(np.float64)


def area_under_precision_recall(scores: ArrayLike, anomalous: ArrayLike) -> Figures:
    """Return AUPR as average precision: the sum over thresholds of precision times the increase in recall.

    Args:
        scores: Anomaly scores of shape (..., images), higher for more likely anomalies. Equal scores share a threshold.
        anomalous: Whether each image is an anomaly, bool of shape (images,) or the shape of ``scores``.

    Returns:
        Areas 0..1 of shape (...), equal to scikit-learn's ``average_precision_score``.

    Raises:
        ValueError: If a shape or dtype is wrong, a score is NaN, or no image is anomalous.
    """
    values, flags = np.asarray(scores, np.float64), np.asarray(anomalous)
    if flags.dtype != np.bool_ or values.ndim == 0 or flags.shape not in {values.shape, values.shape[-1:]}:
        raise ValueError(
            f"invalid scores of shape {values.shape} with anomalous of shape {flags.shape} and type {flags.dtype}: "
            "pass scores of shape (..., images) and one bool for each image"
        )
    if np.isnan(values).any():
        raise ValueError("invalid scores: some are NaN; pass scores that can be sorted")
    if not flags.any(axis=-1).all():
        raise ValueError("no image is anomalous: AUPR needs at least one anomalous image")
    rows = values.reshape(-1, values.shape[-1])
    flag_rows = np.broadcast_to(flags, values.shape).reshape(rows.shape)
    areas = [_average_precision(row, row_flags) for row, row_flags in zip(rows, flag_rows, strict=True)]
    return float_if_scalar(np.reshape(areas, values.shape[:-1]))


def _average_precision(scores: Floats, anomalous: NDArray[np.bool_]) -> float:
    """Return the average precision for one row of images."""
    order = np.argsort(-scores)
    descending = scores[order]
    thresholds = np.append(np.flatnonzero(descending[1:] != descending[:-1]), len(descending) - 1)
    hits = np.cumsum(anomalous[order])[thresholds]
    return float(np.sum(np.diff(hits, prepend=0) / hits[-1] * hits / (thresholds + 1)))
