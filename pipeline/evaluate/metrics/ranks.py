"""Ranks of classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pipeline.evaluate.metrics.checks import Numbers, chunks

TOP = 5
"""Ranks that the top-5 distance looks at."""


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
