"""Plots of a report as places: across in percent of the plot's width, downwards in CSS pixels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pipeline.evaluate.metrics.alexnet import SEVERITIES
from pipeline.evaluate.report.estimates import Estimate
from pipeline.evaluate.report.formats import PERCENT, shown
from pipeline.evaluate.report.tables import accuracy, marked_names, rows_of, transforms
from pipeline.text import printable

CURVE_HEIGHT, SMALL_HEIGHT = 240, 96
"""Of the plot of a data set, and of the small ones of its corruptions."""


BAR, BAR_SPACE, HEAT_ROW = 14, 10, 30
"""Height of a bar, space between the bars of two transforms, height of a row of the heat map."""


INSET = 4.0
"""Percent of the width between the edges of a plot and its first and last severity."""


TICK_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 5.0)


MOST_TICKS = 5


MOST_WIDE_COLUMNS = 4


LONGEST_LABEL, HEADING_LETTERS = 19, 30
"""Letters of a name that have room beside bars (names of transforms have up to 17), and above all columns of a map."""


EXTRA_GROUP = "not in the benchmark"


@dataclass(frozen=True)
class Tick:
    """A place on an axis, and what stands there."""

    place: float
    text: str


@dataclass(frozen=True)
class Mark:
    """A point of a line; ``tip`` is shown to who points at it."""

    x: float
    y: float
    tip: str


@dataclass(frozen=True)
class Line:
    """One model: marks, the line through them, and the outline of its band of intervals, as ``points`` of SVG."""

    slot: int
    marks: Sequence[Mark]
    points: str
    band: str


@dataclass(frozen=True)
class LinePlot:
    """Accuracy against severity. ``description`` says in words what the plot shows, with its figures."""

    title: str
    description: str
    height: int
    lines: Sequence[Line]
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]


@dataclass(frozen=True)
class Bar:
    """``length``, ``low`` and ``high`` of its interval in percent of the width; ``y`` is the middle."""

    slot: int
    y: float
    length: float
    low: float
    high: float
    text: str
    tip: str


@dataclass(frozen=True)
class Bars:
    """The bars of all models under one transform."""

    name: str
    y: float
    bars: Sequence[Bar]


@dataclass(frozen=True)
class BarPlot:
    """One group of transforms. ``limit``: where the baseline's 100 % is, if that is what is shown."""

    title: str
    description: str
    height: int
    groups: Sequence[Bars]
    ticks: Sequence[Tick]
    limit: float | None


@dataclass(frozen=True)
class Cell:
    """``strength`` of its colour, 0..1: how far below the best cell, of the largest such distance in any plot."""

    x: float
    y: float
    strength: float
    text: str
    tip: str


@dataclass(frozen=True)
class Heading:
    """Words one below the other above a column."""

    place: float
    words: Sequence[str]


@dataclass(frozen=True)
class HeatMap:
    """Accuracy of one model by decoder (across) and resize operator (downwards); ``empty`` places have no figure."""

    title: str
    slot: int
    description: str
    height: int
    width: float
    columns: Sequence[Heading]
    rows: Sequence[Tick]
    cells: Sequence[Cell]
    empty: Sequence[tuple[float, float]]


Models = Mapping[str, Any]
"""What a model is called -> its summary of one data set."""


Slots = Mapping[str, int]
"""Model -> its place in the order of colours and marks, the same on the whole page."""


def _no_plots(models: Models, slots: Slots) -> Iterator[LinePlot]:
    yield from ()


def _curve(models: Models, slots: Slots) -> Iterator[LinePlot]:
    found = {model: each.curve for model, each in models.items() if each.curve}
    if found:
        yield _line_plot("mean over the corruptions of the benchmark", found, slots, CURVE_HEIGHT, 5)


