"""Groups of random benchmarks: balanced ones of each size, and unbalanced ones of each spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb

import numpy as np

from pipeline.errors import UserError
from pipeline.evaluate.selection.measures import Indices, balanced_benchmark, spread, substituted

Size = tuple[int, int]
"""Number of categories, and number of corruptions of each."""

SIZES = ((2, 3), (3, 2), (6, 1), (4, 3), (6, 2), (6, 3))
"""Published sizes, in the order of the paper's table 2."""

PER_CATEGORY = (1, 2, 3)
"""Numbers of corruptions of each category, for benchmarks of all categories."""

LENGTHS = (6, 12, 18)
"""Numbers of corruptions of benchmarks without categories: those of ``SIZES``."""

DRAWS = 20
"""Maximum number of draws for each benchmark of a group: some benchmarks of small groups may be unlikely."""

SUBSTITUTED_LENGTH, SUBSTITUTIONS = 2, 5
"""Number of corruptions of each category before substitutions, and number of successive substitutions."""

LEAST_PART = 0.2
"""A spread is listed if it has more benchmarks than this part of the balanced ones: 200 of 1000 in the paper."""


def sizes(categories: Sequence[Indices], wanted: Sequence[Size] = ()) -> list[Size]:
    """Return the sizes of random benchmarks.

    Args:
        categories: Categories of corruptions; a single one for benchmarks without categories.
        wanted: Sizes that the user chose. Default: the possible ones of the paper, and those of all categories; without
            categories, the numbers of corruptions of the paper.

    Raises:
        UserError: A chosen size is impossible.
    """
    if impossible := [size for size in wanted if not _is_possible(size, categories)]:
        n, k = impossible[0]
        lengths = ", ".join(str(len(members)) for members in categories)
        raise UserError(f"the size {n}x{k} is impossible, since the categories have {lengths} corruptions: use another")
    single = len(categories) == 1
    usual = [(1, each) for each in LENGTHS] if single else [*SIZES, *((len(categories), k) for k in PER_CATEGORY)]
    possible = {size for size in usual if _is_possible(size, categories)}
    return list(wanted) or sorted(possible, key=lambda size: (size[0] * size[1], size[0]))


def _is_possible(size: Size, categories: Sequence[Indices]) -> bool:
    n, k = size
    return 1 <= n <= sum(len(members) >= k for members in categories) and k >= 1


def balanced_group(categories: Sequence[Indices], size: Size, count: int, seed: int) -> list[Indices]:
    """Return different random benchmarks of a size, at most ``count``, and fewer if there are fewer."""
    rng = np.random.default_rng([seed, *size])
    wanted = min(count, _different(categories, size))
    found: dict[Indices, None] = {}
    for _ in range(DRAWS * wanted):
        if len(found) == wanted:
            break
        found[balanced_benchmark(categories, *size, rng)] = None
    return list(found)


def _different(categories: Sequence[Indices], size: Size) -> int:
    """Return the number of different benchmarks of a size."""
    n, k = size
    ways = [1] + [0] * n  # by number of categories
    for members in categories:
        ways = [ways[0], *(ways[i] + ways[i - 1] * comb(len(members), k) for i in range(1, n + 1))]
    return ways[n]


def spread_groups(categories: Sequence[Indices], count: int, seed: int) -> Mapping[str, list[Indices]]:
    """Return random benchmarks by spread, rounded to one decimal as in the paper's table 3.

    Balanced benchmarks of all categories are made less balanced by one to five substitutions. Spreads with few
    benchmarks are left out.

    Args:
        categories: Categories of corruptions. There are no groups for a single one, or for one with a single
            corruption.
        count: Number of balanced benchmarks.
        seed: Seed of all random numbers.
    """
    size = len(categories), SUBSTITUTED_LENGTH
    if len(categories) == 1 or not _is_possible(size, categories):
        return {}
    balanced = balanced_group(categories, size, count, seed)
    groups: dict[str, dict[Indices, None]] = {f"{0:.1f}": dict.fromkeys(balanced)}
    rng = np.random.default_rng([seed, *size, SUBSTITUTIONS])
    for each in balanced:
        current = each
        for _ in range(SUBSTITUTIONS):
            current = substituted(current, categories, rng)
            groups.setdefault(f"{spread(current, categories):.1f}", {})[current] = None
    return {
        name: list(groups[name]) for name in sorted(groups, key=float) if len(groups[name]) > LEAST_PART * len(balanced)
    }
