"""The record of one perturbation, and the types of its parameter table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.draws import DrawSource
from perturbations.views import Views

Frames = NDArray[np.uint8]
"""RGB frames, uint8 (T, N, N, 3), 0..255."""

FRAMES = 31
"""Number of frames of most sequences."""

DIFFICULTIES = (1, 2, 3)
"""All difficulties, easiest first."""

Indices = Sequence[int]
"""Indices of the frames to make, in increasing order."""


@dataclass(frozen=True)
class Perturbation:
    """One perturbation: its published parameters, and how its frames are made.

    ``make(views, parameters, source, indices)`` returns the frames with these indices, (len(indices), N, N, 3). What a
    sequence draws only once must be drawn before any frame. ``table`` maps each profile to one row of parameters, or to
    one row per difficulty. ``benchmark`` is false for the perturbations of the validation group. ``version`` must be
    increased with each change that alters a pixel.
    """

    name: str
    group: str
    benchmark: bool
    version: int
    table: Mapping[str, tuple[Any, ...]]
    make: Callable[[Views, Any, DrawSource, Indices], Frames]

    @property
    def difficulties(self) -> tuple[int, ...]:
        """The difficulties that have different parameters."""
        return DIFFICULTIES[: max(map(len, self.table.values()))]

    def parameters(self, profile: str, difficulty: int) -> Any:
        """Return the published parameters. A perturbation without difficulties has the same at each.

        Args:
            profile: Name of a profile.
            difficulty: Difficulty, 1..3.

        Returns:
            One row of the parameter table.
        """
        rows = self.table[profile]
        return rows[min(difficulty, len(rows)) - 1]


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
