"""The levels of ImageNet-C-bar and CIFAR-10-C-bar: the numbers that the published generator calls severities."""

Size = tuple[int, int]
"""Height and width of an image in pixels."""

LEVEL_SCALE = 10
"""A parameter is the level times its value at this level, divided by this level."""


def scaled(level: float, top: float) -> float:
    """Return a parameter at a level, in the order of operations of the published generator.

    Args:
        level: The level.
        top: Value of the parameter at level 10.

    Returns:
        The value at the level.
    """
    return level * top / LEVEL_SCALE
