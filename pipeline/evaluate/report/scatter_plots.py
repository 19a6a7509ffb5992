"""The layout of scatter plots: x in percent of the plot's width, y in CSS pixels from the top.

Labels are placed for a narrow plot. In a wider one, points move apart and labels keep their distance from their points,
so that labels that do not overlap in the narrow plot overlap in no wider one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from pipeline.evaluate.report.plots import Axis, Point, Scatter, Scatters, Slots, Tick, shortened
from pipeline.evaluate.report.published import MARK

NARROW = 250.0
"""Width in CSS pixels that labels are placed for: less than that of a plot on a screen of 360 pixels."""

HEIGHT, EXTRA_HEIGHT = 200, 8
"""Height in CSS pixels of a plot without points, and what each point adds."""

LETTER, LINE = 6.6, 13.0
"""Width of a letter and height of a line of labels, in CSS pixels, rounded up."""

LONGEST = 17
"""Maximum number of characters of a label."""

MARK_SIZE = 6.0
"""Half the size of the mark of a point in CSS pixels, with a margin."""

GAP = 9.0
"""Distance of a label from its point in CSS pixels."""

PADDING = 0.07
"""Empty part of an axis on both sides."""

MAX_TICKS = 5
NICE = (1, 2, 2.5, 5, 10)
"""Steps between ticks, times a power of ten."""


@dataclass(frozen=True)
class Leader:
    """A line from a point to its label, relative to the point."""

    x: float
    y: float


@dataclass(frozen=True)
class Dot:
    """A point. The label's position and ``anchor`` are relative to it; ``slot`` is None for published figures."""

    slot: int | None
    x: float
    y: float
    tip: str
    label: str
    label_x: float
    label_y: float
    anchor: str
    leader: Leader | None


@dataclass(frozen=True)
class ScatterPlot:
    """A scatter plot. ``description`` is the alternative text, with all values."""

    title: str
    description: str
    axis: str
    height: int
    dots: Sequence[Dot]
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]


@dataclass(frozen=True)
class _Box:
    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: _Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


@dataclass(frozen=True)
class _Label:
    """A possible position of a label, relative to its point."""

    x: float
    y: float
    anchor: str
    leader: Leader | None = None

    def box(self, x: float, y: float, width: float) -> _Box:
        """Return the area of the label of a point at (x, y) in pixels."""
        left = x + self.x - {"start": 0.0, "middle": width / 2, "end": width}[self.anchor]
        return _Box(left, y + self.y - LINE / 2, left + width, y + self.y + LINE / 2)


@dataclass(frozen=True)
class _Scale:
    """A scale from values to fractions 0..1 of an axis, and its ticks."""

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    logarithmic: bool

    def __call__(self, value: float) -> float:
        value = math.log10(value) if self.logarithmic else value
        return (value - self.low) / (self.high - self.low)


def scatter_plots(figures: Scatters, slots: Slots) -> Iterator[ScatterPlot]:
    """Yield one plot per metric."""
    for scatter in figures.plots:
        height = HEIGHT + EXTRA_HEIGHT * len(scatter.points)
        x, y = (
            _scale(axis, [getattr(point, name) for point in scatter.points])
            for name, axis in (("x", scatter.x), ("y", scatter.y))
        )
        places = [(x(point.x), height * (1 - y(point.y))) for point in scatter.points]
        labels = _labels([_name(point) for point in scatter.points], places, height)
        yield ScatterPlot(
            f"{scatter.title}: {scatter.y.name}",
            f"Scatter plot, {scatter.title}, {scatter.y.name} by {scatter.x.name}: {'; '.join(_described(scatter))}.",
            scatter.x.name,
            height,
            [
                _dot(scatter, point, place, label, slots)
                for point, place, label in zip(scatter.points, places, labels, strict=True)
            ],
            [Tick(100 * position, text) for position, text in x.ticks],
            [Tick(height * (1 - position), text) for position, text in y.ticks],
        )


def _name(point: Point) -> str:
    """Return the text of a label. Published figures have another mark, so the name needs none."""
    return shortened(point.model.removesuffix(f" {MARK}"), LONGEST)


