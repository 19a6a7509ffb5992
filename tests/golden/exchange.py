"""Whether outputs of another generator are farther from ours than ours are from each other."""

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

EXCHANGES = 20_000
"""Default number of random exchanges."""


def exchange_test(theirs: Floats, ours: Floats, exchanges: int = EXCHANGES, seed: int = 0) -> float:
    """Return the p-value of the hypothesis that another generator draws as ours does.

    Under the hypothesis, its value in each cell is one more draw beside ours: the positions of all values of a cell can
    be exchanged, independently in each cell. Two statistics are compared with those of random exchanges: the absolute
    mean difference from our values (a shift), and how much farther its values are from ours than ours are from each
    other (a distance). The p-value is twice the smaller of the two.

    Args:
        theirs: One value per cell, for example per photograph and severity, shape (cells,).
        ours: The values of our draws, shape (draws, cells); two draws or more.
        exchanges: Number of random exchanges.
        seed: Seed of the exchanges.

    Returns:
        The p-value, 2 / (exchanges + 1)..1. It is valid for any number of cells and any distribution.

    Raises:
        ValueError: If the shapes do not fit, or there are fewer than two draws of ours.
    """
    if ours.ndim != 2 or len(ours) < 2 or theirs.shape != ours.shape[1:]:
        raise ValueError(f"invalid shapes {theirs.shape} and {ours.shape}: pass (cells,) and (2 or more draws, cells)")
    values = np.concatenate([theirs[None], ours])
    count, cells = values.shape
    apart = np.abs(values[:, None] - values[None])
    from_others = apart.sum(axis=1) / (count - 1)
    among_others = (apart.sum(axis=(0, 1)) - 2 * apart.sum(axis=1)) / ((count - 1) * (count - 2))
    shifts = (values - values.mean(axis=0)) * count / (count - 1)
    generator, reached = np.random.default_rng(seed), np.zeros(2)
    rounding = 1e-9 * cells
    for _ in range(exchanges):
        chosen = generator.integers(count, size=cells), np.arange(cells)
        reached[0] += abs(shifts[chosen].sum()) >= abs(shifts[0].sum()) - rounding
        reached[1] += (from_others - among_others)[chosen].sum() >= (from_others - among_others)[0].sum() - rounding
    return float(min(1, 2 * (1 + reached.min()) / (exchanges + 1)))


def holm(p_values: Floats) -> Floats:
    """Return p-values corrected for their number by the method of Holm (1979), shape (tests,)."""
    order = np.argsort(p_values)
    corrected = np.empty(len(p_values))
    corrected[order] = np.maximum.accumulate(p_values[order] * np.arange(len(p_values), 0, -1))
    return corrected.clip(max=1)


def agreement(classes: NDArray[np.integer]) -> float:
    """Return the mean share of equal predictions of two draws, for classes of shape (2 or more draws, ...)."""
    return float(np.mean([(one == other).mean() for one, other in combinations(classes, 2)]))


def log_odds(probabilities: NDArray[np.floating]) -> Floats:
    """Return the logarithm of the odds of probabilities, which float32 keeps between 1e-6 and 1 - 1e-6."""
    clipped = np.clip(np.asarray(probabilities, np.float64), 1e-6, 1 - 1e-6)
    return np.log(clipped / (1 - clipped))
