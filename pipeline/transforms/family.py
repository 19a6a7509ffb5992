"""The record of a family of transforms: its names and levels, how outputs are rendered, how indexes recognise it."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import corruptions
from corruptions.catalogue import PROFILE_SIDES
from corruptions.preparation import Steps
from corruptions.registry import unknown
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

Draws = Mapping[str, Any]
"""What is drawn for one output: name -> number, text or list."""

WHOLE_BUDGET = sys.maxsize
"""Value of ``prepared_bytes`` for photographs that a worker must process one at a time, because rendering needs much
more memory than the prepared photograph itself."""

HUNDREDTHS = 100
"""Real levels are counted in hundredths: the severity 1.75 is the level 175."""

NO_LEVELS = (0,)
"""Levels of a family without levels."""


class Condition(NamedTuple):
    """One transform at one level: what a shard holds for each of its images."""

    transform: str
    level: int

    def __str__(self) -> str:
        return f"{self.transform}-{self.level}"


@dataclass(frozen=True)
class Rendering:
    """Settings of a rendering besides the image and its seed."""

    profile: str
    options: corruptions.Options
    shape: str = ""
    """One of the family's shapes; empty for families without shapes."""
    channels: str = "rgb"
    """Order in which corruptions read the channels."""
    bank: Mapping[str, Image] = field(default_factory=dict)
    """Name -> array of the bank; empty unless the recipe needs one."""
    norm: float = 0.0
    """L2 norm of what is added to a channel, for values 0..1; 0 for families without maps."""
    device: str = "cpu"
    """Device that computes, for families that use PyTorch."""


@dataclass(frozen=True, kw_only=True)
class BankNeeds:
    """What transforms need besides a photograph. Builds keep it in the folder ``bank/`` and record its digest.

    Attributes:
        title: What it is, for messages.
        transforms: The transforms that need it.
        arrays: Names of the arrays with one entry for each photograph of the table ``[bank]`` of the recipe.
        entries: Returns the entries of a photograph, uint8, one for each of ``arrays``, given the decoded photograph
            (H, W, 3), the steps of the preparation and the name of the resize operator.
        files: Name -> function that returns the content of a file, a uint8 array, given its path, the steps of the
            preparation and ``bank.text``. ``bank.files`` has the paths. Raises UserError, ValueError or OSError.
        own: Whether the photographs are those of the data set if ``bank.source`` names no others.
        optional: Whether transforms do without it if ``bank.files`` is empty.
    """

    title: str
    transforms: tuple[str, ...]
    arrays: tuple[str, ...] = ()
    entries: Callable[[Image, Steps, str], Sequence[Image]] = lambda photograph, steps, resize: ()
    files: Mapping[str, Callable[[Path, Steps, str], Image]] = field(default_factory=dict)
    own: bool = False
    optional: bool = False


@dataclass(frozen=True)
class Recognition:
    """How ``index`` recognises files of this family in published data sets.

    Attributes:
        places: Recognised paths, as shown in messages: ``<corruption>/<severity>/<class>/<file>``.
        bare_level: Level of a folder or file that names only the transform; None if a level is required.
        other_names: Whether transforms that are in no family count as transforms of this one.
        published_names: Further transforms of published data sets, which this project cannot make, in their order.
        level_folders: Transform -> name of a folder -> level, for levels that published folders do not count from 1.
        endings: Regular expression of the end of the names of published files that differs between conditions, and is
            no part of the id of an image.
    """

    places: tuple[str, ...] = ()
    bare_level: int | None = None
    other_names: bool = False
    published_names: tuple[str, ...] = ()
    level_folders: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    endings: str = ""


