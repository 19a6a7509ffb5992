"""Stability metrics of ImageNet-P: flip probability, top-5 distance, and their ratios to a baseline.

Predictions have the shape (sequences, frames). The frames of all perturbations except noise are ordered in time: each
frame is compared with the frame ``difficulty`` frames before it. Frames of noise are not ordered: each is compared with
the first frame of its sequence, and ``difficulty`` is ignored, since it is already part of the data. Functions named
``..._by_sequence`` return one value per sequence, which the bootstrap draws from; the metric is their mean. Ratios, and
means over perturbations, accept any leading axes.

Source: Hendrycks and Dietterich, ICLR 2019, arXiv 1903.12261.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from pipeline.evaluate.metrics.checks import Figures, Floats, Numbers, fractions
from pipeline.evaluate.metrics.means import mean_over_transforms, mean_ratio, ratio
from pipeline.evaluate.metrics.ranks import TOP
from pipeline.evaluate.metrics.slices import row_slices


def flip_probability(predictions: ArrayLike, *, ordered: bool, difficulty: int = 1) -> float:
    """Return FP: the fraction of compared frame pairs whose predicted classes differ.

    Args:
        predictions: Predicted classes, integers of shape (sequences, frames).
        ordered: Whether the frames are ordered in time. False for noise perturbations.
        difficulty: Distance between the two frames of a pair, 1..frames - 1. Ignored if ``ordered`` is False.

    Returns:
        FP 0..1.

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
    """Return uT5D: the mean over frame pairs of how many ranks the earlier frame's top-5 classes move.

    A class that leaves the top five is counted as rank 6.

    Args:
        ranks: Integers of shape (sequences, frames, classes). Each frame contains each of 1..classes once (see
            ``ordinal_ranks``).
        ordered: Whether the frames are ordered in time. False for noise perturbations.
        difficulty: Distance between the two frames of a pair, 1..frames - 1. Ignored if ``ordered`` is False.

    Returns:
        uT5D 0..15.

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
    """Return the top-5 distance of each sequence, computed from top-5 lists instead of ranks.

    Args:
        top5: Class indices in rank order, integers of shape (sequences, frames, 5). With fewer than five classes, the
            shape is (sequences, frames, classes) and each list contains all classes.
        ordered: Whether the frames are ordered in time. False for noise perturbations.
        difficulty: Distance between the two frames of a pair, 1..frames - 1. Ignored if ``ordered`` is False.

    Returns:
        Distances 0..15 of shape (sequences,).

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
    of ImageNet-P prints this metric next to the published ones.

    Args:
        ranks: Ranks 1..classes, integers of shape (sequences, frames, classes).
        ordered: Whether the frames are ordered in time. False for noise perturbations.
        difficulty: Distance between the two frames of a pair, 1..frames - 1. Ignored if ``ordered`` is False.

    Returns:
        The distance, at least 0.

    Raises:
        ValueError: If the shape or dtype is wrong, a rank is out of range, or ``difficulty`` is out of range.
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


def flip_rate(flip_probability: ArrayLike, baseline: float) -> Figures:
    """Return FR: a flip probability divided by that of the baseline.

    Args:
        flip_probability: Flip probability 0..1, a number or an array of shape (...).
        baseline: Flip probability of the baseline under the same perturbation, above 0.

    Returns:
        FR of shape (...), 1 for the baseline itself.

    Raises:
        ValueError: If a value is outside 0..1, or the baseline is 0.
    """
    return ratio(fractions(flip_probability, "flip probabilities", axes=0), baseline, "the flip probability")


def mean_flip_rate(flip_probabilities: Mapping[str, ArrayLike], baseline: Mapping[str, float]) -> Figures:
    """Return mFR: the mean of ``flip_rate`` over perturbations.

    The published mFR uses the ten benchmark perturbations and AlexNet's flip probabilities.

    Args:
        flip_probabilities: Mapping from perturbation to flip probabilities 0..1, numbers or arrays of shape (...).
        baseline: Mapping from perturbation to the flip probability of the baseline. It must contain every perturbation
            in ``flip_probabilities``.

    Returns:
        mFR of shape (...), 1 for the baseline itself.

    Raises:
        ValueError: If there are no perturbations, a value is outside 0..1, or the baseline is missing or 0 for a
            perturbation.
    """
    return mean_ratio(_flip_probabilities(flip_probabilities), baseline)


def negative_mean_flip_probability(flip_probabilities: Mapping[str, ArrayLike]) -> Figures:
    """Return NmFP: the negated mean flip probability, without normalisation. Larger is better.

    Args:
        flip_probabilities: Mapping from perturbation to flip probabilities 0..1, numbers or arrays of shape (...).

    Returns:
        NmFP -1..0 of shape (...).

    Raises:
        ValueError: If there are no perturbations or a value is outside 0..1.

    Source: RobustART, arXiv 2109.05211.
    """
    return -mean_over_transforms(_flip_probabilities(flip_probabilities))


def top5_ratio(distance: ArrayLike, baseline: float) -> Figures:
    """Return T5D: a top-5 distance divided by that of the baseline.

    Args:
        distance: uT5D, a number or an array of shape (...).
        baseline: uT5D of the baseline under the same perturbation, above 0.

    Returns:
        T5D of shape (...), 1 for the baseline itself.

    Raises:
        ValueError: If a value is not finite, or the baseline is 0.
    """
    return ratio(distance, baseline, "the top-5 distance")


def mean_top5_distance(distances: Mapping[str, ArrayLike], baseline: Mapping[str, float]) -> Figures:
    """Return mT5D: the mean of ``top5_ratio`` over perturbations.

    AlexNet's top-5 distances were never published, so the baseline must be evaluated first.

    Args:
        distances: Mapping from perturbation to uT5D, numbers or arrays of shape (...).
        baseline: Mapping from perturbation to uT5D of the baseline. It must contain every perturbation in
            ``distances``.

    Returns:
        mT5D of shape (...), 1 for the baseline itself.

    Raises:
        ValueError: If there are no perturbations, a value is not finite, or the baseline is missing or 0 for a
            perturbation.
    """
    return mean_ratio(distances, baseline)


def _flip_probabilities(figures: Mapping[str, ArrayLike]) -> dict[str, Floats]:
    """Return flip probabilities as arrays. Raise ValueError if a value is outside 0..1."""
    return {name: fractions(figure, f"flip probabilities of {name}", axes=0) for name, figure in figures.items()}


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
