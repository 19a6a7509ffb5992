"""Frequency bias: the bandwidths that low-pass filtered images need to be classified correctly.

Source: ARES-Bench, arXiv 2302.14301. Bandwidths are in cycles per image; the largest one leaves images unfiltered.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.evaluate.metrics.checks import Figures, Floats, float_if_scalar, fractions


def cutoff_bandwidths(correct: ArrayLike, bandwidths: Sequence[int], *, settled: bool = False) -> NDArray[np.int64]:
    """Return the cutoff bandwidth of each image that is classified correctly unfiltered.

    Args:
        correct: Whether each image is classified correctly at each bandwidth, bool (images, bandwidths).
        bandwidths: Increasing bandwidths in cycles per image. The last one leaves images unfiltered.
        settled: Whether the cutoff is the smallest bandwidth from which on the image is always classified correctly.
            Default: the smallest bandwidth at which it is, as published.

    Returns:
        Bandwidths (images that are correct at the last bandwidth,), in the order of the images.

    Raises:
        ValueError: If the bandwidths are not increasing, or the shape or type of ``correct`` does not fit.
    """
    grid = _grid(bandwidths)
    hits = np.asarray(correct)
    if hits.dtype != np.bool_ or hits.ndim != 2 or hits.shape[1] != grid.size:
        raise ValueError(
            f"invalid correctness of shape {hits.shape} and type {hits.dtype}: pass bool of shape (images, {grid.size})"
        )
    hits = hits[hits[:, -1]]
    if settled:
        misses_from_last = np.argmin(np.c_[hits[:, ::-1], np.zeros(len(hits), bool)], axis=1)
        settled_at: NDArray[np.int64] = grid[grid.size - misses_from_last]
        return settled_at
    first: NDArray[np.int64] = grid[np.argmax(hits, axis=1)]
    return first


def frequency_bias(correct: ArrayLike, bandwidths: Sequence[int], *, settled: bool = False) -> float:
    """Return f_bias: the mean cutoff bandwidth over the images that are classified correctly unfiltered.

    The smaller it is, the lower are the frequencies that a model needs.

    Args:
        correct: Whether each image is classified correctly at each bandwidth, bool (images, bandwidths).
        bandwidths: Increasing bandwidths in cycles per image. The last one leaves images unfiltered.
        settled: Kind of cutoff, as in :func:`cutoff_bandwidths`.

    Raises:
        ValueError: If no image is classified correctly unfiltered, or an argument is invalid.
    """
    found = cutoff_bandwidths(correct, bandwidths, settled=settled)
    if not found.size:
        raise ValueError("no image is classified correctly unfiltered: pass results of a model that classifies some")
    return float(found.mean())


def normalised_accuracies(accuracies: ArrayLike) -> Floats:
    """Return accuracies divided by the accuracy on unfiltered images: the curve ACC-LPB, which ends at 1.

    Args:
        accuracies: Accuracies 0..1 by increasing bandwidth, (..., bandwidths).

    Returns:
        Quotients (..., bandwidths), 0 or larger. They can exceed 1.

    Raises:
        ValueError: If a value is outside 0..1, or an accuracy on unfiltered images is 0.
    """
    rows = fractions(accuracies, "accuracies", axes=1)
    if not rows[..., -1].all():
        raise ValueError("the accuracy on unfiltered images is 0: pass results of a model that classifies some images")
    return rows / rows[..., -1:]


def area_above_curve(accuracies: ArrayLike, bandwidths: Sequence[int]) -> Figures:
    """Return the area between 1 and the curve ACC-LPB, as a sum of steps.

    With bandwidths b_1 < ... < b_n and accuracies a_1 ... a_n, it is b_1 + sum over i < n of
    (1 - a_i / a_n) (b_(i+1) - b_i): the curve keeps a value up to the next bandwidth, and is 0 below the first one.
    Trapezoids, which assume straight lines, would give a smaller area.

    It equals the frequency bias if each image that is classified correctly at a bandwidth also is at all larger ones.

    Args:
        accuracies: Accuracies 0..1 by bandwidth, (..., bandwidths).
        bandwidths: Increasing bandwidths in cycles per image. The last one leaves images unfiltered.

    Returns:
        Areas of shape (...), in cycles per image.

    Raises:
        ValueError: If the bandwidths are not increasing, a value is outside 0..1, or an accuracy on unfiltered images
            is 0.
    """
    grid, curve = _grid(bandwidths), normalised_accuracies(accuracies)
    if curve.shape[-1] != grid.size:
        raise ValueError(f"{curve.shape[-1]} accuracies for {grid.size} bandwidths: pass one for each")
    return float_if_scalar(grid[0] + ((1 - curve[..., :-1]) * np.diff(grid)).sum(axis=-1))


def _grid(bandwidths: Sequence[int]) -> NDArray[np.int64]:
    """Return the bandwidths as an array. Raises ValueError if they are not increasing."""
    grid = np.asarray(bandwidths)
    if grid.ndim != 1 or not grid.size or grid.dtype.kind not in "iu" or grid[0] < 0 or (np.diff(grid) <= 0).any():
        raise ValueError(f"invalid bandwidths {list(bandwidths)!r:.200}: pass increasing integers, 0 or larger")
    return grid.astype(np.int64)
