"""The record of one corruption of ImageNet-C-bar or CIFAR-10-C-bar, and the types of its levels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from corruptions.catalogue import Image
from corruptions.draws import DrawSource

Size = tuple[int, int]
"""Height and width of an image in pixels."""

Levels = Mapping[str, tuple[float, ...]]
"""Profile -> level of each severity. A level is the number that the published generator calls severity."""

LEVEL_SCALE = 10
"""A parameter is the level times its value at this level, divided by this level."""


@dataclass(frozen=True)
class BarCorruption:
    """One corruption: its published levels, what it draws, and how it uses the draws.

    ``draw(source, size, level)`` takes all random numbers from a :class:`corruptions.draws.DrawSource`, in the order of
    the published generator. ``apply(image, level, draws)`` is a pure function that returns a new image of the same
    shape. ``levels`` has the profiles for which the corruption was published. ``version`` must be increased with each
    change that alters a pixel.
    """

    name: str
    levels: Levels
    draw: Callable[[DrawSource, Size, float], Any]
    apply: Callable[[Image, float, Any], Image]
    version: int = 1

    def level(self, profile: str, severity: int) -> float:
        """Return the published level of one severity.

        Args:
            profile: Name of a profile.
            severity: Severity, 1..5.

        Returns:
            The level.

        Raises:
            ValueError: If the corruption was not published for the profile.
        """
        if profile not in self.levels:
            allowed = " or ".join(map(repr, self.levels))
            raise ValueError(f"profile must be {allowed} for {self.name!r}, not {profile!r}: others were not published")
        return self.levels[profile][severity - 1]

    def make(self, image: Image, level: float, source: DrawSource) -> Image:
        """Return the corrupted image.

        Args:
            image: uint8 RGB (H, W, 3). It is not modified.
            level: Level, of which the published ones are in ``levels``.
            source: What to draw random numbers from.

        Returns:
            A new uint8 RGB array (H, W, 3).
        """
        return self.apply(image, level, self.draw(source, (image.shape[0], image.shape[1]), level))


def scaled(level: float, top: float) -> float:
    """Return a parameter at a level, in the order of operations of the published generator.

    Args:
        level: The level.
        top: Value of the parameter at level 10.

    Returns:
        The value at the level.
    """
    return level * top / LEVEL_SCALE


def draw_nothing(source: object, size: Size, level: float) -> None:
    """Draw nothing and return None, for corruptions without a random part."""
