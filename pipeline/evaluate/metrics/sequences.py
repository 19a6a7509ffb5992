"""Figures of sequences of frames: ImageNet-P."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from pipeline.evaluate.metrics.checks import Floats, Numbers, check_covers, chunks, fractions, ratio
from pipeline.evaluate.metrics.ranks import TOP


def flip_probability(predictions: ArrayLike, *, ordered: bool, difficulty: int = 1) -> float:
    """Share of compared pairs of frames whose predicted classes differ, 0..1.

    ``predictions``: (S, T) integers. Raises ValueError for another shape or type, and for a difficulty that is not
    1..T-1. Source: ImageNet-P, FP.
    """
    return float(flip_probabilities_by_sequence(predictions, ordered=ordered, difficulty=difficulty).mean())


def flip_probabilities_by_sequence(predictions: ArrayLike, *, ordered: bool, difficulty: int = 1) -> Floats:
    """``flip_probability`` of each sequence, (S,): its mean is that of all."""
    array = _sequences(predictions, "predictions", 2)
    earlier, later = _pairs(array, ordered, difficulty)
    return (earlier != later).mean(axis=1)


def top5_distance(ranks: ArrayLike, *, ordered: bool, difficulty: int = 1) -> float:
    """Mean over pairs of frames of how far the earlier frame's top five classes have moved, 0..15.

    A class that has left the top five counts as sixth, wherever it went. ``ranks``: (S, T, K) integers, for each frame
    1..K each once. Raises ValueError for others, and for a difficulty that is not 1..T-1. Source: ImageNet-P, uT5D.
    """
    return float(top5_distances_by_sequence(ranks, ordered=ordered, difficulty=difficulty).mean())


def top5_distances_by_sequence(ranks: ArrayLike, *, ordered: bool, difficulty: int = 1) -> Floats:
    """``top5_distance`` of each sequence, (S,)."""
    array = _sequences(ranks, "ranks", 3)
    count, frames, classes = array.shape
    lists = np.empty((count, frames, min(TOP, classes)), np.min_scalar_type(classes - 1))
    for part in chunks(count, frames * classes):
        lists[part] = _leading_classes(array[part])
    return top5_distances_of_lists_by_sequence(lists, ordered=ordered, difficulty=difficulty)


def top5_distance_of_lists(top5: ArrayLike, *, ordered: bool, difficulty: int = 1) -> float:
    """``top5_distance`` from the top five classes alone: all ranks beyond the fifth count the same.

    ``top5``: (S, T, 5) class indices in rank order; of fewer than five classes (S, T, K), each class in every list.
    Raises ValueError for another shape or type, negative indices, a class twice in a list, and a bad difficulty.
    """
    return float(top5_distances_of_lists_by_sequence(top5, ordered=ordered, difficulty=difficulty).mean())


def top5_distances_of_lists_by_sequence(top5: ArrayLike, *, ordered: bool, difficulty: int = 1) -> Floats:
    """``top5_distance_of_lists`` of each sequence, (S,)."""
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
    """Mean over pairs of frames of sum over classes of abs(1 / earlier rank - 1 / later rank) / earlier rank.

    ``ranks``: (S, T, K) integers 1..K. Raises ValueError for others, and for a difficulty that is not 1..T-1.
    Source: printed by the evaluation script of ImageNet-P.
    """
    return float(zipf_distances_by_sequence(ranks, ordered=ordered, difficulty=difficulty).mean())


def zipf_distances_by_sequence(ranks: ArrayLike, *, ordered: bool, difficulty: int = 1) -> Floats:
    """``zipf_distance`` of each sequence, (S,)."""
    array = _sequences(ranks, "ranks", 3)
    count, frames, classes = array.shape
    distances = np.empty(count)
    for part in chunks(count, frames * classes):
        _check_ranks(array[part])
        earlier, later = _pairs(1.0 / array[part], ordered, difficulty)
        moved = np.abs(earlier - later)
        distances[part] = np.einsum("stk,stk->s", moved, earlier) / moved.shape[1]
    return distances


def _sequences(values: ArrayLike, name: str, dimensions: int) -> Numbers:
    """Integers of the shape (S, T) or (S, T, K), none of them zero."""
    array = np.asarray(values)
    if not np.issubdtype(array.dtype, np.integer) or array.ndim != dimensions or array.size == 0:
        shape = ("sequences", "frames", "classes")[:dimensions]
        raise ValueError(
            f"{name} of shape {array.shape} and type {array.dtype}; allowed are integers of ({', '.join(shape)})"
        )
    return array


def _pairs(frames: Numbers, ordered: bool, difficulty: int) -> tuple[Numbers, Numbers]:
    """Views of the earlier and later frames that are compared, along axis 1; those of noise broadcast to each other."""
    last = frames.shape[1] - 1
    if last < 1:
        raise ValueError(f"sequences of {last + 1} frame; a pair needs two")
    if difficulty < 1 or (ordered and difficulty > last):
        raise ValueError(f"difficulty {difficulty}; sequences of {last + 1} frames allow 1..{last}")
    return (frames[:, :-difficulty], frames[:, difficulty:]) if ordered else (frames[:, :1], frames[:, 1:])


def _check_ranks(ranks: Numbers) -> None:
    low, high, classes = ranks.min(), ranks.max(), ranks.shape[-1]
    if low < 1 or high > classes:
        raise ValueError(f"ranks {low}..{high}; of {classes} classes 1..{classes} are allowed")


def _leading_classes(ranks: Numbers) -> Numbers:
    """The classes that (S, T, K) ranks put first, (S, T, min(5, K)), in rank order."""
    _check_ranks(ranks)
    flat = ranks.reshape(-1, ranks.shape[-1])
    lists = np.full((len(flat), min(TOP, flat.shape[1])), -1)
    frames, classes = np.nonzero(flat <= TOP)
    lists[frames, flat[frames, classes] - 1] = classes
    if len(frames) != lists.size or (lists < 0).any():
        raise ValueError("ranks with ties or gaps; allowed are ordinal ranks, for each frame 1, 2, 3 ... each once")
    return lists.reshape(*ranks.shape[:-1], -1)


def _check_lists(places: Numbers) -> None:
    """Complains of lists, one plane for each rank, that no ranks can have given."""
    width, low, high = len(places), places.min(), places.max()
    if width > TOP:
        raise ValueError(f"top-5 lists of {width} classes; at most {TOP} are allowed")
    if low < 0 or (width < TOP and high >= width):
        allowed = "0 and more" if width == TOP else f"0..{width - 1} in lists of {width}"
        raise ValueError(f"top-5 lists with class indices {low}..{high}; allowed are {allowed}")
    if any((places[i] == places[j]).any() for i in range(width) for j in range(i)):
        raise ValueError("top-5 lists with a class twice; each class is allowed once in a list")


def mean_flip_rate(flip_probabilities: Mapping[str, float], baseline: Mapping[str, float]) -> float:
    """Mean over the perturbations of flip probability divided by the baseline's, 1 for a model like the baseline.

    Over the ten of the benchmark and by AlexNet this is mFR. Raises ValueError where the baseline lacks a perturbation
    or has zero for it. Source: ImageNet-P.
    """
    fractions(list(flip_probabilities.values()), "flip probabilities")
    return _mean_ratio(flip_probabilities, baseline)


def mean_top5_distance(distances: Mapping[str, float], baseline: Mapping[str, float]) -> float:
    """Mean over the perturbations of top-5 distance divided by the baseline's.

    Over the ten of the benchmark this is mT5D; AlexNet's distances were never published. Raises ValueError where the
    baseline lacks a perturbation or has zero for it. Source: ImageNet-P.
    """
    return _mean_ratio(distances, baseline)


def noise_mean_flip(flip_probabilities: Mapping[str, float]) -> float:
    """Minus the mean of the flip probabilities, -1..0, not normalised. Source: RobustART, NmFP."""
    return -float(fractions(list(flip_probabilities.values()), "flip probabilities").mean())


def _mean_ratio(figures: Mapping[str, float], baseline: Mapping[str, float]) -> float:
    check_covers(figures, baseline)
    return float(np.mean([ratio(figure, baseline[name], name) for name, figure in figures.items()]))
