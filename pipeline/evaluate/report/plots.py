"""The data of plots. ``line_plots``, ``bar_plots`` and ``heat_maps`` compute their layout."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from pipeline.evaluate.metrics.bootstrap import Estimate
from pipeline.evaluate.report.calibration import ReliabilityBin
from pipeline.evaluate.report.formats import PERCENT, NumberFormat
from pipeline.text import printable

MAX_LABEL_LENGTH = 19
"""Maximum number of characters of a name beside a plot."""


class PlotKind(Enum):
    """A kind of plot. The value is its CSS class."""

    LINES = "lines"
    SMALL_LINES = "small-plots"
    DENSE_LINES = "dense-lines"
    BUDGETS = "lines budget-plots"
    BARS = "bars-plots"
    HEAT_MAPS = "heat-plots"
    RELIABILITY = "reliability-plots"
    SCATTERS = "scatter-plots"


@dataclass(frozen=True)
class Curves:
    """The data of line plots: accuracy as a function of level.

    Attributes:
        curves: Accuracy by title of the plot, model and level.
        axis: Noun for levels, such as "severity".
        levels: Levels that are on the axis in addition to those of the curves.
        what: Name of the metric, which is a kind of accuracy.
    """

    curves: Mapping[str, Mapping[str, Mapping[int, Estimate]]]
    axis: str
    levels: Sequence[int] = ()
    what: str = "accuracy"


@dataclass(frozen=True)
class BudgetCurve:
    """The accuracy of a model at evenly spaced budgets from 0 to the largest, and at those that are marked.

    Attributes:
        accuracies: Accuracy at each of the evenly spaced budgets.
        marks: Name of a budget, the budget as a fraction of the largest, and accuracy at it.
    """

    accuracies: Sequence[Estimate]
    marks: Sequence[tuple[str, float, Estimate]]


@dataclass(frozen=True)
class BudgetCurves:
    """The data of a plot of accuracy as a function of the budget of an attack.

    Attributes:
        title: Title of the plot.
        axis: Name of the horizontal axis.
        ticks: Names of evenly spaced budgets from 0 to the largest.
        curves: Curve by model.
    """

    title: str
    axis: str
    ticks: Sequence[str]
    curves: Mapping[str, BudgetCurve]


@dataclass(frozen=True)
class BarGroups:
    """The data of bar plots.

    Attributes:
        groups: Value by title of the plot, transform and model.
        what: Name of the metric.
        relative: Whether values are fractions of the baseline's, so that a line marks 100 %.
    """

    groups: Mapping[str, Mapping[str, Mapping[str, Estimate]]]
    what: str
    relative: bool = False


@dataclass(frozen=True)
class Grids:
    """The data of heat maps: accuracy by two factors.

    Attributes:
        grids: Accuracy by title of the map and (column, row).
        what: Names of the two factors.
        of_models: Whether each map is of one model, whose name is the title.
        joint: Text between column and row in the name of a cell.
    """

    grids: Mapping[str, Mapping[tuple[str, str], Estimate]]
    what: tuple[str, str]
    of_models: bool = True
    joint: str = "_"


@dataclass(frozen=True)
class Diagrams:
    """The data of reliability diagrams: accuracy as a function of confidence.

    Attributes:
        diagrams: Bins by model and level.
        axis: Noun for levels, such as "severity".
    """

    diagrams: Mapping[str, Mapping[int, Sequence[ReliabilityBin]]]
    axis: str


@dataclass(frozen=True)
class Axis:
    """The axis of a scatter plot: the name of its metric, the format of values, and whether it is logarithmic."""

    name: str
    format: NumberFormat = PERCENT
    logarithmic: bool = False


@dataclass(frozen=True)
class Point:
    """A model in a scatter plot; ``published`` if the values are those that a paper prints."""

    model: str
    x: float
    y: float
    published: bool = False


@dataclass(frozen=True)
class Scatter:
    """A scatter plot of models; values on a logarithmic axis are above 0."""

    title: str
    x: Axis
    y: Axis
    points: Sequence[Point]


@dataclass(frozen=True)
class Scatters:
    """The data of several scatter plots of the same models."""

    plots: Sequence[Scatter]


@dataclass(frozen=True)
class Plot:
    """The plot of a table: its kind and its data."""

    kind: PlotKind
    figures: Curves | BudgetCurves | BarGroups | Grids | Diagrams | Scatters


@dataclass(frozen=True)
class Tick:
    """A position on an axis, and its label."""

    position: float
    text: str


Slots = Mapping[str, int]
"""Index of the colour and marker of each model, the same on the whole page."""


def words(name: str) -> str:
    """Return the name of a transform with spaces instead of underscores."""
    return printable(name).replace("_", " ")


def shortened(text: str, length: int = MAX_LABEL_LENGTH) -> str:
    """Return a text truncated to a number of characters."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def svg_points(points: Iterable[tuple[float, float]]) -> str:
    """Return points as the value of the SVG attribute of this name."""
    return " ".join(f"{x:.2f},{y:.2f}" for x, y in points)


def is_finite(estimate: Estimate) -> bool:
    """Return whether a value and its interval are finite, so that they can be plotted."""
    return all(map(math.isfinite, (estimate.value, estimate.low, estimate.high)))
