"""The layout of line plots: x in percent of the plot's width, y in CSS pixels from the top."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline.evaluate.metrics.bootstrap import Estimate
from pipeline.evaluate.report.formats import PERCENT, Number
from pipeline.evaluate.report.plots import Curves, Slots, Tick, is_finite, svg_points

LARGE, SMALL = (240, 5), (96, 3)
"""Height in CSS pixels and number of y ticks, of the plot of a data set and of the plots of single transforms."""

INSET = 4.0
"""Distance of the first and last level from the edges, in percent of the width."""


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
class LinePlot:
    """A plot of accuracy by level. ``description`` is the alternative text, with all values."""

    title: str
    description: str
    axis: str
    height: int
    lines: Sequence[Line]
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]


def line_plots(figures: Curves, slots: Slots) -> Iterator[LinePlot]:
    """Yield large plots, one per title."""
    return _line_plots(figures, slots, *LARGE)


def small_line_plots(figures: Curves, slots: Slots) -> Iterator[LinePlot]:
    """Yield small plots, one per title."""
    return _line_plots(figures, slots, *SMALL)


def _line_plots(figures: Curves, slots: Slots, height: int, ticks: int) -> Iterator[LinePlot]:
    """Yield plots whose y axis ranges from 0 to 100 %."""
    y_ticks = [Tick(height * (1 - step / (ticks - 1)), f"{100 * step / (ticks - 1):.0f}") for step in range(ticks)]
    for title, curves in figures.curves.items():
        positions = _positions({*figures.levels, *(level for curve in curves.values() for level in curve)})
        lines = [_line(model, slots[model], curve, positions, figures.axis, height) for model, curve in curves.items()]
        yield LinePlot(
            title,
            f"Line plot, accuracy in percent by {figures.axis}, {title}: {'; '.join(_described(curves))}.",
            figures.axis,
            height,
            lines,
            [Tick(position, str(level)) for level, position in positions.items()],
            y_ticks,
        )


def _positions(levels: Iterable[int]) -> dict[int, float]:
    """Return evenly spaced x positions by level; a single level is centred."""
    ordered = sorted(levels)
    if len(ordered) == 1:
        return {ordered[0]: 50.0}
    return {level: INSET + (100 - 2 * INSET) * index / (len(ordered) - 1) for index, level in enumerate(ordered)}


def _described(curves: Mapping[str, Mapping[int, Estimate]]) -> Iterator[str]:
    for model, curve in curves.items():
        yield f"{model} {', '.join(f'{PERCENT.text(each.value)} at {level}' for level, each in sorted(curve.items()))}"


def _line(
    model: str, slot: int, curve: Mapping[int, Estimate], positions: Mapping[int, float], axis: str, height: int
) -> Line:
    points = [(positions[level], level, each) for level, each in sorted(curve.items()) if is_finite(each)]
    marks = [
        Mark(x, height * (1 - each.value), f"{model}, {axis} {level}: {Number(each)} %") for x, level, each in points
    ]
    upper = [(x, height * (1 - each.high)) for x, _, each in points]
    lower = [(x, height * (1 - each.low)) for x, _, each in reversed(points)]
    return Line(slot, marks, svg_points((mark.x, mark.y) for mark in marks), svg_points([*upper, *lower]))
