"""Nearest-neighbour sampling by tables of rows and columns."""

from __future__ import annotations

import numpy as np

from corruptions.kernels import copy, kernel


@kernel
def pick(image, rows, columns):
    """Return uint8 (h, w, 3): the pixels of an image (H, W, 3) at the given rows (h,) and columns (w,), uint64.

    Equal rows in succession are copied.
    """
    pitch, width = 3 * image.shape[1], 3 * columns.size
    flat = image.reshape(-1)
    out = np.empty(width * rows.size, np.uint8)
    for y in range(rows.size):
        row = out[y * width : (y + 1) * width]
        if y > 0 and rows[y] == rows[y - 1]:
            copy(out[(y - 1) * width : y * width], row)
            continue
        line = flat[rows[y] * np.uint64(pitch) :]
        for x in range(columns.size):
            at = np.uint64(3) * columns[x]
            row[3 * x] = line[at]
            row[3 * x + 1] = line[at + np.uint64(1)]
            row[3 * x + 2] = line[at + np.uint64(2)]
    return out.reshape(rows.size, columns.size, 3)
