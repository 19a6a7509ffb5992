"""The record of a family: what a recipe may choose from it, how that is made, and how it is known again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import corruptions
from corruptions.preparation import Steps
from pipeline.errors import UserError
from pipeline.images.resizers import prepare


class Pair(NamedTuple):
    """A decoder and a resize operator."""

    decoder: str
    resize: str

    def __str__(self) -> str:
        """Return the name of the transform: ``opencv_pillow-bilinear``."""
        return f"{self.decoder}_{self.resize}"


Image = NDArray[np.uint8]


Render = Callable[[Any, int], Image]
"""A function of a prepared photograph and a seed (0 <= seed < 2**128) that returns an output."""

WHOLE_BUDGET = sys.maxsize
"""Prepared size of photographs that are worked on one at a time: what is made of them on the way is larger than they
are."""

NO_LEVELS = (0,)
"""Levels of a family that has none."""


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
class Recognition:
    """How an index recognises the files of a family in a data set that somebody else published.

    Attributes:
        places: Paths that are looked for, in words, as messages list them: ``<corruption>/<severity>/<class>/<file>``.
        bare_level: Level of a folder or file that only names the transform; None where the level must stand beside it.
        other_names: Whether transforms that no family names count as transforms of this one.
    """

    places: tuple[str, ...] = ()
    bare_level: int | None = None
    other_names: bool = False


@dataclass(frozen=True)
class Listing:
    """The table of a family in ``robustshards list``: what is shown, and ``facts`` for ``--json``."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | int, ...], ...]
    facts: Mapping[str, Any]
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Family:
    """A group of transforms that one benchmark defines.

    Attributes:
        name: Name in recipes and manifests of results. Lower case letters, digits and hyphens.
        title: A few words for people.
        names: The transforms in published order, which is the order of shards.
        version: Returns the version (from 1) of a transform; it rises with every change of a pixel.
        render: Returns the function that makes outputs of a condition: images uint8 RGB (H, W, 3), or, in a family of
            ``sequences``, frames (T, H, W, 3).
        groups: Group -> its transforms in published order. Groups may stand in recipes and ``--only``.
        levels: Levels that a recipe may ask for.
        level_of: Returns the level at which a transform is made, given its name and the level asked for.
        prepare: Makes of a decoded photograph (H, W, 3) what all its outputs start from, given the steps of the
            preparation and the name of the resize operator. Raises ValueError for a photograph that is too small.
        prepared_bytes: Returns the bytes that a prepared photograph holds, or WHOLE_BUDGET.
        from_encoded: Whether ``prepare`` is given the encoded photograph (bytes).
        sequences: Whether outputs are sequences of frames.
        grain: Returns whether the content of a transform is noise, which video encoders are told.
        pairs: Transform -> decoder and resize operator, where it does not take those of the recipe.
        recognition: How an index recognises the family.
        citation: BibTeX entry of the paper to cite; empty where there is none.
        listing: Returns the table for ``robustshards list``; default: names and versions.
        modules: Importable modules and packages that hold its pixels, beside those of the project: where their files
            change, transforms are tried again.
        libraries: Distributions that its pixels pass through, beside those of every build: builds record their
            versions.
    """

    name: str
    title: str
    names: tuple[str, ...]
    version: Callable[[str], int]
    render: Callable[[Condition, Rendering], Render]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    levels: tuple[int, ...] = NO_LEVELS
    level_of: Callable[[str, int], int] = lambda name, level: level
    prepare: Callable[[Any, Steps, str], Any] = prepare
    prepared_bytes: Callable[[Any], int] = lambda image: image.nbytes
    from_encoded: bool = False
    sequences: bool = False
    grain: Callable[[str], bool] = lambda name: False
    pairs: Mapping[str, Pair] = field(default_factory=dict)
    recognition: Recognition = Recognition()
    citation: str = ""
    listing: Callable[[], Listing] | None = None
    modules: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()

    def select(self, only: Sequence[str]) -> tuple[str, ...]:
        """Return the transforms that names and groups stand for, each once, in published order.

        Raises:
            UserError: One of them is unknown.
        """
        chosen: set[str] = set()
        for name in only:
            if name not in self.names and name not in self.groups:
                raise UserError(
                    f"no transform or group is called {name!r}; "
                    f"groups: {', '.join(self.groups) or 'none'}; transforms: {', '.join(self.names)}"
                )
            chosen.update(self.groups.get(name, (name,)))
        return tuple(name for name in self.names if name in chosen)

    def listed(self) -> Listing:
        """Return the table for ``robustshards list``."""
        if self.listing:
            return self.listing()
        versions = {name: self.version(name) for name in self.names}
        facts = {name: {"version": version} for name, version in versions.items()}
        return Listing((self.name, "version"), tuple(versions.items()), facts)
