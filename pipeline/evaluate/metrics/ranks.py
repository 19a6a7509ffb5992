"""Ranks of classes by logit."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pipeline.evaluate.metrics.checks import Numbers
from pipeline.evaluate.metrics.slices import row_slices

TOP = 5
"""Number of classes in a top-5 list."""


def ordinal_ranks(logits: ArrayLike) -> Numbers:
    """Return the rank of every class. The largest logit has rank 1; of equal logits, the lower class index ranks first.

    Args:
        logits: Floats of shape (..., classes). Infinite values are allowed.

    Returns:
        Ranks 1..classes of shape (..., classes), in the smallest unsigned integer dtype that fits.

    Raises:
        ValueError: If the values are not floats, there are no classes, or a logit is NaN.
    """
    rows = _logit_rows(logits)
    classes = rows.shape[-1]
    ranks = np.empty(rows.shape, np.min_scalar_type(classes))
    consecutive = np.arange(1, classes + 1, dtype=ranks.dtype)[None]
    for part in row_slices(len(rows), classes):
        np.put_along_axis(ranks[part], _order(rows[part]), consecutive, axis=-1)
    return ranks.reshape(np.shape(logits))


def _logit_rows(logits: ArrayLike) -> Numbers:
    """Return logits reshaped to (N, classes). Raise ValueError if they are invalid."""
    array = np.asarray(logits)
    if not np.issubdtype(array.dtype, np.floating) or array.ndim == 0 or array.shape[-1] == 0:
        raise ValueError(
            f"invalid logits of shape {array.shape} and type {array.dtype}: pass floats of shape (..., classes)"
        )
    return array.reshape(-1, array.shape[-1])


def _order(logits: Numbers) -> Numbers:
    """Return the class indices of each row of (N, classes) logits, in rank order."""
    if np.isnan(logits).any():
        raise ValueError("invalid logits: some are NaN; pass logits that can be sorted")
    if logits.dtype.itemsize > 4:
        return np.argsort(-logits, axis=-1, kind="stable")
    # Pack the negated logit and the class index into one integer. All keys differ, so an unstable sort is enough.
    # As integers, the bits of positive floats sort in ascending order and those of negative floats in descending
    # order. 0 - x maps both zeros to 0.0.
    bits = (np.float32(0) - logits.astype(np.float32)).view(np.int32)
    keys = np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits).astype(np.int64)
    keys <<= 32
    keys |= np.arange(logits.shape[-1])
    keys.sort(axis=-1)
    keys &= 0xFFFFFFFF
    return keys
