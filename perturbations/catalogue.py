"""The frames of perturbations.

``apply(views, parameters, source, indices)`` of a perturbation returns the frames with these indices, uint8
(len(indices), N, N, 3). What a sequence draws only once must be drawn before any frame.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from perturbations.views import Views

Frames = NDArray[np.uint8]
"""RGB frames, uint8 (T, N, N, 3), 0..255."""

FRAMES = 31
"""Number of frames of most sequences."""

DIFFICULTIES = (1, 2, 3)
"""All difficulties, easiest first."""

Indices = Sequence[int]
"""Indices of the frames to make, in increasing order."""


def stack(views: Views, indices: Indices, frame: Callable[[int], NDArray[np.uint8]]) -> Frames:
    """Return a sequence of frames made one by one.

    Args:
        views: The prepared photograph.
        indices: Indices of the frames.
        frame: Function that returns the frame with an index, as large as the prepared image.

    Returns:
        uint8 frames (len(indices), H, W, 3).
    """
    out = np.empty((len(indices), *views.base.shape), np.uint8)
    for position, index in enumerate(indices):
        out[position] = frame(index)
    return out
