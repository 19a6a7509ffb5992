"""What a corruption is, and the types its parameter table is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.motion import BACKENDS

Image = NDArray[np.uint8]
"""RGB, (H, W, 3), 0..255."""

PROFILE_SIDES: Mapping[str, int] = {"imagenet": 224, "inception": 299, "tiny": 64, "cifar": 32}
"""Side in pixels of the images that each profile's numbers were published for."""

SEVERITIES = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Corruption:
    """One corruption: what it draws, what it does with that, and its published numbers.

    ``draw(source, image, parameters)`` asks a :class:`corruptions.draws.DrawSource` for every random number, in the
    order in which the published script asked for them; ``apply(image, parameters, draws)`` is pure.
    ``version`` goes up with any change that moves a pixel.
    """

    name: str
    group: str
    benchmark: bool
    version: int
    table: Mapping[str, tuple[Any, ...]]
    draw: Callable[[Any, Image, Any], Any]
    apply: Callable[[Image, Any, Any], Image]

    def parameters(self, profile: str, severity: int) -> Any:
        """Return the published parameters of one severity (1..5) in one profile."""
        return self.table[profile][severity - 1]

    def make(self, image: Image, parameters: Any, source: Any) -> Image:
        """Return the corrupted image."""
        return self.apply(image, parameters, self.draw(source, image, parameters))


@dataclass(frozen=True)
class Options:
    """Choices that the published scripts did not have; the defaults are what a build uses.

    ``motion``: "native" (our kernel) or "imagemagick" (through Wand, slower, needs the library).
    ``frost_folder``: a folder with the six frost textures; None takes those of the package ``imagecorruptions``.
    Raises ValueError for an unknown motion.
    """

    motion: str = "native"
    frost_folder: str | None = None

    def __post_init__(self) -> None:
        if self.motion not in BACKENDS:
            raise ValueError(f"unknown motion {self.motion!r}; choose one of {', '.join(BACKENDS)}")

    def bind(self, parameters: Any) -> Any:
        """Return the parameters with those of these options that they have a field for."""
        kind: Any = type(parameters)  # hashable, which mypy does not see
        chosen = {name: getattr(self, name) for name in _options_of(kind)}
        changed = {name: value for name, value in chosen.items() if value != getattr(parameters, name)}
        return replace(parameters, **changed) if changed else parameters


@cache
def _options_of(kind: type) -> tuple[str, ...]:
    """Return the options that parameters of a kind have a field for."""
    known = {field.name for field in fields(kind)} if is_dataclass(kind) else set()
    return tuple(field.name for field in fields(Options) if field.name in known)


def table(kind: type, **profiles: Sequence[tuple[Any, ...]]) -> Mapping[str, tuple[Any, ...]]:
    """Return a parameter table: one row of ``kind`` per severity for each of the four profiles."""
    return {profile: tuple(kind(*row) for row in rows) for profile, rows in profiles.items()}


def draws_nothing(source: object, image: Image, parameters: object) -> None:
    """For the corruptions that have no random part."""
