"""Stability metrics of ImageNet-P: flip probability, top-5 distance, and their ratios to a baseline.

Predictions have the shape (sequences, frames). The frames of all perturbations except noise are ordered in time: each
frame is compared with the frame ``difficulty`` frames before it. Frames of noise are not ordered: each is compared with
the first frame of its sequence, and ``difficulty`` is ignored, since it is already part of the data. Functions named
``..._by_sequence`` return one value per sequence, which the bootstrap draws from; the metric is their mean. Ratios, and
means over perturbations, accept any leading axes.

Source: Hendrycks and Dietterich, ICLR 2019, arXiv 1903.12261.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pipeline.evaluate.metrics.arrays import Figures, Floats, Numbers, float_if_scalar, fractions, mean_over, row_slices

TOP = 5  # number of classes in a top-5 list


def ordinal_ranks(logits: ArrayLike) -> Numbers:
    """Return the rank of every class. The largest logit has rank 1; of equal logits, the lower class index ranks first.

    Args:
        logits: Floats of shape (..., classes). Infinite values are allowed.

    Returns:
        Ranks 1..classes of shape (..., classes), in the smallest unsigned integer dtype that fits.

    Raises:
        ValueError: If the values are not floats, there are no classes, or a logit is NaN.
    """
    rows = _logit_rows(logits)
    classes = rows.shape[-1]
    ranks = np.empty(rows.shape, np.min_scalar_type(classes))
    consecutive = np.arange(1, classes + 1, dtype=ranks.dtype)[None]
    for part in row_slices(len(rows), classes):
        np.put_along_axis(ranks[part], _order(rows[part]), consecutive, axis=-1)
    return ranks.reshape(np.shape(logits))


def flip_probability(predictions: ArrayLike, *, ordered: bool, difficulty: int = 1) -> float:
    """Return FP, 0..1: the fraction of compared frame pairs whose predicted classes differ.

    Args:
        predictions: Predicted classes, integers of shape (sequences, frames).
        ordered: Whether the frames are ordered in time. False for noise perturbations.
        difficulty: Distance between the two frames of a pair, 1..frames - 1. Ignored if ``ordered`` is False.

    Raises:
        ValueError: If the shape or dtype is wrong, or ``difficulty`` is out of range.
    """
    return float(flip_probabilities_by_sequence(predictions, ordered=ordered, difficulty=difficulty).mean())


def flip_probabilities_by_sequence(predictions: ArrayLike, *, ordered: bool, difficulty: int = 1) -> Floats:
    """Return the flip probability of each sequence, shape (sequences,). Arguments: see ``flip_probability``."""
    array = _sequences(predictions, "predictions", 2)
    earlier, later = _pairs(array, ordered, difficulty)
    return (earlier != later).mean(axis=1)


def top5_distance(ranks: ArrayLike, *, ordered: bool, difficulty: int = 1) -> float:
    """Return uT5D, 0..15: the mean over frame pairs of how many ranks the earlier frame's top-5 classes move.

    A class that leaves the top five is counted as rank 6. Arguments: see ``flip_probability``.

    Args:
        ranks: Integers of shape (sequences, frames, classes). Each frame contains each of 1..classes once (see
            ``ordinal_ranks``).
        ordered: Whether the frames are ordered in time.
        difficulty: Distance between the two frames of a pair.

    Raises:
        ValueError: If the shape or dtype is wrong, the ranks are invalid, or ``difficulty`` is out of range.
    """
    return float(top5_distances_by_sequence(ranks, ordered=ordered, difficulty=difficulty).mean())


def top5_distances_by_sequence(ranks: ArrayLike, *, ordered: bool, difficulty: int = 1) -> Floats:
    """Return the top-5 distance of each sequence, shape (sequences,). Arguments: see ``top5_distance``."""
    array = _sequences(ranks, "ranks", 3)
    count, frames, classes = array.shape
    lists = np.empty((count, frames, min(TOP, classes)), np.min_scalar_type(classes - 1))
    for part in row_slices(count, frames * classes):
        lists[part] = _leading_classes(array[part])
    return top5_distances_of_lists_by_sequence(lists, ordered=ordered, difficulty=difficulty)


def top5_distances_of_lists_by_sequence(top5: ArrayLike, *, ordered: bool, difficulty: int = 1) -> Floats:
    """Return the top-5 distance of each sequence, computed from top-5 lists instead of ranks, shape (sequences,).

    Args:
        top5: Class indices in rank order, integers of shape (sequences, frames, 5). With fewer than five classes, the
            shape is (sequences, frames, classes) and each list contains all classes.
        ordered: Whether the frames are ordered in time. False for noise perturbations.
        difficulty: Distance between the two frames of a pair, 1..frames - 1. Ignored if ``ordered`` is False.

    Raises:
        ValueError: If the shape or dtype is wrong, an index is negative, a list contains a class twice, or
            ``difficulty`` is out of range.
    """
    array = _sequences(top5, "top-5 lists", 3)
    width = array.shape[2]
    planes = np.ascontiguousarray(np.moveaxis(array, 2, 0))  # (5, sequences, frames): one plane per rank
    _check_lists(planes)
    earlier, later = zip(*(_pairs(plane, ordered, difficulty) for plane in planes), strict=True)
    pairs = np.broadcast_shapes(earlier[0].shape, later[0].shape)[1]
    total = np.full(
        len(array), pairs * sum(TOP - i for i in range(width)), np.int64
    )  # the distance if no class stayed in the top five
    for i in range(width):
        for j in range(width):
            stayed = np.count_nonzero(earlier[i] == later[j], axis=1)
            total += stayed * (abs(j - i) - (TOP - i))
    return total / pairs


def zipf_distance(ranks: ArrayLike, *, ordered: bool, difficulty: int = 1) -> float:
    """Return the Zipf distance: the mean over frame pairs of the rank changes, weighted by the earlier rank.

    For each pair it sums abs(1 / earlier_rank - 1 / later_rank) / earlier_rank over all classes. The evaluation script
    of ImageNet-P prints this metric next to the published ones. Arguments: see ``top5_distance``.
    """
    return float(zipf_distances_by_sequence(ranks, ordered=ordered, difficulty=difficulty).mean())


def zipf_distances_by_sequence(ranks: ArrayLike, *, ordered: bool, difficulty: int = 1) -> Floats:
    """Return the Zipf distance of each sequence, shape (sequences,). Arguments: see ``zipf_distance``."""
    array = _sequences(ranks, "ranks", 3)
    count, frames, classes = array.shape
    distances = np.empty(count)
    for part in row_slices(count, frames * classes):
        _check_ranks(array[part])
        earlier, later = _pairs(1.0 / array[part], ordered, difficulty)
        moved = np.abs(earlier - later)
        distances[part] = np.einsum("stk,stk->s", moved, earlier) / moved.shape[1]
    return distances


def flip_rate(flip_probabilities: ArrayLike, baseline: ArrayLike) -> Figures:
    """Return FR: flip probabilities divided by those of the baseline; NaN where that is 0 or NaN.

    Args:
        flip_probabilities: Flip probabilities 0..1 of shape (...) or (..., perturbations).
        baseline: Flip probabilities of the baseline, a number or an array of shape (perturbations,).

    Raises:
        ValueError: If a value is outside 0..1.
    """
    return _ratio(fractions(flip_probabilities, "flip probabilities", axes=0, missing=True), baseline)


def mean_flip_rate(flip_probabilities: ArrayLike, baseline: ArrayLike) -> Figures:
    """Return mFR, of shape (...): the mean of ``flip_rate`` over perturbations; NaN if one FR is.

    The published mFR uses the ten benchmark perturbations and AlexNet's flip probabilities. Arguments: see
    ``flip_rate``.
    """
    rates = flip_rate(fractions(flip_probabilities, "flip probabilities", axes=1, missing=True), baseline)
    return float_if_scalar(np.mean(rates, axis=-1))


def negative_mean_flip_probability(flip_probabilities: ArrayLike) -> Figures:
    """Return NmFP, -1..0 of shape (...): the negated mean flip probability, without normalisation. Larger is better.

    Args:
        flip_probabilities: Flip probabilities 0..1 of shape (..., perturbations).

    Raises:
        ValueError: If there are no perturbations or a value is outside 0..1.

    Source: RobustART, arXiv 2109.05211.
    """
    return -mean_over(fractions(flip_probabilities, "flip probabilities", axes=1, missing=True))


def top5_ratio(distances: ArrayLike, baseline: ArrayLike) -> Figures:
    """Return T5D: top-5 distances divided by those of the baseline; NaN where that is 0 or NaN.

    Args:
        distances: uT5D of shape (...) or (..., perturbations).
        baseline: uT5D of the baseline, a number or an array of shape (perturbations,).

    Raises:
        ValueError: If a value is infinite or negative.
    """
    return _ratio(distances, baseline)


def mean_top5_distance(distances: ArrayLike, baseline: ArrayLike) -> Figures:
    """Return mT5D, of shape (...): the mean of ``top5_ratio`` over perturbations; NaN if one T5D is.

    AlexNet's top-5 distances were never published, so the baseline must be evaluated first. Arguments: see
    ``top5_ratio``.
    """
    if not np.ndim(distances) or not np.size(distances):
        raise ValueError(f"invalid distances of shape {np.shape(distances)}: pass a row of at least one number")
    return float_if_scalar(np.mean(top5_ratio(distances, baseline), axis=-1))


def _ratio(figures: ArrayLike, baseline: ArrayLike) -> Figures:
    """Return figures divided by the baseline's; NaN where that is 0 or NaN. Raise ValueError if they are invalid."""
    values, reference = np.asarray(figures, np.float64), np.asarray(baseline, np.float64)
    if reference.ndim and reference.shape != values.shape[-1:]:
        raise ValueError(
            f"figures have shape {values.shape}, but the baseline has shape {reference.shape}: pass one baseline value "
            "for each perturbation"
        )
    if np.isinf(values).any() or np.isinf(reference).any() or (values < 0).any() or (reference < 0).any():
        raise ValueError("invalid figures or baseline: use finite numbers, 0 or larger")
    return float_if_scalar(values / np.where(reference > 0, reference, np.nan))


