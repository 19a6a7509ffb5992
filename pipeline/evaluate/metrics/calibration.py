"""Calibration metrics: expected calibration error, reliability, negative log-likelihood and Brier score.

Sources: Guo et al., ICML 2017, arXiv 1706.04599 (bins of equal width); Nixon et al., CVPR Workshops 2019, arXiv
1904.01685 (bins of equal mass); Brier, Monthly Weather Review 1950.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.evaluate.metrics.arrays import Figures, Flags, Floats, check_number_of, float_if_scalar, fractions

BINS = 15  # default number of bins, as in Guo et al.
MAX_BINS = 10_000  # maximum number of bins
SMALLEST = float(np.finfo(np.float32).smallest_subnormal)
"""Smallest positive float32, 2**-149. A smaller probability is stored as 0."""


@dataclass(frozen=True)
class Reliability:
    """The images of each bin of confidence, (..., bins): the data of a reliability diagram."""

    images: NDArray[np.int64]  # their number
    confidence: Floats  # mean confidence 0..1; NaN for empty bins
    accuracy: Floats  # fraction of correct predictions 0..1; NaN for empty bins

    def error(self) -> Figures:
        """Return the mean distance of accuracy from confidence, weighted by images, of shape (...)."""
        gaps = np.abs(self.accuracy - self.confidence) * self.images
        return float_if_scalar(np.nansum(gaps, axis=-1) / self.images.sum(axis=-1))


def reliability(confidences: ArrayLike, correct: ArrayLike, bins: int = BINS) -> Reliability:
    """Return accuracy and mean confidence in bins of equal width: (0, 1 / bins], ..., (1 - 1 / bins, 1].

    Args:
        confidences: Probabilities 0..1 of the predicted classes, shape (..., images). 0 is in the first bin.
        correct: Whether each prediction is correct, bool of the same shape.
        bins: Number of bins, 1 to 10,000.

    Raises:
        ValueError: If a confidence is outside 0..1, the shapes differ, ``correct`` is not bool, or ``bins`` is invalid.
    """
    values, hits = _checked(confidences, correct, bins)
    upper = np.arange(1, bins) / bins
    return _binned(values, hits, np.searchsorted(upper, values), bins)


def adaptive_reliability(confidences: ArrayLike, correct: ArrayLike, bins: int = BINS) -> Reliability:
    """Return accuracy and mean confidence in bins of equal mass.

    The bin of an image is ``bins`` times the fraction of images that have a lower confidence, rounded down. Images of
    equal confidence are therefore in one bin, and the result does not depend on the order of images.
    Some bins can therefore be empty. Arguments: see ``reliability``.
    """
    values, hits = _checked(confidences, correct, bins)
    rows = values.reshape(-1, values.shape[-1])
    last = -(-np.arange(1, bins) * rows.shape[1] // bins) - 1  # place of the last image below each further bin
    found = [np.searchsorted(each, row) for each, row in zip(np.sort(rows)[:, last], rows, strict=True)]
    return _binned(values, hits, np.stack(found), bins)


def expected_calibration_error(confidences: ArrayLike, correct: ArrayLike, bins: int = BINS) -> Figures:
    """Return ECE: the mean distance of accuracy from confidence over bins of equal width, weighted by images.

    It is a fraction 0..1 of shape (...), biased upwards for few images. Arguments: see ``reliability``.
    """
    return reliability(confidences, correct, bins).error()


def adaptive_calibration_error(confidences: ArrayLike, correct: ArrayLike, bins: int = BINS) -> Figures:
    """Return adaptive ECE: as ``expected_calibration_error``, but with bins of equal mass.

    It is a fraction 0..1 of shape (...), biased upwards for few images. Arguments: see ``adaptive_reliability``.
    """
    return adaptive_reliability(confidences, correct, bins).error()


def negative_log_likelihoods(probabilities: ArrayLike) -> Floats:
    """Return the negated natural logarithm of the label's probability for each image, 0..103.28 nats.

    A probability of 0 is taken for the smallest positive float32, 2**-149, because smaller ones are stored as 0. It
    contributes 103.28, so that the result stays finite; the true value is usually larger.

    Args:
        probabilities: Probabilities 0..1 of the labels, shape (..., images).

    Raises:
        ValueError: If a probability is NaN or outside 0..1.
    """
    return -np.log(np.maximum(fractions(probabilities, "probabilities", axes=1), SMALLEST))


def negative_log_likelihood(probabilities: ArrayLike) -> Figures:
    """Return NLL in nats, of shape (...): the mean over images of ``negative_log_likelihoods``."""
    return float_if_scalar(negative_log_likelihoods(probabilities).mean(axis=-1))


def brier_scores(label_probabilities: ArrayLike, squared_probabilities: ArrayLike) -> Floats:
    """Return the squared distance, 0..2, of the probabilities of all classes from the one-hot label, for each image.

    Args:
        label_probabilities: Probabilities 0..1 of the labels, shape (..., images).
        squared_probabilities: Sums 0..1 of the squared probabilities of all classes, the same shape.

    Raises:
        ValueError: If a value is NaN or outside 0..1, or the shapes differ.
    """
    labels = fractions(label_probabilities, "probabilities", axes=1)
    squared = fractions(squared_probabilities, "squared probabilities", axes=1)
    if labels.shape != squared.shape:
        raise ValueError(
            f"probabilities have shape {labels.shape}, but their squares have shape {squared.shape}: pass one of each "
            "for every image"
        )
    return np.maximum(squared - 2 * labels + 1, 0)  # rounding of float32 can make it negative


def brier_score(label_probabilities: ArrayLike, squared_probabilities: ArrayLike) -> Figures:
    """Return the Brier score of several classes, 0..2 of shape (...): the mean over images of ``brier_scores``."""
    return float_if_scalar(brier_scores(label_probabilities, squared_probabilities).mean(axis=-1))


def _checked(confidences: ArrayLike, correct: ArrayLike, bins: int) -> tuple[Floats, Flags]:
    """Return valid confidences and whether predictions are correct. Raise ValueError if they are invalid."""
    values, hits = fractions(confidences, "confidences", axes=1), np.asarray(correct)
    if hits.dtype != np.bool_ or hits.shape != values.shape:
        raise ValueError(
            f"invalid confidences of shape {values.shape} with correct of shape {hits.shape} and type {hits.dtype}: "
            "pass one bool for each confidence"
        )
    check_number_of("bins", bins, MAX_BINS)
    return values, hits


def _binned(values: Floats, hits: Flags, bin_of: NDArray[np.int64], bins: int) -> Reliability:
    """Return the means of each bin, given the bin of each image, (..., images)."""
    shape = (*values.shape[:-1], bins)
    rows = np.arange(int(np.prod(shape[:-1], dtype=int)))[:, None] * bins
    places = (bin_of.reshape(len(rows), -1) + rows).ravel()

    def sums(weights: NDArray[np.float64] | Flags | None = None) -> Floats:
        each = None if weights is None else weights.ravel()
        return np.bincount(places, each, minlength=len(rows) * bins).reshape(shape)

    images = sums().astype(np.int64)
    with np.errstate(invalid="ignore"):
        return Reliability(images, sums(values) / images, sums(hits) / images)
