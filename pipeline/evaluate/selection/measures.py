"""Choice of corruptions for a benchmark: overlaps, categories, balanced benchmarks, and what they predict.

Corruptions are indices 0..C-1, benchmarks tuples of indices in ascending order, and categories tuples of indices, too.

Source: Laugros et al., BMVC 2021, arXiv 2107.12052.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.evaluate.metrics import residual_robustness
from pipeline.evaluate.metrics.arrays import Floats, fractions

Indices = tuple[int, ...]
"""Indices of corruptions: a benchmark, or a category."""

STARTS, ROUNDS = 100, 1000
"""Number of starts of k-means, and maximum number of rounds of each."""

ROUNDS_AT_ONCE = 3
"""Number of rounds between two checks whether the centres still move."""

MIN_MODELS = 3
"""Smallest number of models for a correlation: any two models are perfectly correlated."""

NO_SPREAD = 1e-12
"""Largest difference between equal values, for rounding errors of differences of accuracies."""


# Overlaps and categories


def overlap_scores(accuracies: ArrayLike, normalised: bool = True) -> Floats:
    """Return how much training with one corruption helps against another, relative to training with that other.

    Args:
        accuracies: Accuracies 0..1 of shape (C + 1, C + 1) of models of one architecture. Rows: the model trained on
            clean images, then those trained with each corruption. Columns: clean images, then each corruption.
        normalised: Whether to divide accuracies by the clean accuracy of the model, as in the paper; the released
            script does not.

    Returns:
        Overlaps of shape (C, C): symmetric, 1 on the diagonal, 0 or more, and usually at most 1.

    Raises:
        ValueError: If the shape is wrong, a value is outside 0..1, a clean accuracy is 0, or training with a corruption
            does not change the accuracy under it.
    """
    table = fractions(accuracies, "accuracies", axes=2)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or len(table) < 2:
        raise ValueError(
            f"invalid accuracies of shape {table.shape}: pass (C + 1, C + 1), the clean model and clean images first"
        )
    if normalised:
        if not table[:, 0].all():
            raise ValueError("a clean accuracy is 0, so accuracies cannot be divided by it: pass normalised=False")
        table = table / table[:, :1]
    gains = table[1:, 1:] - table[0, 1:]
    own = np.diagonal(gains)
    if (unchanged := np.flatnonzero(np.abs(own) <= NO_SPREAD)).size:
        raise ValueError(
            f"training with corruption {unchanged[0]} does not change the accuracy under it, so its overlaps are "
            "undefined: leave it out"
        )
    relative = gains / own
    overlaps = np.maximum(0, (relative + relative.T) / 2)
    np.fill_diagonal(overlaps, 1)
    return overlaps


def categories(
    overlaps: ArrayLike, threshold: float = 0.5, seed: int = 0, on_count: Callable[[int], None] = lambda count: None
) -> tuple[Indices, ...]:
    """Return groups of corruptions with similar overlaps, by k-means with as few groups as reach a threshold.

    Args:
        overlaps: Overlap scores of shape (C, C).
        threshold: Correlation -1..1 that the first value of ``category_correlations`` must exceed.
        seed: Seed of the starts of k-means.
        on_count: Called with each number of categories before it is tried.

    Returns:
        At least two categories, in the order of their first corruptions.

    Raises:
        ValueError: If the overlaps are invalid, or no number of categories 2..C-1 reaches the threshold.
    """
    vectors = _vectors(overlaps)
    correlations = _correlations(vectors)
    most = min(len(vectors) - 1, len(np.unique(vectors, axis=0)))
    for count in range(2, most + 1):
        if _highest_mean(correlations, count) <= threshold:
            continue
        on_count(count)
        found = _k_means(vectors, count, np.random.default_rng([seed, count]))
        if _mean_correlations(correlations, found)[0] > threshold:
            return found
    raise ValueError(
        f"no number of categories 2..{most} of {len(vectors)} corruptions has a mean correlation above {threshold}: "
        "use a lower threshold"
    )


def category_correlations(overlaps: ArrayLike, categories: Sequence[Sequence[int]]) -> tuple[float, float]:
    """Return the mean Pearson correlations between the overlaps of corruptions of the same and of different categories.

    Args:
        overlaps: Overlap scores of shape (C, C). Other vectors of corruptions, (C, D), are allowed as well.
        categories: Categories of corruptions 0..C-1.

    Returns:
        Means -1..1 over all pairs of the same category, and over all pairs of different categories; NaN if there are no
        such pairs.

    Raises:
        ValueError: If the values or the categories are invalid, or all values of a corruption are equal.
    """
    vectors = _vectors(overlaps, square=False)
    _category_of(categories, len(vectors))
    return _mean_correlations(_correlations(vectors), categories)


def _vectors(overlaps: ArrayLike, square: bool = True) -> Floats:
    """Return overlaps as float64, (C, D). Raise ValueError if they are invalid."""
    vectors = np.asarray(overlaps, np.float64)
    if vectors.ndim != 2 or len(vectors) < 2 or (square and vectors.shape[0] != vectors.shape[1]):
        raise ValueError(f"invalid overlaps of shape {vectors.shape}: pass (C, C) for at least two corruptions")
    if not np.isfinite(vectors).all():
        raise ValueError("invalid overlaps: some are NaN or infinite")
    return vectors


def _correlations(vectors: Floats) -> Floats:
    """Return the Pearson correlations of rows, (C, C). Raise ValueError if all values of a row are equal."""
    if (constant := np.flatnonzero(np.ptp(vectors, axis=1) <= NO_SPREAD)).size:
        raise ValueError(f"all values of corruption {constant[0]} are equal, so it has no correlation: leave it out")
    return np.atleast_2d(np.corrcoef(vectors))


def _highest_mean(correlations: Floats, count: int) -> float:
    """Return an upper limit of the mean correlation within ``count`` categories: that of the most similar pairs."""
    size, larger = divmod(len(correlations), count)
    pairs = count * comb(size, 2) + larger * size  # the fewest, of categories of equal size
    similar = np.sort(correlations[np.triu_indices(len(correlations), 1)])[::-1]
    return float(similar[:pairs].mean())


def _mean_correlations(correlations: Floats, categories: Sequence[Sequence[int]]) -> tuple[float, float]:
    same = np.zeros(correlations.shape, bool)
    for members in categories:
        same[np.ix_(members, members)] = True
    known = np.isin(np.arange(len(same)), [each for members in categories for each in members])
    pairs = np.triu(np.outer(known, known), 1)
    means = [correlations[pairs & of_kind] for of_kind in (same, ~same)]
    first, second = (float(each.mean()) if each.size else float("nan") for each in means)
    return first, second


def _k_means(vectors: Floats, count: int, rng: np.random.Generator) -> tuple[Indices, ...]:
    """Return the categories of the best of ``STARTS`` starts of k-means, by squared distances to the centres."""
    from scipy.cluster.vq import ClusterError
    from scipy.spatial.distance import cdist

    distances = cdist(vectors, vectors, "sqeuclidean")
    best, least = None, np.inf
    for _ in range(STARTS):
        try:
            centres, labels = _one_k_means(vectors, vectors[_starting_centres(distances, count, rng)])
        except ClusterError:  # a category became empty: other starts are better
            continue
        distance = np.square(vectors - centres[labels]).sum()
        if distance < least:
            best, least = labels, distance
    if best is None:
        raise ValueError(f"k-means finds no {count} categories of {len(vectors)} corruptions: use a lower threshold")
    groups = (np.flatnonzero(best == label).tolist() for label in range(count))
    return tuple(sorted(tuple(group) for group in groups if group))


def _starting_centres(distances: Floats, count: int, rng: np.random.Generator) -> list[int]:
    """Return the vectors that k-means++ starts from, as SciPy does, which computes all distances for each one."""
    chosen = [int(rng.integers(len(distances)))]
    nearest = distances[chosen[0]]
    while len(chosen) < count:
        chosen.append(int(np.searchsorted((nearest / nearest.sum()).cumsum(), rng.uniform())))
        nearest = np.minimum(nearest, distances[chosen[-1]])
    return chosen


def _one_k_means(vectors: Floats, start: Floats) -> tuple[Floats, NDArray[np.int32]]:
    """Return centres and labels of one start of k-means. SciPy has no test for centres that no longer move."""
    from scipy.cluster.vq import kmeans2

    centres, labels = kmeans2(vectors, start, iter=1, minit="matrix", missing="raise")
    for _ in range(ROUNDS // ROUNDS_AT_ONCE):
        moved, labels = kmeans2(vectors, centres, iter=ROUNDS_AT_ONCE, minit="matrix", missing="raise")
        if np.array_equal(moved, centres):
            break
        centres = moved
    return centres, labels


# Benchmarks


def balanced_benchmark(categories: Sequence[Sequence[int]], n: int, k: int, rng: np.random.Generator) -> Indices:
    """Return a random benchmark of n categories with k corruptions of each (Algorithm 1 of the paper).

    Args:
        categories: Categories of corruptions. Those with fewer than ``k`` corruptions are not chosen.
        n: Number of categories, at least 1.
        k: Number of corruptions of each, at least 1.
        rng: Source of random numbers.

    Raises:
        ValueError: If a number is below 1, or fewer than ``n`` categories have ``k`` corruptions.
    """
    large = [members for members in categories if len(members) >= k]
    if n < 1 or k < 1 or len(large) < n:
        sizes = ", ".join(str(len(members)) for members in categories)
        raise ValueError(
            f"invalid benchmark of {n} categories with {k} corruptions each: {len(large)} of the categories, which "
            f"have {sizes or 'no'} corruptions, are large enough"
        )
    chosen = rng.choice(len(large), n, replace=False)
    return tuple(sorted(int(each) for index in chosen for each in rng.choice(large[index], k, replace=False)))


def spread(benchmark: Sequence[int], categories: Sequence[Sequence[int]]) -> float:
    """Return how unevenly a benchmark represents categories.

    Args:
        benchmark: Corruptions.
        categories: Categories of corruptions, which include all of the benchmark's.

    Returns:
        Population standard deviation of the numbers of corruptions in each category that the benchmark represents: 0 if
        it is balanced.

    Raises:
        ValueError: If the benchmark is empty, or a corruption is in no category or in several.
    """
    category_of = _category_of(categories)
    _check_members(benchmark, category_of)
    return float(np.std(list(Counter(category_of[each] for each in benchmark).values())))


def substituted(benchmark: Sequence[int], categories: Sequence[Sequence[int]], rng: np.random.Generator) -> Indices:
    """Return a benchmark in which a random corruption is replaced by another one, so that the spread grows.

    The represented categories stay the same.

    Args:
        benchmark: Corruptions.
        categories: Categories of corruptions, which include all of the benchmark's.
        rng: Source of random numbers. All possible pairs of corruptions are equally likely.

    Returns:
        The new benchmark; the same corruptions if no such pair exists.

    Raises:
        ValueError: If the benchmark is empty, or a corruption is in no category or in several.
    """
    category_of = _category_of(categories)
    _check_members(benchmark, category_of)
    counts = Counter(category_of[each] for each in benchmark)
    # Moving one corruption from a category of a to one of b changes the sum of squares by 2 (b - a + 1).
    pairs = [
        (old, new)
        for old in benchmark
        for new in category_of.keys() - set(benchmark)
        if (a := category_of[old]) != (b := category_of[new]) and counts[b] >= counts[a] >= 2
    ]
    if not pairs:
        return tuple(sorted(benchmark))
    old, new = sorted(pairs)[rng.integers(len(pairs))]
    return tuple(sorted({*benchmark} - {old} | {new}))


def mean_overlap(benchmark: Sequence[int], overlaps: ArrayLike, categories: Sequence[Sequence[int]]) -> float:
    """Return the mean overlap of a benchmark's corruptions within categories, by which ImageNet-Syn2Nat was chosen.

    Args:
        benchmark: Corruptions.
        overlaps: Overlap scores of shape (C, C).
        categories: Categories of corruptions, which include all of the benchmark's.

    Returns:
        Mean over pairs of the same category, 0 or more; NaN if there are no such pairs.

    Raises:
        ValueError: If the overlaps are invalid, the benchmark is empty, or a corruption is in no or several categories.
    """
    scores = _vectors(overlaps)
    category_of = _category_of(categories, len(scores))
    _check_members(benchmark, category_of)
    pairs = [(a, b) for a, b in combinations(benchmark, 2) if category_of[a] == category_of[b]]
    return float(scores[tuple(np.transpose(pairs))].mean()) if pairs else float("nan")


def _category_of(categories: Sequence[Sequence[int]], count: int | None = None) -> dict[int, int]:
    """Return the category of each corruption. Raise ValueError if one is in several, or is not in 0..count-1."""
    category_of = {each: number for number, members in enumerate(categories) for each in members}
    if len(category_of) != sum(map(len, categories)):
        raise ValueError("a corruption is in several categories: put each in one")
    if count is not None and (unknown := [each for each in category_of if not 0 <= each < count]):
        raise ValueError(f"unknown corruption {unknown[0]} in categories: use indices 0..{count - 1}")
    return category_of


def _check_members(benchmark: Sequence[int], category_of: dict[int, int]) -> None:
    """Raise ValueError if a benchmark is empty, repeats a corruption, or has one of no category."""
    if len(set(benchmark)) != len(benchmark) or not len(benchmark):
        raise ValueError(f"invalid benchmark {tuple(benchmark)}: pass at least one corruption, each once")
    if unknown := [each for each in benchmark if each not in category_of]:
        raise ValueError(f"corruption {unknown[0]} of the benchmark is in no category: add it to one")


# Predictiveness


def predictiveness(
    clean: ArrayLike, natural: ArrayLike, candidates: ArrayLike, benchmarks: Sequence[Sequence[int]]
) -> tuple[float, float]:
    """Return how well robustness to synthetic corruptions predicts robustness to natural images (Algorithm 2).

    For each benchmark, residual robustness to the natural images is correlated over models with the mean residual
    robustness to the benchmark's corruptions.

    Args:
        clean: Accuracies 0..1 on clean images of shape (M,), for M models of comparable clean accuracy.
        natural: Accuracies 0..1 on natural images of shape (M,).
        candidates: Accuracies 0..1 of shape (M, C).
        benchmarks: Benchmarks of corruptions 0..C-1.

    Returns:
        Means over the benchmarks of the Pearson correlation, -1..1, and of its two-sided p-value.

    Raises:
        ValueError: If there are fewer than three models, shapes differ, a value is outside 0..1, a benchmark is
            invalid, or all models are equally robust.
    """
    before = fractions(clean, "clean accuracies", axes=1)
    accuracies = fractions(candidates, "accuracies on candidates", axes=2)
    if before.ndim != 1 or accuracies.ndim != 2 or len(before) != len(accuracies):
        raise ValueError(
            f"clean accuracies of shape {before.shape} do not match those on candidates, {accuracies.shape}: pass (M,) "
            "and (M, C)"
        )
    losses = np.asarray(residual_robustness(before[:, None], accuracies))
    return score_predictiveness(before, natural, benchmark_scores(losses, benchmarks))


def benchmark_scores(losses: ArrayLike, benchmarks: Sequence[Sequence[int]]) -> Floats:
    """Return the mean over each benchmark's corruptions, (B, M), of values by model and corruption, (M, C).

    Raises:
        ValueError: If there are no benchmarks, or one is empty, repeats a corruption, or has an unknown one.
    """
    table = np.asarray(losses, np.float64)
    known = dict.fromkeys(range(table.shape[1]), 0)
    if not len(benchmarks):
        raise ValueError("no benchmarks: pass at least one")
    for benchmark in benchmarks:
        _check_members(benchmark, known)
    return np.array([table[:, list(benchmark)].mean(axis=1) for benchmark in benchmarks])


def score_predictiveness(clean: ArrayLike, natural: ArrayLike, scores: ArrayLike) -> tuple[float, float]:
    """Return how well scores predict residual robustness to natural images, as ``predictiveness`` does.

    Args:
        clean: Accuracies 0..1 on clean images of shape (M,).
        natural: Accuracies 0..1 on natural images of shape (M,).
        scores: Scores of shape (B, M), smaller is better: residual robustness to B benchmarks, or flip probabilities.

    Returns:
        Means over the B scores of the Pearson correlation, -1..1, and of its two-sided p-value.

    Raises:
        ValueError: If there are fewer than three models, shapes differ, a value is invalid, or all models are equal.
    """
    before, after = fractions(clean, "clean accuracies", axes=1), fractions(natural, "natural accuracies", axes=1)
    groups = np.asarray(scores, np.float64)
    if before.ndim != 1 or before.shape != after.shape or groups.ndim != 2 or groups.shape[1:] != before.shape:
        raise ValueError(
            f"clean accuracies of shape {before.shape}, natural ones of shape {after.shape} and scores of shape "
            f"{groups.shape} do not match: pass (M,), (M,) and (B, M)"
        )
    if len(before) < MIN_MODELS:
        raise ValueError(f"{len(before)} models are too few for a correlation: pass at least {MIN_MODELS}")
    if not np.isfinite(groups).all():
        raise ValueError("invalid scores: some are NaN or infinite")
    losses = np.asarray(residual_robustness(before, after))
    for values, what in ((losses[None], "natural images"), (groups, "a synthetic benchmark")):
        if (np.ptp(values, axis=1) <= NO_SPREAD).any():
            raise ValueError(f"all models have the same score on {what}, so the correlation is undefined")
    from scipy.stats import pearsonr

    result = pearsonr(groups, np.broadcast_to(losses, groups.shape), axis=1)
    return float(result.statistic.mean()), float(result.pvalue.mean())