def _sequences(values: ArrayLike, name: str, dimensions: int) -> Numbers:
    """Return integers of shape (sequences, frames) or (sequences, frames, classes). Raise ValueError if invalid."""
    array = np.asarray(values)
    if not np.issubdtype(array.dtype, np.integer) or array.ndim != dimensions or array.size == 0:
        shape = ("sequences", "frames", "classes")[:dimensions]
        raise ValueError(
            f"invalid {name} of shape {array.shape} and type {array.dtype}: pass integers of shape ({', '.join(shape)})"
        )
    return array


def _pairs(frames: Numbers, ordered: bool, difficulty: int) -> tuple[Numbers, Numbers]:
    """Return views of the earlier and later frames of all pairs along axis 1; unordered ones broadcast."""
    last = frames.shape[1] - 1
    if last < 1:
        raise ValueError(f"sequences have {last + 1} frame: pass at least 2 frames")
    if difficulty < 1 or (ordered and difficulty > last):
        raise ValueError(f"invalid difficulty {difficulty}: use 1..{last} for sequences of {last + 1} frames")
    return (frames[:, :-difficulty], frames[:, difficulty:]) if ordered else (frames[:, :1], frames[:, 1:])


def _check_ranks(ranks: Numbers) -> None:
    """Raise ValueError if a rank is outside 1..classes."""
    low, high, classes = ranks.min(), ranks.max(), ranks.shape[-1]
    if low < 1 or high > classes:
        raise ValueError(f"invalid ranks {low}..{high}: use 1..{classes} for {classes} classes")


