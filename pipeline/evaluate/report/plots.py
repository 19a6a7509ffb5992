"""What tables have plotted. How plots are drawn is in ``line_plots``, ``bar_plots`` and ``heat_maps``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from pipeline.evaluate.metrics.bootstrap import Estimate
from pipeline.text import printable

LONGEST_LABEL = 19
"""Letters of a name that have room beside bars; names of transforms have up to 17."""


class PlotKind(Enum):
    """A kind of plot. The value is the class of its style."""

    LINES = "lines"
    SMALL_LINES = "small-plots"
    BARS = "bars-plots"
    HEAT_MAPS = "heat-plots"


@dataclass(frozen=True)
class Curves:
    """Accuracy against level: title of a plot -> model -> level -> accuracy.

    ``axis`` is what levels are called; the axis has the ``levels`` named here besides those of the curves.
    """

    curves: Mapping[str, Mapping[str, Mapping[int, Estimate]]]
    axis: str
    levels: Sequence[int] = ()


@dataclass(frozen=True)
class BarGroups:
    """A figure as bars: title of a plot -> transform -> model -> figure.

    ``what`` names the figure; a ``relative`` one is a share of the baseline's, whose 100 % is drawn.
    """

    groups: Mapping[str, Mapping[str, Mapping[str, Estimate]]]
    what: str
    relative: bool = False


@dataclass(frozen=True)
class Grids:
    """Accuracy by two choices: model -> (column, row) -> accuracy, and what columns and rows are called."""

    grids: Mapping[str, Mapping[tuple[str, str], Estimate]]
    what: tuple[str, str]


@dataclass(frozen=True)
class Plot:
    """Which kind of plot shows a table's figures, and these figures."""

    kind: PlotKind
    figures: Curves | BarGroups | Grids


@dataclass(frozen=True)
class Tick:
    """A place on an axis and its label."""

    place: float
    text: str


Slots = Mapping[str, int]
"""Model -> its place in the order of colours and marks, the same on the whole page."""


def words(name: str) -> str:
    """Return a transform's name as words."""
    return printable(name).replace("_", " ")


def shortened(text: str, letters: int = LONGEST_LABEL) -> str:
    """Return a text cut to a number of letters."""
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def is_finite(each: Estimate) -> bool:
    """Return whether a figure has a place on a plot."""
    return all(map(math.isfinite, (each.value, each.low, each.high)))
