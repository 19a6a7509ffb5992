"""Choice of corruptions for a benchmark: overlaps, categories, balanced benchmarks, and what they predict.

Corruptions are indices 0..C-1, benchmarks tuples of indices in ascending order, and categories tuples of indices, too.
All functions raise ValueError for arguments that are invalid or that make a value undefined.

Source: Laugros et al., BMVC 2021, arXiv 2107.12052.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import ArrayLike

from pipeline.evaluate.metrics import residual_robustness
from pipeline.evaluate.metrics.arrays import Floats, fractions

Indices = tuple[int, ...]
"""Indices of corruptions: a benchmark, or a category."""

STARTS, ITERATIONS = 100, 20
"""Number of starts of k-means, and of steps of each."""

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
    """
    vectors = _vectors(overlaps)
    correlations = _correlations(vectors)
    similar = np.sort(correlations[np.triu_indices(len(correlations), 1)])[::-1]
    most = min(len(vectors) - 1, len(np.unique(vectors, axis=0)))
    for count in range(2, most + 1):
        size, larger = divmod(len(vectors), count)
        pairs = count * comb(size, 2) + larger * size  # the fewest within categories, which are then of equal size
        if similar[:pairs].mean() <= threshold:
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
    """Return the mean Pearson correlations of pairs of corruptions of the same and of different categories, -1..1.

    Both are NaN without such pairs. ``overlaps`` are scores (C, C); other vectors of corruptions, (C, D), are allowed.
    """
    vectors = _vectors(overlaps, square=False)
    _category_of(categories, len(vectors))
    return _mean_correlations(_correlations(vectors), categories)


def _vectors(overlaps: ArrayLike, square: bool = True) -> Floats:
    """Return overlaps as float64, (C, D)."""
    vectors = np.asarray(overlaps, np.float64)
    if vectors.ndim != 2 or len(vectors) < 2 or (square and vectors.shape[0] != vectors.shape[1]):
        raise ValueError(f"invalid overlaps of shape {vectors.shape}: pass (C, C) for at least two corruptions")
    if not np.isfinite(vectors).all():
        raise ValueError("invalid overlaps: some are NaN or infinite")
    return vectors


def _correlations(vectors: Floats) -> Floats:
    """Return the Pearson correlations of rows, (C, C)."""
    if (constant := np.flatnonzero(np.ptp(vectors, axis=1) <= NO_SPREAD)).size:
        raise ValueError(f"all values of corruption {constant[0]} are equal, so it has no correlation: leave it out")
    return np.atleast_2d(np.corrcoef(vectors))


def _mean_correlations(correlations: Floats, categories: Sequence[Sequence[int]]) -> tuple[float, float]:
    same = np.zeros(correlations.shape, bool)
    for members in categories:
        same[np.ix_(members, members)] = True
    known = np.isin(np.arange(len(same)), [each for members in categories for each in members])
    pairs = np.triu(np.outer(known, known), 1)
    first, second = (correlations[pairs & of_kind] for of_kind in (same, ~same))
    return float(first.mean()) if first.size else np.nan, float(second.mean()) if second.size else np.nan


def _k_means(vectors: Floats, count: int, rng: np.random.Generator) -> tuple[Indices, ...]:
    """Return the categories of the best of ``STARTS`` starts of k-means++, by squared distances to the centres."""
    from scipy.cluster.vq import ClusterError, kmeans2

    found: list[tuple[float, tuple[Indices, ...]]] = []
    for _ in range(STARTS):
        with suppress(ClusterError):  # a category is empty: other starts are better
            centres, labels = kmeans2(vectors, count, ITERATIONS, minit="++", missing="raise", rng=rng)
            groups = sorted(tuple(np.flatnonzero(labels == label).tolist()) for label in range(count))
            found.append((float(np.square(vectors - centres[labels]).sum()), tuple(groups)))
    if not found:
        raise ValueError(f"k-means finds no {count} categories of {len(vectors)} corruptions: use a lower threshold")
    return min(found)[1]


# Benchmarks