def _small_curves(models: Models, slots: Slots) -> Iterator[LinePlot]:
    by_name = {model: rows_of(each) for model, each in models.items()}
    for name, words in marked_names(models).items():
        rows = {model: each.get(name) for model, each in by_name.items()}
        found = {
            model: {severity: accuracy(error) for severity, error in row.errors.items()}
            for model, row in rows.items()
            if row
        }
        yield _line_plot(_words(words), found, slots, SMALL_HEIGHT, 3)


def _line_plot(
    title: str, curves: Mapping[str, Mapping[int, Estimate]], slots: Slots, height: int, ticks: int
) -> LinePlot:
    """``curves``: model -> severity -> accuracy. The vertical axis is 0 to 100 % in every plot."""
    severities = sorted({*SEVERITIES, *(severity for curve in curves.values() for severity in curve)})
    places = {s: INSET + (100 - 2 * INSET) * index / (len(severities) - 1) for index, s in enumerate(severities)}
    lines = [
        _line(model, slots[model], [(places[s], s, each) for s, each in sorted(curve.items()) if _drawn(each)], height)
        for model, curve in curves.items()
    ]
    told = (
        f"{model} {', '.join(f'{PERCENT.words(each.value)} at {severity}' for severity, each in sorted(curve.items()))}"
        for model, curve in curves.items()
    )
    return LinePlot(
        title,
        f"Accuracy in percent against severity, {title}: {'; '.join(told)}.",
        height,
        lines,
        [Tick(place, str(severity)) for severity, place in places.items()],
        [Tick(height * (1 - step / (ticks - 1)), f"{100 * step / (ticks - 1):.0f}") for step in range(ticks)],
    )


def _line(model: str, slot: int, points: Sequence[tuple[float, int, Estimate]], height: int) -> Line:
    marks = [
        Mark(x, height * (1 - each.value), f"{model}, severity {severity}: {shown(each)} %")
        for x, severity, each in points
    ]
    upper = [(x, height * (1 - each.high)) for x, _, each in points]
    lower = [(x, height * (1 - each.low)) for x, _, each in reversed(points)]
    return Line(slot, marks, _points((mark.x, mark.y) for mark in marks), _points([*upper, *lower]))


def _points(places: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.2f},{y:.2f}" for x, y in places)


def _bar_plots(field: str, relative: bool, models: Models, slots: Slots) -> Iterator[BarPlot]:
    """A plot of this ``field`` for each group of transforms, all with the same axis."""
    rows = transforms(models)
    by_name = {model: rows_of(each) for model, each in models.items()}
    found = {name: dict(_values(by_name, name, field)) for name in rows}
    largest = max((each.high for values in found.values() for each in values.values()), default=0.0)
    ticks = _ticks(max(largest, 1.0 if relative else 0.0))
    end = ticks[-1]
    groups: dict[str, dict[str, Mapping[str, Estimate]]] = {}
    for name, row in rows.items():
        if found[name]:
            group = printable(row.group) if row.benchmark else EXTRA_GROUP
            groups.setdefault(group, {})[name] = found[name]
    for title, members in groups.items():
        told = "; ".join(
            f"{_words(name)}: {', '.join(f'{model} {PERCENT.words(each.value)}' for model, each in values.items())}"
            for name, values in members.items()
        )
        drawn, height = _bars(members, slots, end)
        yield BarPlot(
            title,
            f"Bars, {field.replace('_', ' ')} in percent, {title}: {told}.",
            height,
            drawn,
            [Tick(100 * tick / end, f"{100 * tick:g}") for tick in ticks],
            100 / end if relative else None,
        )


def _values(models: Mapping[str, Mapping[str, Any]], name: str, field: str) -> Iterator[tuple[str, Estimate]]:
    for model, rows in models.items():
        value = getattr(rows.get(name), field, None)
        if value is not None and _drawn(value):
            yield model, value


