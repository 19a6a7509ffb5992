"""What a perturbation is, and the types its parameter table is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.draws import DrawSource
from perturbations.views import Views

Frames = NDArray[np.uint8]
"""RGB frames, (T, N, N, 3), 0..255."""

FRAMES = 31
"""Frames of most sequences."""

DIFFICULTIES = (1, 2, 3)

Indices = Sequence[int]
"""Which frames to make, rising."""


@dataclass(frozen=True)
class Perturbation:
    """One perturbation: its published numbers, and how frames are made of them.

    ``make(views, parameters, source, indices)`` gives the frames of these indices, (len(indices), N, N, 3); what a
    sequence draws once, it draws before any frame. ``table`` has for each profile one row, or one for each difficulty.
    ``version`` goes up with any change that moves a pixel.
    """

    name: str
    group: str
    benchmark: bool
    version: int
    table: Mapping[str, tuple[Any, ...]]
    make: Callable[[Views, Any, DrawSource, Indices], Frames]

    @property
    def difficulties(self) -> tuple[int, ...]:
        """The difficulties that have data of their own."""
        return DIFFICULTIES[: max(map(len, self.table.values()))]

    def parameters(self, profile: str, difficulty: int) -> Any:
        """Return the published parameters; a perturbation without difficulties has the same at each."""
        rows = self.table[profile]
        return rows[min(difficulty, len(rows)) - 1]


def stack(views: Views, indices: Indices, frame: Callable[[int], NDArray[np.uint8]]) -> Frames:
    """Return the frames that a function of the index makes, each as large as the clean image."""
    out = np.empty((len(indices), *views.base.shape), np.uint8)
    for place, index in enumerate(indices):
        out[place] = frame(index)
    return out
