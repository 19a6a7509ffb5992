"""What a family of transforms is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import corruptions
from pipeline.errors import UserError
from pipeline.images.resizers import prepare


class Pair(NamedTuple):
    """A decoder and a resize operator."""

    decoder: str
    resize: str

    def __str__(self) -> str:
        """The name of the transform: ``opencv_pillow-bilinear``."""
        return f"{self.decoder}_{self.resize}"


Image = NDArray[np.uint8]


Render = Callable[[Any, int], Image]
"""What makes an output of what the steps start from, and of a seed."""


WHOLE_BUDGET = sys.maxsize
"""Prepared size of photographs that are worked on one at a time: what is made of them on the way is larger than they
are."""


class Condition(NamedTuple):
    """One transform at one level: what a shard holds for each of its images."""

    transform: str
    level: int

    def __str__(self) -> str:
        return f"{self.transform}-{self.level}"


@dataclass(frozen=True)
class Rendering:
    """What a rendering needs to know beside the image and its seed."""

    profile: str
    options: corruptions.Options


@dataclass(frozen=True)
class Family:
    """What a recipe may choose from, and how it is made.

    ``groups`` and ``names`` may stand in ``--only``; names are in published order, which is the order of shards.
    ``prepare`` makes of a photograph what all steps start from, given the steps of the preparation and its resize
    operator, and ``prepared_bytes`` tells how many bytes that holds; ``render`` gives for a step what makes an image
    (H, W, 3) of that and a seed, or, in a family of ``sequences``, frames (T, H, W, 3).
    ``level_of`` gives the level at which a transform is made for a level asked for; ``grain`` tells where noise is the
    content. In a family of ``pairs`` a transform is a decoder and a resize operator, and ``prepare`` is given the
    encoded photograph.
    """

    names: tuple[str, ...]
    groups: tuple[str, ...]
    levels: tuple[int, ...]
    members: Callable[[str], Sequence[str]]
    version: Callable[[str], int]
    render: Callable[[Condition, Rendering], Render]
    prepare: Callable[[Any, Sequence[tuple[str, float]], str], Any] = prepare
    prepared_bytes: Callable[[Any], int] = lambda image: image.nbytes
    level_of: Callable[[str, int], int] = lambda name, level: level
    grain: Callable[[str], bool] = lambda name: False
    sequences: bool = False
    pairs: Mapping[str, Pair] = field(default_factory=dict)

    def select(self, only: Sequence[str]) -> tuple[str, ...]:
        """Names and groups -> names in published order, each once. Raises UserError for an unknown one."""
        chosen: set[str] = set()
        for name in only:
            if name not in self.names and name not in self.groups:
                raise UserError(
                    f"no transform or group is called {name!r}; "
                    f"groups: {', '.join(self.groups) or 'none'}; transforms: {', '.join(self.names)}"
                )
            chosen.update(self.members(name) if name in self.groups else (name,))
        return tuple(name for name in self.names if name in chosen)