def _bars(members: Mapping[str, Mapping[str, Estimate]], slots: Slots, end: float) -> tuple[list[Bars], int]:
    """The bars of the transforms one below the other, and how high they are together."""
    drawn, top = [], 0
    for name, values in members.items():
        bars = [
            Bar(
                slots[model],
                top + BAR * (index + 0.5),
                100 * each.value / end,
                100 * each.low / end,
                100 * each.high / end,
                PERCENT.words(each.value),
                f"{model}, {_words(name)}: {shown(each)} %",
            )
            for index, (model, each) in enumerate(values.items())
        ]
        drawn.append(Bars(_short(_words(name)), top + BAR * len(bars) / 2, bars))
        top += BAR * len(bars) + BAR_SPACE
    return drawn, top - BAR_SPACE


def _ticks(largest: float) -> list[float]:
    """From 0 to the first round number that is not below the largest value."""
    step = next((step for step in TICK_STEPS if largest <= step * MOST_TICKS), largest / MOST_TICKS)
    return [step * index for index in range(max(1, math.ceil(largest / step - 1e-9)) + 1)]


def _heat_maps(models: Models, slots: Slots) -> Iterator[HeatMap]:
    """A map for each model, all with the same places and the same scale of colours."""
    rows = [row for each in models.values() for row in each.rows]
    decoders = list(dict.fromkeys(row.decoder for row in rows))
    operators = list(dict.fromkeys(row.resize for row in rows))
    below = {
        model: {row.name: max(other.accuracy.value for other in each.rows) - row.accuracy.value for row in each.rows}
        for model, each in models.items()
    }
    largest = max((distance for each in below.values() for distance in each.values()), default=0.0) or 1.0
    width = 100 / max(len(decoders), 1)
    for model, each in models.items():
        pairs = {(row.decoder, row.resize): row for row in each.rows}
        places = {
            (d, r): (decoders.index(d) * width, operators.index(r) * HEAT_ROW) for d in decoders for r in operators
        }
        cells = [
            Cell(
                *places[pair],
                below[model][row.name] / largest,
                PERCENT.words(row.accuracy.value),
                f"{model}, {printable(row.name)}: {shown(row.accuracy)} %",
            )
            for pair, row in pairs.items()
        ]
        told = ", ".join(f"{printable(row.name)} {PERCENT.words(row.accuracy.value)}" for row in pairs.values())
        yield HeatMap(
            model,
            slots[model],
            f"Accuracy of {model} in percent by decoder and resize operator: {told}.",
            HEAT_ROW * len(operators),
            width,
            _headings(decoders),
            [Tick((index + 0.5) * HEAT_ROW, _short(printable(name))) for index, name in enumerate(operators)],
            cells,
            [place for pair, place in places.items() if pair not in pairs],
        )


def _words(name: str) -> str:
    return printable(name).replace("_", " ")


def _short(text: str, letters: int = LONGEST_LABEL) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def _headings(names: Sequence[str]) -> list[Heading]:
    """The parts of each name, at most three; where columns are narrow, every other heading stands a line higher."""
    narrow = len(names) > MOST_WIDE_COLUMNS
    letters = max(3, HEADING_LETTERS * (1 + narrow) // max(len(names), 1))
    return [
        Heading(
            (index + 0.5) * 100 / len(names),
            [_short(word, letters) for word in printable(name).split("-")[:3]] + [""] * (narrow and index % 2),
        )
        for index, name in enumerate(names)
    ]


def _drawn(each: Estimate) -> bool:
    """Whether it has a place on a plot."""
    return all(map(math.isfinite, (each.value, each.low, each.high)))


PLOTS: Mapping[str, tuple[str, Callable[[Models, Slots], Iterator[Any]]]] = {
    "curve": ("lines", _curve),
    "accuracies": ("small", _small_curves),
    "corruption errors": ("bars", partial(_bar_plots, "corruption_error", True)),
    "mean errors": ("bars", partial(_bar_plots, "mean_error", False)),
    "flips": ("bars", partial(_bar_plots, "flip_probability", False)),
    "rates": ("bars", partial(_bar_plots, "flip_rate", True)),
    "pairs": ("heat", _heat_maps),
}
"""What a table is about -> how the plots above it are drawn, and where their marks are."""