def _leading_classes(ranks: Numbers) -> Numbers:
    """Return the top-5 lists of (sequences, frames, classes) ranks: class indices in rank order."""
    _check_ranks(ranks)
    flat = ranks.reshape(-1, ranks.shape[-1])
    lists = np.full((len(flat), min(TOP, flat.shape[1])), -1)
    frames, classes = np.nonzero(flat <= TOP)
    lists[frames, flat[frames, classes] - 1] = classes
    if len(frames) != lists.size or (lists < 0).any():
        raise ValueError("ranks have ties or gaps: use ordinal ranks, where each frame contains 1, 2, 3, ... once")
    return lists.reshape(*ranks.shape[:-1], -1)


def _check_lists(planes: Numbers) -> None:
    """Raise ValueError if top-5 lists, given as one plane per rank, are invalid."""
    width, low, high = len(planes), planes.min(), planes.max()
    if width > TOP:
        raise ValueError(f"invalid top-5 lists of {width} classes: pass at most {TOP}")
    if low < 0 or (width < TOP and high >= width):
        allowed = "0 or more" if width == TOP else f"0..{width - 1} in lists of {width}"
        raise ValueError(f"invalid class indices {low}..{high} in top-5 lists: use {allowed}")
    if any((planes[i] == planes[j]).any() for i in range(width) for j in range(i)):
        raise ValueError("top-5 lists contain a class twice: list each class once")


def _logit_rows(logits: ArrayLike) -> Numbers:
    """Return logits reshaped to (N, classes). Raise ValueError if they are invalid."""
    array = np.asarray(logits)
    if not np.issubdtype(array.dtype, np.floating) or array.ndim == 0 or array.shape[-1] == 0:
        raise ValueError(
            f"invalid logits of shape {array.shape} and type {array.dtype}: pass floats of shape (..., classes)"
        )
    return array.reshape(-1, array.shape[-1])


def _order(logits: Numbers) -> Numbers:
    """Return the class indices of each row of (N, classes) logits, in rank order."""
    if np.isnan(logits).any():
        raise ValueError("invalid logits: some are NaN; pass logits that can be sorted")
    if logits.dtype.itemsize > 4:
        return np.argsort(-logits, axis=-1, kind="stable")
    # Pack the negated logit and the class index into one integer. All keys differ, so an unstable sort is enough.
    # As integers, the bits of positive floats sort in ascending order and those of negative floats in descending
    # order. 0 - x maps both zeros to 0.0.
    bits = (np.float32(0) - logits.astype(np.float32)).view(np.int32)
    keys = np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits).astype(np.int64)
    keys <<= 32
    keys |= np.arange(logits.shape[-1])
    keys.sort(axis=-1)
    keys &= 0xFFFFFFFF
    return keys
