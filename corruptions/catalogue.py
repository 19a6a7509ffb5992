"""The record of one transform, the types of its parameter table, and the registry of a publication."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.imagemagick import BACKENDS
from corruptions.literals import Severity
from corruptions.registry import find

Image = NDArray[np.uint8]
"""RGB image, uint8 (H, W, 3), 0..255."""

PROFILE_SIDES: Mapping[str, int] = {"imagenet": 224, "inception": 299, "tiny": 64, "cifar": 32}
"""Profile -> side in pixels of the images for which its parameters were published."""

DETECTION = "detection"
"""Profile of images of any size: ImageNet-C's parameters in the arithmetic of the package imagecorruptions, which
object detection uses (Michaelis et al. 2019)."""

PROFILES = (*PROFILE_SIDES, DETECTION)
"""All profiles."""

SEVERITIES: tuple[Severity, ...] = (1, 2, 3, 4, 5)
"""All severities, mildest first."""


MIN_SIDE = 16
"""Smallest accepted image side in pixels of most transforms."""

DETECTION_SIDE = 32
"""Smallest accepted image side in pixels of the profile DETECTION."""

Levels = Mapping[str, Sequence[Any]]
"""Profile -> parameters of each of its levels, mildest first."""

KINDS = ("noise", "blur", "weather", "digital")
"""Groups by kind of change, as in the publications of ImageNet-C and ImageNet-P."""


def draw_nothing(source: object, image: Image, parameters: object) -> None:
    """Draw nothing and return None, for transforms without a random part."""


@dataclass(frozen=True)
class Transform:
    """One corruption, candidate or perturbation: its published parameters, what it draws, how it uses the draws.

    Attributes:
        name: Name of the transform.
        version: Version number, which must be increased with each change that alters a pixel.
        group: One of KINDS, or the benchmark that it belongs to.
        levels: Its parameters, for the profiles for which it was published.
        apply: Pure function that returns a new image of the same shape: ``apply(image, parameters, draws)``. Of a
            perturbation: draws and returns frames, see :mod:`perturbations.catalogue`.
        draw: Takes all random numbers from a :class:`corruptions.draws.DrawSource`, in the order of the published
            script: ``draw(source, image, parameters)``.
        benchmark: Whether it belongs to the benchmark, not only to its validation.
        keys: Names of the draws, for transforms whose draws are a mapping.
        smallest: Smallest accepted side of an image in pixels.
    """

    name: str
    version: int
    group: str
    levels: Levels
    apply: Callable[..., Image]
    draw: Callable[[Any, Image, Any], Any] = draw_nothing
    benchmark: bool = True
    keys: tuple[str, ...] = ()
    smallest: int = MIN_SIDE

    @property
    def numbers(self) -> range:
        """The levels that have parameters of their own: 1 and so on."""
        return range(1, 1 + max(map(len, self.levels.values())))

    def smallest_in(self, profile: str) -> int:
        """Return the smallest accepted side in pixels of an image in a profile."""
        return max(self.smallest, DETECTION_SIDE) if profile == DETECTION else self.smallest

    def parameters(self, profile: str, level: int) -> Any:
        """Return the published parameters of a level. Those of the last level apply to higher ones.

        Args:
            profile: Name of a profile.
            level: Severity or difficulty, from 1.

        Raises:
            ValueError: If the transform was not published for the profile.
        """
        if profile not in self.levels:
            allowed = " or ".join(map(repr, self.levels))
            raise ValueError(f"profile must be {allowed} for {self.name!r}, not {profile!r}: others were not published")
        rows = self.levels[profile]
        return rows[min(level, len(rows)) - 1]


class Registry:
    """The transforms of one publication: those of the benchmark first, then the others, each in the given order.

    Attributes:
        rows: Name -> transform.
        groups: Group -> names in published order: benchmark, validation, all, and the KINDS within the benchmark.
    """

    def __init__(self, what: str, rows: Iterable[Transform]) -> None:
        """Create a registry.

        Args:
            what: What error messages call a transform, for example "corruption".
            rows: The transforms.
        """
        self._what = what
        self.rows = {row.name: row for row in sorted(rows, key=lambda row: not row.benchmark)}
        published = self.rows.values()
        self.groups: Mapping[str, tuple[str, ...]] = {
            "benchmark": tuple(row.name for row in published if row.benchmark),
            "validation": tuple(row.name for row in published if not row.benchmark),
            "all": tuple(self.rows),
        } | {kind: tuple(row.name for row in published if row.benchmark and row.group == kind) for kind in KINDS}

    def names(self, group: str = "benchmark") -> tuple[str, ...]:
        """Return the names of a group in published order.

        Args:
            group: ``benchmark``, or one of its parts ``noise``, ``blur``, ``weather`` and ``digital``; ``validation``,
                the transforms outside the benchmark; or ``all``.

        Returns:
            The names.

        Raises:
            ValueError: If the group is unknown.
        """
        return find("group", self.groups, group)

    def get(self, name: str) -> Transform:
        """Return a transform, which has its table of parameters and its version.

        Args:
            name: Name of the transform.

        Returns:
            The transform.

        Raises:
            ValueError: If the name is unknown.
        """
        return find(self._what, self.rows, name)


@dataclass(frozen=True)
class Options:
    """Settings that the published scripts did not have. Builds use the defaults.

    Attributes:
        motion: Backend of motion blur: "native" (default), or "imagemagick" (through Wand; slower, needs the library).
        frost_folder: Folder with the six frost textures. None (default) uses those of the package ``imagecorruptions``.
        bank: Tiles for LAION-C, uint8 (N, side, side, 3), see :func:`corruptions.tiles`.

    Raises:
        ValueError: If the motion backend is unknown.
    """

    motion: str = "native"
    frost_folder: str | None = None
    bank: NDArray[np.uint8] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        find("motion", BACKENDS, self.motion)

    def bind(self, parameters: Any) -> Any:
        """Return the parameters with the values of those options for which they have a field.

        Args:
            parameters: One row of a parameter table.

        Returns:
            The same parameters, or a changed copy.
        """
        kind: Any = type(parameters)  # typed Any because mypy does not know that a class is hashable
        selected = {name: getattr(self, name) for name in _option_fields(kind)}
        changed = {name: value for name, value in selected.items() if value is not getattr(parameters, name)}
        return replace(parameters, **changed) if changed else parameters


@cache
def _option_fields(kind: type) -> tuple[str, ...]:
    """Return the names of the options for which a class of parameters has a field."""
    known = {each.name for each in fields(kind)} if is_dataclass(kind) else set()
    return tuple(option.name for option in fields(Options) if option.name in known)


def table(kind: type, **profiles: Sequence[tuple[Any, ...]]) -> Levels:
    """Return a parameter table.

    Args:
        kind: Dataclass of one row.
        **profiles: Profile -> one tuple of field values per severity.

    Returns:
        Profile -> one instance of ``kind`` per severity.
    """
    return {profile: tuple(kind(*row) for row in rows) for profile, rows in profiles.items()}


def with_detection(levels: Levels, **rules: Any) -> Levels:
    """Return a parameter table with the profile DETECTION added: the rows of ImageNet-C, with some fields changed.

    Args:
        levels: The table.
        **rules: Fields that name the arithmetic of the profile, and their values.
    """
    rows = levels["imagenet"]
    return {**levels, DETECTION: tuple(replace(row, **rules) for row in rows) if rules else rows}