def balanced_benchmark(categories: Sequence[Sequence[int]], n: int, k: int, rng: np.random.Generator) -> Indices:
    """Return a random benchmark of n categories with k corruptions of each (Algorithm 1 of the paper).

    Categories with fewer than ``k`` corruptions are not chosen.
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
    """Return how unevenly a benchmark represents categories, which include all of its corruptions; 0 if it is balanced.

    It is the population standard deviation of the numbers of corruptions in each category that it represents.
    """
    category_of = _category_of(categories, benchmark=benchmark)
    return float(np.std(list(Counter(category_of[each] for each in benchmark).values())))


def substituted(benchmark: Sequence[int], categories: Sequence[Sequence[int]], rng: np.random.Generator) -> Indices:
    """Return a benchmark in which a random corruption is replaced by another one, so that the spread grows.

    The represented categories stay the same. All possible pairs of corruptions are equally likely; if there are none,
    the corruptions stay the same, too.
    """
    category_of = _category_of(categories, benchmark=benchmark)
    counts = Counter(category_of[each] for each in benchmark)
    # Moving one corruption from a category of a to one of b changes the sum of squares by 2 (b - a + 1).
    pairs = [
        (old, new)
        for old in benchmark
        for new in category_of.keys() - set(benchmark)
        if (a := category_of[old]) != (b := category_of[new]) and counts[b] >= counts[a] >= 2
    ]
    old, new = sorted(pairs)[rng.integers(len(pairs))] if pairs else (benchmark[0], benchmark[0])
    return tuple(sorted({*benchmark} - {old} | {new}))


def mean_overlap(benchmark: Sequence[int], overlaps: ArrayLike, categories: Sequence[Sequence[int]]) -> float:
    """Return the mean overlap of a benchmark's corruptions of the same category, by which ImageNet-Syn2Nat was chosen.

    It is 0 or more, and NaN if there are no such pairs. ``overlaps`` are scores (C, C).
    """
    scores = _vectors(overlaps)
    category_of = _category_of(categories, len(scores), benchmark)
    pairs = [(a, b) for a, b in combinations(benchmark, 2) if category_of[a] == category_of[b]]
    return float(scores[tuple(np.transpose(pairs))].mean()) if pairs else float("nan")


def _category_of(
    categories: Sequence[Sequence[int]], count: int | None = None, benchmark: Sequence[int] | None = None
) -> dict[int, int]:
    """Return the category of each corruption, which must be in 0..count-1; check that they have a benchmark's."""
    category_of = {each: number for number, members in enumerate(categories) for each in members}
    if len(category_of) != sum(map(len, categories)):
        raise ValueError("a corruption is in several categories: put each in one")
    if count is not None and (unknown := [each for each in category_of if not 0 <= each < count]):
        raise ValueError(f"unknown corruption {unknown[0]} in categories: use indices 0..{count - 1}")
    if benchmark is not None:
        if len(set(benchmark)) != len(benchmark) or not len(benchmark):
            raise ValueError(f"invalid benchmark {tuple(benchmark)}: pass at least one corruption, each once")
        if unknown := [each for each in benchmark if each not in category_of]:
            raise ValueError(f"corruption {unknown[0]} of the benchmark is in no category: add it to one")
    return category_of


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
    """Return the mean over each benchmark's corruptions, (B, M), of values by model and corruption, (M, C)."""
    table = np.asarray(losses, np.float64)
    if not len(benchmarks):
        raise ValueError("no benchmarks: pass at least one")
    for benchmark in benchmarks:
        _category_of([range(table.shape[1])], benchmark=benchmark)
    return np.array([table[:, list(benchmark)].mean(axis=1) for benchmark in benchmarks])


def score_predictiveness(clean: ArrayLike, natural: ArrayLike, scores: ArrayLike) -> tuple[float, float]:
    """Return how well scores predict residual robustness to natural images, as ``predictiveness`` does.

    ``scores`` have the shape (B, M), smaller is better: residual robustness to B benchmarks, or flip probabilities.
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