def _described(scatter: Scatter) -> Iterator[str]:
    for point in scatter.points:
        yield f"{point.model} {scatter.y.format.text(point.y)} at {scatter.x.format.text(point.x)}"


def _dot(scatter: Scatter, point: Point, place: tuple[float, float], label: _Label | None, slots: Slots) -> Dot:
    x, y = scatter.x, scatter.y
    return Dot(
        None if point.published else slots[point.model],
        100 * place[0],
        place[1],
        f"{point.model}: {x.name} {x.format.text(point.x)}, {y.name} {y.format.text(point.y)}",
        _name(point) if label else "",
        label.x if label else 0.0,
        label.y if label else 0.0,
        label.anchor if label else "start",
        label.leader if label else None,
    )


# Labels


def _labels(names: Sequence[str], places: Sequence[tuple[float, float]], height: float) -> list[_Label | None]:
    """Return the first position of each label that overlaps no point and no earlier label; None if there is none.

    Args:
        names: Text of each label.
        places: Position of each point: x as a fraction of the width, y in pixels.
        height: Height of the plot in pixels.
    """
    points = [(x * NARROW, y) for x, y in places]
    taken = [_Box(x - MARK_SIZE, y - MARK_SIZE, x + MARK_SIZE, y + MARK_SIZE) for x, y in points]
    found: dict[int, _Label] = {}
    for candidates, (index, (x, y)) in product((NEAR, list(_far(height))), enumerate(points)):
        boxes = ((label, label.box(x, y, LETTER * len(names[index]))) for label in candidates if index not in found)
        for label, box in boxes:
            inside = box.left >= 0 and box.right <= NARROW and box.top >= 0 and box.bottom <= height
            if inside and not any(box.overlaps(other) for other in taken):
                found[index] = label
                taken.append(box)
                break
    return [found.get(index) for index in range(len(points))]


NEAR = (
    _Label(GAP, 0, "start"),
    _Label(-GAP, 0, "end"),
    _Label(0, -GAP - LINE / 2, "middle"),
    _Label(0, GAP + LINE / 2, "middle"),
    *(_Label(x, y, anchor) for y in (-LINE, LINE) for x, anchor in ((GAP / 2, "start"), (-GAP / 2, "end"))),
)
"""Positions of a label beside, above, below and diagonal to its point."""


def _far(height: float) -> Iterator[_Label]:
    """Yield positions of a label above and below its point, the nearest first, with a line from the point."""
    for step in range(1, int(height / LINE)):
        for y in (-step * LINE, step * LINE):
            for side, anchor in ((1, "start"), (-1, "end")):
                yield _Label(side * 1.5 * GAP, y, anchor, Leader(side * 1.3 * GAP, y))


# Scales


def _scale(axis: Axis, values: Sequence[float]) -> _Scale:
    """Return the scale of an axis that covers all values."""
    shown = [math.log10(value) if axis.logarithmic else value for value in values]
    least, most = min(shown), max(shown)
    padding = PADDING * (most - least) or 0.05
    low, high = least - padding, most + padding
    factor = axis.format.scale
    if axis.logarithmic:
        marks = [(mark / factor, f"{mark:g}") for mark in _nice_powers(10**low * factor, 10**high * factor)]
        ticks = [((math.log10(value) - low) / (high - low), text) for value, text in marks]
    else:
        ticks = [((mark / factor - low) / (high - low), f"{mark:g}") for mark in _nice(low * factor, high * factor)]
    return _Scale(low, high, ticks, axis.logarithmic)


def _nice(low: float, high: float) -> list[float]:
    """Return up to ``MAX_TICKS`` multiples of a nice step between two values."""
    power = 10.0 ** math.floor(math.log10((high - low) / MAX_TICKS))
    steps = (power * nice for nice in NICE)
    step = next(step for step in steps if math.floor(high / step) - math.ceil(low / step) < MAX_TICKS)
    return [round(step * index, 10) for index in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _nice_powers(low: float, high: float) -> list[float]:
    """Return powers of ten between two values, with their multiples by 2 and 5 if that is not too many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        marks = [factor * 10.0**decade for decade in decades for factor in factors]
        inside = [mark for mark in marks if low <= mark <= high]
        if len(inside) <= MAX_TICKS:
            break
    return inside if len(inside) > 1 else _nice(low, high)
