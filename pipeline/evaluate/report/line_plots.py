"""The layout of line plots: x in percent of the plot's width, y in CSS pixels from the top."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline.evaluate.metrics.bootstrap import Estimate
from pipeline.evaluate.report.formats import PERCENT, Number
from pipeline.evaluate.report.plots import BudgetCurve, BudgetCurves, Curves, Slots, Tick, is_finite, svg_points

LARGE, SMALL = (240, 5), (96, 3)
"""Height in CSS pixels and number of y ticks, of the plot of a data set and of the plots of single transforms."""

INSET = 4.0
"""Distance of the first and last level from the edges, in percent of the width."""

ROUND_STEPS = (1, 2, 5, 10, 20, 50, 100)
"""Distances between labels of dense plots, whose levels go up to 1000."""

MAX_LABELS = 10
"""Maximum number of these distances."""


@dataclass(frozen=True)
class Mark:
    """A point of a line, with its tooltip."""

    x: float
    y: float
    tip: str


@dataclass(frozen=True)
class Line:
    """The curve of a model: marks, and the SVG ``points`` of the line and of the confidence band."""

    slot: int
    marks: Sequence[Mark]
    points: str
    band: str


@dataclass(frozen=True)
class XAxis:
    """The position of each level in percent of the width, and the labels."""

    positions: Mapping[int, float]
    ticks: Sequence[Tick]


@dataclass(frozen=True)
class LinePlot:
    """A plot of accuracy by level. ``description`` is the alternative text, with all values."""

    title: str
    what: str
    description: str
    axis: str
    height: int
    lines: Sequence[Line]
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]


def line_plots(figures: Curves, slots: Slots) -> Iterator[LinePlot]:
    """Yield large plots, one per title."""
    return (_line_plot(figures, title, slots, LARGE, _equal_distances) for title in figures.curves)


def small_line_plots(figures: Curves, slots: Slots) -> Iterator[LinePlot]:
    """Yield small plots, one per title."""
    return (_line_plot(figures, title, slots, SMALL, _equal_distances) for title in figures.curves)


def dense_line_plots(figures: Curves, slots: Slots) -> Iterator[LinePlot]:
    """Yield large plots of many levels, one per title. Distances are proportional; values may exceed 100 %."""
    for title, curves in figures.curves.items():
        highs = (each.high for curve in curves.values() for each in curve.values() if is_finite(each))
        yield _line_plot(figures, title, slots, LARGE, _proportional, max([1.0, *highs]))


def _line_plot(
    figures: Curves,
    title: str,
    slots: Slots,
    size: tuple[int, int],
    axis: Callable[[Sequence[int]], XAxis],
    top: float = 1.0,
) -> LinePlot:
    """Return a plot whose y axis ranges from 0 to ``top`` and has labels up to 100 %."""
    height, ticks = size
    curves = figures.curves[title]
    x_axis = axis(sorted({*figures.levels, *(level for curve in curves.values() for level in curve)}))
    return LinePlot(
        title,
        figures.what,
        f"Line plot, {figures.what} in percent by {figures.axis}, {title}: {'; '.join(_described(curves))}.",
        figures.axis,
        height,
        [
            _line(model, slots[model], curve, x_axis.positions, figures.axis, height, top)
            for model, curve in curves.items()
        ],
        x_axis.ticks,
        _y_ticks(height, ticks, top),
    )


def _equal_distances(levels: Sequence[int]) -> XAxis:
    """Return an axis with equal distances and a label for each level; a single level is centred."""
    intervals = len(levels) - 1
    positions = {level: _within(index / intervals) if intervals else 50.0 for index, level in enumerate(levels)}
    return XAxis(positions, [Tick(position, str(level)) for level, position in positions.items()])


def _proportional(levels: Sequence[int]) -> XAxis:
    """Return an axis from 0 on whose distances are proportional to those of the levels, with round labels."""
    last = max(levels[-1], 1)
    step = next(step for step in ROUND_STEPS if last <= MAX_LABELS * step)
    scale = (100 - 2 * INSET) / last
    labels = range(0, last + 1, step)
    return XAxis(
        {level: INSET + scale * level for level in levels}, [Tick(INSET + scale * each, str(each)) for each in labels]
    )


def budget_plots(figures: BudgetCurves, slots: Slots) -> Iterator[LinePlot]:
    """Yield the plot of accuracy against budget."""
    height, ticks = LARGE
    described = (
        f"{model} {', '.join(f'{PERCENT.text(each.value)} at {name}' for name, _, each in curve.marks)}"
        for model, curve in figures.curves.items()
    )
    yield LinePlot(
        figures.title,
        "accuracy",
        f"Line plot, accuracy in percent by {figures.axis}, {figures.title}: {'; '.join(described)}.",
        figures.axis,
        height,
        [_budget_line(model, slots[model], curve, height) for model, curve in figures.curves.items()],
        [Tick(_evenly(index, len(figures.ticks)), text) for index, text in enumerate(figures.ticks)],
        _y_ticks(height, ticks),
    )


def _budget_line(model: str, slot: int, curve: BudgetCurve, height: int) -> Line:
    """Return a line through all points of a curve, with marks at some budgets."""
    count = len(curve.accuracies)
    points = [(_evenly(index, count), each) for index, each in enumerate(curve.accuracies)]
    marks = [
        Mark(_within(share), height * (1 - each.value), f"{model}, budget {name}: {Number(each)} %")
        for name, share, each in curve.marks
    ]
    return Line(slot, marks, svg_points((x, height * (1 - each.value)) for x, each in points), _band(points, height))


def _y_ticks(height: int, count: int, top: float = 1.0) -> list[Tick]:
    """Return evenly spaced ticks up to 100 % of an axis that ends at ``top``."""
    marked = [step / (count - 1) for step in range(count)]
    return [Tick(height * (1 - value / top), f"{100 * value:.0f}") for value in marked]


def _within(share: float) -> float:
    """Return the x position of a fraction of the axis."""
    return INSET + (100 - 2 * INSET) * share


def _evenly(index: int, count: int) -> float:
    """Return the x position of one of evenly spaced points."""
    return _within(index / (count - 1))


def _described(curves: Mapping[str, Mapping[int, Estimate]]) -> Iterator[str]:
    for model, curve in curves.items():
        yield f"{model} {', '.join(f'{PERCENT.text(each.value)} at {level}' for level, each in sorted(curve.items()))}"


def _line(
    model: str,
    slot: int,
    curve: Mapping[int, Estimate],
    positions: Mapping[int, float],
    axis: str,
    height: int,
    top: float,
) -> Line:
    points = [(positions[level], level, each) for level, each in sorted(curve.items()) if is_finite(each)]
    marks = [
        Mark(x, height * (1 - each.value / top), f"{model}, {axis} {level}: {Number(each)} %")
        for x, level, each in points
    ]
    band = _band([(x, each) for x, _, each in points], height, top)
    return Line(slot, marks, svg_points((mark.x, mark.y) for mark in marks), band)


def _band(points: Sequence[tuple[float, Estimate]], height: int, top: float = 1.0) -> str:
    """Return the outline of the confidence band through points."""
    upper = [(x, height * (1 - each.high / top)) for x, each in points]
    lower = [(x, height * (1 - each.low / top)) for x, each in reversed(points)]
    return svg_points([*upper, *lower])
