"""The record of one corruption, and the types of its parameter table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.literals import Severity
from corruptions.motion import BACKENDS
from corruptions.registry import find

Image = NDArray[np.uint8]
"""RGB image, uint8 (H, W, 3), 0..255."""

PROFILE_SIDES: Mapping[str, int] = {"imagenet": 224, "inception": 299, "tiny": 64, "cifar": 32}
"""Profile -> side in pixels of the images for which its parameters were published."""

SEVERITIES: tuple[Severity, ...] = (1, 2, 3, 4, 5)
"""All severities, mildest first."""


@dataclass(frozen=True)
class Corruption:
    """One corruption: what it draws, how it uses the draws, and its published parameters.

    ``draw(source, image, parameters)`` takes all random numbers from a :class:`corruptions.draws.DrawSource`, in the
    order of the published script. ``apply(image, parameters, draws)`` is a pure function. ``table`` maps each profile
    to one row of parameters per severity. ``benchmark`` is false for corruptions in the extra group. ``version`` must
    be increased with each change that alters a pixel.
    """

    name: str
    group: str
    benchmark: bool
    version: int
    table: Mapping[str, tuple[Any, ...]]
    draw: Callable[[Any, Image, Any], Any]
    apply: Callable[[Image, Any, Any], Image]

    def parameters(self, profile: str, severity: int) -> Any:
        """Return the published parameters of one severity.

        Args:
            profile: Name of a profile.
            severity: Severity, 1..5.

        Returns:
            One row of the parameter table.
        """
        return self.table[profile][severity - 1]

    def make(self, image: Image, parameters: Any, source: Any) -> Image:
        """Return the corrupted image.

        Args:
            image: uint8 RGB (H, W, 3). It is not modified.
            parameters: One row of the parameter table.
            source: The :class:`corruptions.draws.DrawSource` to draw random numbers from.

        Returns:
            A new uint8 RGB array (H, W, 3).
        """
        return self.apply(image, parameters, self.draw(source, image, parameters))


@dataclass(frozen=True)
class Options:
    """Settings that the published scripts did not have. Builds use the defaults.

    Attributes:
        motion: Backend of motion blur: "native" (default), or "imagemagick" (through Wand; slower, needs the library).
        frost_folder: Folder with the six frost textures. None (default) uses those of the package ``imagecorruptions``.

    Raises:
        ValueError: If the motion backend is unknown.
    """

    motion: str = "native"
    frost_folder: str | None = None

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
        changed = {name: value for name, value in selected.items() if value != getattr(parameters, name)}
        return replace(parameters, **changed) if changed else parameters


@cache
def _option_fields(kind: type) -> tuple[str, ...]:
    """Return the names of the options for which a class of parameters has a field."""
    known = {field.name for field in fields(kind)} if is_dataclass(kind) else set()
    return tuple(field.name for field in fields(Options) if field.name in known)


def table(kind: type, **profiles: Sequence[tuple[Any, ...]]) -> Mapping[str, tuple[Any, ...]]:
    """Return a parameter table.

    Args:
        kind: Dataclass of one row.
        **profiles: Profile -> one tuple of field values per severity.

    Returns:
        Profile -> one instance of ``kind`` per severity.
    """
    return {profile: tuple(kind(*row) for row in rows) for profile, rows in profiles.items()}


def draw_nothing(source: object, image: Image, parameters: object) -> None:
    """Draw nothing and return None, for corruptions without a random part."""
