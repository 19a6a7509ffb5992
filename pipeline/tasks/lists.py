"""Lists of class names that are part of the package."""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources


@cache
def shipped_list(name: str) -> tuple[str, ...]:
    """Return the lines of a file in the folder ``data`` of this package."""
    return tuple(resources.files(__package__).joinpath("data", name).read_text("utf-8").split("\n")[:-1])


IMAGENET = shipped_list("imagenet.txt")
"""WordNet ids of the 1,000 classes of ILSVRC2012, sorted, which is the order of the outputs of published models."""


def position_by_name(names: Sequence[str]) -> Mapping[str, int]:
    """Return the position of each name."""
    return {name: position for position, name in enumerate(names)}
