"""Ranks of classes by their logits."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pipeline.evaluate.metrics.checks import Numbers
from pipeline.evaluate.metrics.slices import row_slices

TOP = 5
"""Number of leading ranks that top-5 error and top-5 distance count."""


def ordinal_ranks(logits: ArrayLike) -> Numbers:
    """Return the rank of every class: 1 for the largest logit, and for equal logits the lower index first.

    Args:
        logits: Floats (..., classes), larger is more likely. Infinite ones are allowed.

    Returns:
        Ranks 1..classes, (..., classes), in the smallest unsigned integer type that holds them.

    Raises:
        ValueError: For another type, no class and NaN.
    """
    rows = _logit_rows(logits)
    classes = rows.shape[-1]
    ranks = np.empty(rows.shape, np.min_scalar_type(classes))
    rising = np.arange(1, classes + 1, dtype=ranks.dtype)[None]
    for part in row_slices(len(rows), classes):
        np.put_along_axis(ranks[part], _order(rows[part]), rising, axis=-1)
    return ranks.reshape(np.shape(logits))


def _logit_rows(logits: ArrayLike) -> Numbers:
    """Return logits as (N, K)."""
    array = np.asarray(logits)
    if not np.issubdtype(array.dtype, np.floating) or array.ndim == 0 or array.shape[-1] == 0:
        raise ValueError(
            f"invalid logits of shape {array.shape} and type {array.dtype}: pass floats of shape (..., classes)"
        )
    return array.reshape(-1, array.shape[-1])


def _order(logits: Numbers) -> Numbers:
    """Return the class indices of (N, K) logits in rank order."""
    if np.isnan(logits).any():
        raise ValueError("invalid logits: some are NaN, which has no rank")
    if logits.dtype.itemsize > 4:
        return np.argsort(-logits, axis=-1, kind="stable")
    # One integer holds the negated logit and the index: no two are equal, so NumPy's fastest (unstable) sort will do.
    # The bits of positive floats rise with their values, those of negative ones fall; 0 - x turns -0.0 into 0.0.
    bits = (np.float32(0) - logits.astype(np.float32)).view(np.int32)
    keys = np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits).astype(np.int64)
    keys <<= 32
    keys |= np.arange(logits.shape[-1])
    keys.sort(axis=-1)
    keys &= 0xFFFFFFFF
    return keys
