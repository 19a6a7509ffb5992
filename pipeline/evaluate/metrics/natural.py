"""Metrics of natural distribution shifts: ReaL, ImageNet-O, and the average of ARES-Bench.

Sources: Beyer et al., Are we done with ImageNet?, arXiv 2006.07159 (reassessed labels, ReaL, of which an image may have
several); Hendrycks et al., CVPR 2021, arXiv 1907.07174 (anomaly score and AUPR); ARES-Bench, arXiv 2302.14301 (natural
robustness).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.evaluate.metrics.arrays import Figures, Flags, Floats, float_if_scalar, value_range

NO_LABEL = -1  # value that fills the rows of label arrays

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


def natural_robustness(figures: ArrayLike) -> Figures:
    """Return the natural robustness (average of ten), of shape (...): the plain mean of ten figures.

    Args:
        figures: Values of the ``NATURAL_FIGURES`` in their order, as fractions, shape (..., 10). Accuracies are 0..1;
            1 - mCE may be negative. The mean of figures of which one is NaN is NaN.

    Raises:
        ValueError: If there are not ten figures, or a value is infinite.
    """
    array = np.asarray(figures, np.float64)
    if array.shape[-1:] != (len(NATURAL_FIGURES),) or np.isinf(array).any():
        raise ValueError(
            f"invalid figures of shape {array.shape}: pass finite values of exactly {', '.join(NATURAL_FIGURES)}"
        )
    return float_if_scalar(array.mean(axis=-1))


# Accuracy (ReaL)


def label_array(lists: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    """Return lists of labels as an array.

    Args:
        lists: Labels of each image, 0 or larger. A list may be empty.

    Returns:
        Labels of shape (images, length of the longest list); shorter rows are filled with ``NO_LABEL``.
    """
    columns = list(zip_longest(*lists, fillvalue=NO_LABEL))
    return np.array(columns, np.int32).reshape(len(columns), len(lists)).T


def real_hits(predicted: ArrayLike, labels: ArrayLike) -> Flags:
    """Return whether one of the predicted classes of each image is one of its labels. False if it has none.

    Args:
        predicted: Predicted classes of shape (images,), or (images, k) for the k most probable ones.
        labels: Labels of shape (images, any length), filled with ``NO_LABEL``.

    Raises:
        ValueError: If the numbers of images differ, or a predicted class is negative.
    """
    classes, truth = np.asarray(predicted), np.asarray(labels)
    if classes.ndim not in {1, 2} or truth.ndim != 2 or len(classes) != len(truth):
        raise ValueError(
            f"invalid shapes {classes.shape} of predicted classes and {truth.shape} of labels: pass (images,) or "
            "(images, k), and (images, labels), of the same images"
        )
    if classes.size and classes.min() < 0:
        raise ValueError(f"invalid predicted class {classes.min()}: use classes from 0")
    return np.asarray((classes.reshape(len(classes), -1, 1) == truth[:, None, :]).any(axis=(1, 2)))


def real_accuracy(predicted: ArrayLike, labels: Sequence[Sequence[int]]) -> float:
    """Return the accuracy (ReaL), 0..1: the fraction of images with labels for which a predicted class is a label.

    Args:
        predicted: Predicted classes of shape (images,), or (images, k) for top-k accuracy.
        labels: Labels of each image, 0 or larger. Images with an empty list are not counted.

    Raises:
        ValueError: If no image has a label, the numbers of images differ, or a predicted class is negative.
    """
    counted = np.array([len(each) > 0 for each in labels], np.bool_)
    if not counted.any():
        raise ValueError(f"none of {len(counted)} images has a label: pass at least one image with labels")
    return float(real_hits(predicted, label_array(labels))[counted].mean())


# Anomaly detection on ImageNet-O


def anomaly_score(probabilities: ArrayLike) -> Floats:
    """Return the negated maximum class probability of each image, -1..0. Less confident predictions score higher.

    Args:
        probabilities: Class probabilities 0..1, floats of shape (..., classes), for example a softmax output.

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


def _average_precision(scores: Floats, anomalous: Flags) -> float:
    """Return the average precision for one row of images."""
    order = np.argsort(-scores)
    descending = scores[order]
    thresholds = np.append(np.flatnonzero(descending[1:] != descending[:-1]), len(descending) - 1)
    hits = np.cumsum(anomalous[order])[thresholds]
    return float(np.sum(np.diff(hits, prepend=0) / hits[-1] * hits / (thresholds + 1)))
