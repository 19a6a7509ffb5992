"""The figures of the benchmarks as functions of arrays: no model, no file, no other state.

Errors, accuracies and probabilities are fractions, 0..1; what is shown in percent is multiplied by whoever shows it.
Sequences have the shape (S, T): S sequences of T frames. ``ordered`` says whether the frames have an order in time: it
is True but for the noise perturbations. Ordered frames are compared with the frame ``difficulty`` before them, frames
of noise with the first of their sequence (there the difficulty lies in the data, and the argument changes nothing).

Sources: Hendrycks and Dietterich (ICLR 2019, arXiv 1903.12261) for ImageNet-C and ImageNet-P; Hendrycks et al. (CVPR
2021, arXiv 1907.07174) for ImageNet-O; Tang et al., RobustART (arXiv 2109.05211) for NmFP and NSD; ARES-Bench (arXiv
2302.14301) for robustness curves; Laugros et al. (arXiv 2107.12052) for residual robustness and correlation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[Any]
Floats = NDArray[np.float64]
Errors = Sequence[float] | Floats
"""One error rate for each severity."""

TOP = 5
"""Ranks that the top-5 distance looks at."""

CHUNK_VALUES = 2**22
"""Values worked on at a time, which bounds the memory."""


# Ranks


def ordinal_ranks(logits: ArrayLike) -> Numbers:
    """The rank of every class, 1 for the largest logit; of equal logits the class with the lower index comes first.

    (..., K) floating point, larger is likelier -> (..., K), the smallest unsigned integers that hold K.
    Raises ValueError for another type, for no class and for NaN.
    """
    rows = _logit_rows(logits)
    classes = rows.shape[-1]
    ranks = np.empty(rows.shape, np.min_scalar_type(classes))
    rising = np.arange(1, classes + 1, dtype=ranks.dtype)[None]
    for part in chunks(len(rows), classes):
        np.put_along_axis(ranks[part], _order(rows[part]), rising, axis=-1)
    return ranks.reshape(np.shape(logits))


def top5_lists(logits: ArrayLike) -> Numbers:
    """The classes of the five largest logits in rank order; of equal logits the lower index comes first.

    (..., K) floating point -> (..., min(5, K)), the smallest unsigned integers that hold K - 1.
    Raises ValueError as ``ordinal_ranks``.
    """
    rows = _logit_rows(logits)
    classes = rows.shape[-1]
    width = min(TOP, classes)
    lists = np.empty((len(rows), width), np.min_scalar_type(classes - 1))
    for part in chunks(len(rows), classes):
        lists[part] = _order(rows[part])[:, :width]
    return lists.reshape(*np.shape(logits)[:-1], width)


def _logit_rows(logits: ArrayLike) -> Numbers:
    """Logits as (N, K)."""
    array = np.asarray(logits)
    if not np.issubdtype(array.dtype, np.floating) or array.ndim == 0 or array.shape[-1] == 0:
        raise ValueError(f"logits of shape {array.shape} and type {array.dtype}; allowed are floats of (..., classes)")
    return array.reshape(-1, array.shape[-1])


def _order(logits: Numbers) -> Numbers:
    """The class indices of (N, K) logits in rank order."""
    if np.isnan(logits).any():
        raise ValueError("logits with NaN, which has no rank")
    if logits.dtype.itemsize > 4:
        return np.argsort(-logits, axis=-1, kind="stable")
    # Negated logit and index in one integer: no two are equal, so NumPy's fastest sort, which is not stable, will do.
    # A float's bits rise with its value, but fall among the negative; 0 - x has no negative zero, which equals zero.
    bits = (np.float32(0) - logits.astype(np.float32)).view(np.int32)
    keys = np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits).astype(np.int64)
    keys <<= 32
    keys |= np.arange(logits.shape[-1])
    keys.sort(axis=-1)
    keys &= 0xFFFFFFFF
    return keys


# ImageNet-P


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
    _fractions(list(flip_probabilities.values()), "flip probabilities")
    return _mean_ratio(flip_probabilities, baseline)


def mean_top5_distance(distances: Mapping[str, float], baseline: Mapping[str, float]) -> float:
    """Mean over the perturbations of top-5 distance divided by the baseline's.

    Over the ten of the benchmark this is mT5D; AlexNet's distances were never published. Raises ValueError where the
    baseline lacks a perturbation or has zero for it. Source: ImageNet-P.
    """
    return _mean_ratio(distances, baseline)


def noise_mean_flip(flip_probabilities: Mapping[str, float]) -> float:
    """Minus the mean of the flip probabilities, -1..0, not normalised. Source: RobustART, NmFP."""
    return -float(_fractions(list(flip_probabilities.values()), "flip probabilities").mean())


def _mean_ratio(figures: Mapping[str, float], baseline: Mapping[str, float]) -> float:
    _check_covers(figures, baseline)
    return float(np.mean([_ratio(figure, baseline[name], name) for name, figure in figures.items()]))


# ImageNet-C


def corruption_error(errors: Errors, baseline: Errors) -> float:
    """Sum over severities of the error divided by the sum of the baseline's, 1 for a model like the baseline.

    ``errors``, ``baseline``: error rates at the same severities, 0..1. Raises ValueError for other values, for
    different lengths and for a baseline without errors. Source: ImageNet-C, CE.
    """
    return relative_corruption_error(errors, 0.0, baseline, 0.0)


def relative_corruption_error(errors: Errors, clean: float, baseline: Errors, baseline_clean: float) -> float:
    """As ``corruption_error``, of what each error is above the error on clean images.

    Negative for a model that gains by the corruption. Raises ValueError also for a baseline that loses nothing by the
    corruption. Source: ImageNet-C, relative CE.
    """
    above = _fractions(errors, "errors") - _fractions([clean], "the clean error")
    baseline_above = _fractions(baseline, "the baseline's errors") - _fractions([baseline_clean], "its clean error")
    if len(above) != len(baseline_above):
        raise ValueError(
            f"errors at {len(above)} severities, the baseline's at {len(baseline_above)}; both need the same"
        )
    return _ratio(above.sum(), baseline_above.sum(), "the errors")


def mean_corruption_error(errors: Mapping[str, Errors], baseline: Mapping[str, Errors]) -> float:
    """Mean of ``corruption_error`` over the corruptions in ``errors``.

    Over the 15 of the benchmark and by AlexNet this is mCE. Raises ValueError where the baseline lacks a corruption.
    Source: ImageNet-C.
    """
    return relative_mean_corruption_error(errors, 0.0, baseline, 0.0)


def relative_mean_corruption_error(
    errors: Mapping[str, Errors], clean: float, baseline: Mapping[str, Errors], baseline_clean: float
) -> float:
    """Mean of ``relative_corruption_error`` over the corruptions in ``errors``. Source: ImageNet-C, relative mCE."""
    _check_covers(errors, baseline)
    ratios = [relative_corruption_error(row, clean, baseline[name], baseline_clean) for name, row in errors.items()]
    return float(np.mean(ratios))


def unnormalised_mean_error(errors: Mapping[str, Errors]) -> float:
    """Mean over corruptions of the mean over severities, 0..1: show it as "mean corruption error (unnormalised)".

    It is no mCE, which is relative to a baseline. Raises ValueError for no corruption and for values beyond 0..1.
    """
    return float(_fractions([_fractions(row, name).mean() for name, row in errors.items()], "mean errors").mean())


# Figures of RobustART, ARES-Bench, ImageNet-O and Laugros et al.


def normalised_standard_deviation(accuracies: Sequence[float] | Floats) -> float:
    """Minus the population standard deviation of accuracies under different preparations, in percentage points, -50..0.

    ``accuracies``: fractions, 0..1. Raises ValueError for others. Source: RobustART, ImageNet-S, NSD.
    """
    return -100 * float(_fractions(accuracies, "accuracies").std())


def residual_robustness(clean_accuracy: float, corrupted_accuracy: float) -> float:
    """The accuracy that a corruption takes, -1..1: smaller is better. Raises ValueError beyond 0..1.

    Source: Laugros et al.
    """
    clean, corrupted = _fractions([clean_accuracy, corrupted_accuracy], "accuracies")
    return float(clean - corrupted)


def robustness_curve(accuracies: Mapping[str, Sequence[float] | Floats]) -> Floats:
    """Accuracy against severity, (severities,): the mean over the corruptions, 0..1.

    Raises ValueError for values beyond 0..1 and for corruptions with different numbers of severities.
    Source: ARES-Bench.
    """
    rows = [_fractions(row, name) for name, row in accuracies.items()]
    lengths = sorted({len(row) for row in rows})
    if len(lengths) != 1:
        raise ValueError(
            f"{len(rows)} corruptions with {lengths} severities; allowed are one or more with as many each"
        )
    return np.mean(rows, axis=0)


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


def correlation_of_benchmarks(first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> float:
    """Pearson correlation of two benchmarks' figures for the same models, -1..1.

    (M,) each, in one order of models. Raises ValueError for different shapes, for what is not finite, and where a
    benchmark gives all models the same figure. Source: Laugros et al.
    """
    pair = [np.asarray(first, np.float64), np.asarray(second, np.float64)]
    if pair[0].ndim != 1 or pair[0].shape != pair[1].shape or not np.isfinite(pair).all():
        raise ValueError(f"figures of shapes {pair[0].shape} and {pair[1].shape}; allowed are finite (models,) twice")
    if any(len(figures) < 2 or np.ptp(figures) == 0 for figures in pair):
        raise ValueError("a benchmark with one figure for all models; a correlation needs at least two")
    deviations = [(figures - figures.mean()) / figures.std() for figures in pair]
    return float(np.clip(np.mean(deviations[0] * deviations[1]), -1, 1))


# What the figures share


def chunks(rows: int, values_each: int) -> Iterator[slice]:
    """Slices of the first axis that bound the values worked on at a time."""
    step = max(CHUNK_VALUES // values_each, 1)
    return (slice(start, start + step) for start in range(0, rows, step))


def _fractions(values: Sequence[float] | Floats, name: str) -> Floats:
    array = np.asarray(values, np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} of shape {array.shape}; allowed is a row of at least one number")
    if not ((array >= 0) & (array <= 1)).all():
        raise ValueError(f"{name} {array.min()}..{array.max()}; fractions 0..1 are allowed, not percent")
    return array


def _ratio(figure: float, baseline: float, name: str) -> float:
    if not (np.isfinite(figure) and np.isfinite(baseline) and baseline > 0):
        raise ValueError(
            f"{figure} over a baseline of {baseline} for {name}; allowed are finite ones, the latter above 0"
        )
    return float(figure / baseline)


def _check_covers(figures: Mapping[str, object], baseline: Mapping[str, object]) -> None:
    missing = [name for name in figures if name not in baseline]
    if not figures:
        raise ValueError("no figures; a mean is taken over at least one")
    if missing:
        raise ValueError(f"the baseline lacks {', '.join(missing)}; it has {', '.join(baseline) or 'nothing'}")
