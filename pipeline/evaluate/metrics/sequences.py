"""Stability over sequences of frames, ImageNet-P: flip probability, top-5 distance and their ratios to a baseline.

Predictions have the shape (S, T): S sequences of T frames. ``ordered`` says whether the frames have an order in time,
which all have but those of the noise perturbations. Each ordered frame is compared with the frame ``difficulty`` before
it, each frame of noise with the first of its sequence; for noise the difficulty lies in the data and the argument
changes nothing. Functions ``..._by_sequence`` return one value for each sequence. A figure is the mean of these, so the
bootstrap draws sequences; ratios and means over perturbations take figures with any leading axes.

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
    """Return FP: the share of compared pairs of frames whose predicted classes differ.

    Args:
        predictions: Predicted classes, integers (sequences, frames).
        ordered: Whether the frames have an order in time; False for noise.
        difficulty: Distance of compared frames, 1..frames - 1.

    Returns:
        FP, 0..1.

    Raises:
        ValueError: For another shape or type, and for a difficulty out of range.
    """
    return float(flip_probabilities_by_sequence(predictions, ordered=ordered, difficulty=difficulty).mean())


def flip_probabilities_by_sequence(predictions: ArrayLike, *, ordered: bool, difficulty: int = 1) -> Floats:
    """Return the ``flip_probability`` of each sequence, (sequences,)."""
    array = _sequences(predictions, "predictions", 2)
    earlier, later = _pairs(array, ordered, difficulty)
    return (earlier != later).mean(axis=1)


def top5_distance(ranks: ArrayLike, *, ordered: bool, difficulty: int = 1) -> float:
    """Return uT5D: how far the earlier frame's top five classes move, as a mean over compared pairs of frames.

    A class that leaves the top five counts as sixth, wherever it goes.

    Args:
        ranks: Integers (sequences, frames, classes), in each frame 1..classes once each (see ``ordinal_ranks``).
        ordered: Whether the frames have an order in time; False for noise.
        difficulty: Distance of compared frames, 1..frames - 1.

    Returns:
        uT5D, 0..15.

    Raises:
        ValueError: For other shapes, types and ranks, and for a difficulty out of range.
    """
    return float(top5_distances_by_sequence(ranks, ordered=ordered, difficulty=difficulty).mean())


def top5_distances_by_sequence(ranks: ArrayLike, *, ordered: bool, difficulty: int = 1) -> Floats:
    """Return the ``top5_distance`` of each sequence, (sequences,)."""
    array = _sequences(ranks, "ranks", 3)
    count, frames, classes = array.shape
    lists = np.empty((count, frames, min(TOP, classes)), np.min_scalar_type(classes - 1))
    for part in row_slices(count, frames * classes):
        lists[part] = _leading_classes(array[part])
    return top5_distances_of_lists_by_sequence(lists, ordered=ordered, difficulty=difficulty)


def top5_distances_of_lists_by_sequence(top5: ArrayLike, *, ordered: bool, difficulty: int = 1) -> Floats:
    """Return the ``top5_distance`` of each sequence from its top five classes alone.

    Args:
        top5: Class indices in rank order, integers (sequences, frames, 5); for fewer than five classes
            (sequences, frames, classes) with each class in every list.
        ordered: Whether the frames have an order in time; False for noise.
        difficulty: Distance of compared frames, 1..frames - 1.

    Returns:
        Distances 0..15, (sequences,).

    Raises:
        ValueError: For other shapes and types, negative indices, a class twice in a list, and a difficulty out of
            range.
    """
    array = _sequences(top5, "top-5 lists", 3)
    width = array.shape[2]
    places = np.ascontiguousarray(np.moveaxis(array, 2, 0))  # (5, S, T): one plane for each rank
    _check_lists(places)
    earlier, later = zip(*(_pairs(plane, ordered, difficulty) for plane in places), strict=True)
    pairs = np.broadcast_shapes(earlier[0].shape, later[0].shape)[1]
    total = np.full(len(array), pairs * sum(TOP - i for i in range(width)), np.int64)  # as if all had left the five
    for i in range(width):
        for j in range(width):
            stayed = np.count_nonzero(earlier[i] == later[j], axis=1)
            total += stayed * (abs(j - i) - (TOP - i))
    return total / pairs


def zipf_distance(ranks: ArrayLike, *, ordered: bool, difficulty: int = 1) -> float:
    """Return the mean over pairs of frames of sum over classes of abs(1 / earlier - 1 / later rank) / earlier rank.

    The evaluation script of ImageNet-P prints it beside the published figures.

    Args:
        ranks: Integers 1..classes, (sequences, frames, classes).
        ordered: Whether the frames have an order in time; False for noise.
        difficulty: Distance of compared frames, 1..frames - 1.

    Returns:
        The distance, 0 or more.

    Raises:
        ValueError: For other shapes, types and ranks, and for a difficulty out of range.
    """
    return float(zipf_distances_by_sequence(ranks, ordered=ordered, difficulty=difficulty).mean())


def zipf_distances_by_sequence(ranks: ArrayLike, *, ordered: bool, difficulty: int = 1) -> Floats:
    """Return the ``zipf_distance`` of each sequence, (sequences,)."""
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
    """Return FR: a flip probability divided by the baseline's.

    Args:
        flip_probability: Fractions 0..1, a number or (...).
        baseline: The baseline's flip probability under the same perturbation.

    Returns:
        FR (...), 1 for the baseline itself.

    Raises:
        ValueError: For numbers outside 0..1 and a baseline of zero.
    """
    return ratio(fractions(flip_probability, "flip probabilities", axes=0), baseline, "the flip probability")


def mean_flip_rate(flip_probabilities: Mapping[str, ArrayLike], baseline: Mapping[str, float]) -> Figures:
    """Return the mean of ``flip_rate``; over the benchmark's ten perturbations and AlexNet's figures this is mFR.

    Args:
        flip_probabilities: Perturbation -> fractions 0..1, numbers or (...).
        baseline: Perturbation -> the baseline's flip probability, at least for those in ``flip_probabilities``.

    Returns:
        mFR (...), 1 for the baseline itself.

    Raises:
        ValueError: For no perturbation, numbers outside 0..1, and a perturbation that the baseline lacks or has zero
            for.
    """
    return mean_ratio(_flip_probabilities(flip_probabilities), baseline)


def negative_mean_flip_probability(flip_probabilities: Mapping[str, ArrayLike]) -> Figures:
    """Return NmFP: minus the mean of the flip probabilities, not normalised, larger is better.

    Args:
        flip_probabilities: Perturbation -> fractions 0..1, numbers or (...).

    Returns:
        NmFP (...), -1..0.

    Raises:
        ValueError: For no perturbation and numbers outside 0..1.

    Source: RobustART, arXiv 2109.05211.
    """
    return -mean_over_transforms(_flip_probabilities(flip_probabilities))


def top5_ratio(distance: ArrayLike, baseline: float) -> Figures:
    """Return T5D: a top-5 distance divided by the baseline's.

    Args:
        distance: uT5D, a number or (...).
        baseline: The baseline's uT5D under the same perturbation.

    Returns:
        T5D (...), 1 for the baseline itself.

    Raises:
        ValueError: For numbers that are not finite and a baseline of zero.
    """
    return ratio(distance, baseline, "the top-5 distance")


def mean_top5_distance(distances: Mapping[str, ArrayLike], baseline: Mapping[str, float]) -> Figures:
    """Return the mean of ``top5_ratio``; over the benchmark's ten perturbations this is mT5D.

    AlexNet's distances were never published, so this needs a baseline that was evaluated.

    Args:
        distances: Perturbation -> uT5D, numbers or (...).
        baseline: Perturbation -> the baseline's uT5D, at least for those in ``distances``.

    Returns:
        mT5D (...), 1 for the baseline itself.

    Raises:
        ValueError: For no perturbation, numbers that are not finite, and a perturbation that the baseline lacks or has
            zero for.
    """
    return mean_ratio(distances, baseline)


def _flip_probabilities(figures: Mapping[str, ArrayLike]) -> dict[str, Floats]:
    """Return figures by perturbation as arrays. Raises ValueError for numbers outside 0..1."""
    return {name: fractions(figure, f"flip probabilities of {name}", axes=0) for name, figure in figures.items()}


def _sequences(values: ArrayLike, name: str, dimensions: int) -> Numbers:
    """Return integers of the shape (S, T) or (S, T, K), of which no axis is empty."""
    array = np.asarray(values)
    if not np.issubdtype(array.dtype, np.integer) or array.ndim != dimensions or array.size == 0:
        shape = ("sequences", "frames", "classes")[:dimensions]
        raise ValueError(
            f"invalid {name} of shape {array.shape} and type {array.dtype}: pass integers of shape ({', '.join(shape)})"
        )
    return array


def _pairs(frames: Numbers, ordered: bool, difficulty: int) -> tuple[Numbers, Numbers]:
    """Return views of the earlier and later frames of all pairs, along axis 1; without order the two broadcast."""
    last = frames.shape[1] - 1
    if last < 1:
        raise ValueError(f"sequences of {last + 1} frame: pass at least two frames")
    if difficulty < 1 or (ordered and difficulty > last):
        raise ValueError(f"invalid difficulty {difficulty}: sequences of {last + 1} frames allow 1..{last}")
    return (frames[:, :-difficulty], frames[:, difficulty:]) if ordered else (frames[:, :1], frames[:, 1:])


def _check_ranks(ranks: Numbers) -> None:
    """Raise ValueError for ranks outside 1..classes."""
    low, high, classes = ranks.min(), ranks.max(), ranks.shape[-1]
    if low < 1 or high > classes:
        raise ValueError(f"invalid ranks {low}..{high}: use 1..{classes} for {classes} classes")


def _leading_classes(ranks: Numbers) -> Numbers:
    """Return the classes with the first five of (S, T, K) ranks, (S, T, min(5, K)), in rank order."""
    _check_ranks(ranks)
    flat = ranks.reshape(-1, ranks.shape[-1])
    lists = np.full((len(flat), min(TOP, flat.shape[1])), -1)
    frames, classes = np.nonzero(flat <= TOP)
    lists[frames, flat[frames, classes] - 1] = classes
    if len(frames) != lists.size or (lists < 0).any():
        raise ValueError("ranks with ties or gaps: use ordinal ranks, each of 1, 2, 3 ... once in a frame")
    return lists.reshape(*ranks.shape[:-1], -1)


def _check_lists(places: Numbers) -> None:
    """Raise ValueError for lists, one plane for each rank, that follow from no ranks."""
    width, low, high = len(places), places.min(), places.max()
    if width > TOP:
        raise ValueError(f"invalid top-5 lists of {width} classes: pass at most {TOP}")
    if low < 0 or (width < TOP and high >= width):
        allowed = "0 and more" if width == TOP else f"0..{width - 1} in lists of {width}"
        raise ValueError(f"invalid class indices {low}..{high} in top-5 lists: use {allowed}")
    if any((places[i] == places[j]).any() for i in range(width) for j in range(i)):
        raise ValueError("top-5 lists with a class twice: list each class once")