@dataclass(frozen=True)
class Listing:
    """The table of a family in ``robustshards list``. ``facts``: its content for ``--json``."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | int, ...], ...]
    facts: Mapping[str, Any]
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Family:
    """A group of transforms that one benchmark defines.

    Attributes:
        name: Name in recipes and manifests. Lower case letters, digits and hyphens.
        title: Short description.
        names: The transforms in published order, which is the order of shards.
        version: Returns the version of a transform (1 or larger), which increases with every change of pixels.
        render: Returns the function that renders a condition: uint8 RGB images (H, W, 3), or frames (T, H, W, 3) if
            ``sequences`` is set.
        groups: Group -> transforms in published order. Recipes and ``--only`` accept names of groups.
        levels: Levels that a recipe can request; a range if there are very many.
        real: Transforms that have real levels too, with the first profile. They are counted in HUNDREDTHS, between the
            last of ``levels`` and a hundred times that.
        profiles: Profiles that a recipe can request.
        published: Profile -> the transforms that it has, for profiles without parameters for some of them.
        shapes: Shapes of its filters, the default first. A recipe chooses one. Empty for other families.
        pass_all: Returns the level that leaves images unchanged, given their height, width and shape of the filter.
            Recipes must request it and no higher one, because metrics compare the other levels with it. None for
            families without such a level.
        map_levels: Returns the levels of a map of spatial frequencies, given the largest one and the distance between
            them: ``map`` and ``step`` of a recipe, which also has a ``norm``. Raises ValueError. None for families
            without maps.
        unfit: Returns why a level cannot be made of images of a height and width; empty if it can. Recipes are checked
            with it. None for families whose levels fit all images.
        level_of: Returns the level at which a transform is rendered, given its name and the requested level.
        prepare: Returns the input of ``render``, shared by all conditions, given a decoded photograph (H, W, 3), the
            steps of the preparation and the name of the resize operator. Raises ValueError if the photograph is too
            small.
        prepared_bytes: Returns the size of a prepared photograph in bytes, or WHOLE_BUDGET.
        from_encoded: Whether ``prepare`` receives the encoded photograph (bytes).
        sequences: Whether outputs are sequences of frames.
        draws: Returns what is drawn for an output, to be recorded in its ``.json``: name -> value that JSON can hold.
            Called with the condition, the seed of the output, and its height and width. None if nothing is recorded.
        bank: What transforms need besides a photograph: arrays made of other photographs, or files. None for nothing.
        on_device: Whether PyTorch computes the pixels, on the ``transforms.device`` of the recipe. Its name is
            recorded, because they depend on it.
        one_draw: Whether all levels of a transform draw the same for an image.
        shortcut: Class of ImageNet that models take for its images. Its probability is recorded for all of them.
        task: Name of the shipped task that evaluations use if the labels are ImageNet's classes; empty for none.
        grain: Returns whether the content of a transform is noise, for which video encoders have other settings.
        pairs: Transform -> decoder and resize operator, for transforms that do not use those of the recipe.
        recognition: How ``index`` recognises the family.
        array_labels: Type of the labels beside exported arrays, as published. Labels that it cannot hold become int64.
        citation: BibTeX entry of the paper to cite; empty for none.
        listing: Returns the table for ``robustshards list``; default: names and versions.
        modules: Importable modules and packages outside this project that compute its pixels. When their files
            change, workers test the transforms again.
        libraries: Distributions that determine its pixels, in addition to those of every build. Builds record their
            versions.
    """

    name: str
    title: str
    names: tuple[str, ...]
    version: Callable[[str], int]
    render: Callable[[Condition, Rendering], Render]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    levels: Sequence[int] = NO_LEVELS
    real: tuple[str, ...] = ()
    profiles: tuple[str, ...] = tuple(PROFILE_SIDES)
    published: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    shapes: tuple[str, ...] = ()
    pass_all: Callable[[int, int, str], int] | None = None
    map_levels: Callable[[int, int], Sequence[int]] | None = None
    unfit: Callable[[int, int, int], str] | None = None
    level_of: Callable[[str, int], int] = lambda name, level: level
    prepare: Callable[[Any, Steps, str], Any] = prepare
    prepared_bytes: Callable[[Any], int] = lambda image: image.nbytes
    from_encoded: bool = False
    sequences: bool = False
    draws: Callable[[Condition, int, int, int], Draws] | None = None
    bank: BankNeeds | None = None
    on_device: bool = False
    one_draw: bool = False
    shortcut: int | None = None
    task: str = ""
    grain: Callable[[str], bool] = lambda name: False
    pairs: Mapping[str, Pair] = field(default_factory=dict)
    recognition: Recognition = Recognition()
    array_labels: type[np.integer[Any]] = np.uint8
    citation: str = ""
    listing: Callable[[], Listing] | None = None
    modules: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()

    def largest_level(self, name: str) -> int:
        """Return the largest level of a transform, also of its real ones."""
        return self.levels[-1] * (HUNDREDTHS if name in self.real else 1)

    def least_pass_all(self, height: int, width: int) -> int | None:
        """Return the lowest level that leaves images unchanged with one of the shapes; None if no level does.

        Args:
            height: Height of the images in pixels.
            width: Width of the images in pixels.
        """
        return min(self.pass_all(height, width, shape) for shape in self.shapes) if self.pass_all else None

    def knows(self, name: str) -> bool:
        """Return whether a name is that of a transform of the family, or of the data sets that it recognises."""
        return name in (*self.names, *self.recognition.published_names) or self.recognition.other_names

    def select(self, only: Sequence[str]) -> tuple[str, ...]:
        """Return the transforms of names and groups, each once, in published order.

        Raises:
            UserError: A name is unknown.
        """
        chosen: set[str] = set()
        for name in only:
            if name not in self.names and name not in self.groups:
                raise UserError(unknown("transform or group", name, groups=self.groups, transforms=self.names))
            chosen.update(self.groups.get(name, (name,)))
        return tuple(name for name in self.names if name in chosen)

    def names_in(self, profile: str) -> tuple[str, ...]:
        """Return the transforms that a profile has parameters for, in published order."""
        published = self.published.get(profile, self.names)
        return tuple(name for name in self.names if name in published)

    def listed(self) -> Listing:
        """Return the table for ``robustshards list``."""
        if self.listing:
            return self.listing()
        versions = {name: self.version(name) for name in self.names}
        facts = {name: {"version": version} for name, version in versions.items()}
        return Listing((self.name, "version"), tuple(versions.items()), facts)
