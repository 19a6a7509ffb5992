"""The layout of bar plots: x in percent of the plot's width, y in CSS pixels from the top."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline.evaluate.metrics.bootstrap import Estimate
from pipeline.evaluate.report.formats import PERCENT, Number
from pipeline.evaluate.report.plots import BarGroups, Slots, Tick, is_finite, shortened, words

BAR, BAR_SPACE = 14, 10
"""Height of a bar, and space between the bars of two transforms, in CSS pixels."""

LABEL, LABEL_LINES = 20, 2
"""Maximum number of characters of a line of a label, and of its lines. Names of built-in transforms fit."""

TICK_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 5.0)
MAX_TICKS = 5


@dataclass(frozen=True)
class Bar:
    """A bar: its length and interval in percent of the plot's width, 0 if negative; ``y`` is its centre."""

    slot: int
    y: float
    length: float
    low: float
    high: float
    text: str
    tip: str


@dataclass(frozen=True)
class Bars:
    """The bars of all models for one transform. ``label`` is its name in lines."""

    label: Sequence[str]
    y: float
    bars: Sequence[Bar]


@dataclass(frozen=True)
class BarPlot:
    """The plot of a group of transforms. ``limit`` is the position of the baseline's 100 %, if values are relative."""

    title: str
    description: str
    height: int
    groups: Sequence[Bars]
    ticks: Sequence[Tick]
    limit: float | None


Members = Mapping[str, Mapping[str, Estimate]]
"""Value by transform and model."""


def bar_plots(figures: BarGroups, slots: Slots) -> Iterator[BarPlot]:
    """Yield one plot per group of transforms; all have the same axis."""
    groups = {title: _finite(members) for title, members in figures.groups.items()}
    highs = (each.high for members in groups.values() for values in members.values() for each in values.values())
    ticks = _ticks(max(max(highs, default=0.0), 1.0 if figures.relative else 0.0))
    end = ticks[-1]
    for title, members in groups.items():
        if members:
            drawn, height = _bars(members, slots, end)
            yield BarPlot(
                title,
                f"Bar plot, {figures.what} in percent, {title}: {'; '.join(_described(members))}.",
                height,
                drawn,
                [Tick(100 * tick / end, f"{100 * tick:g}") for tick in ticks],
                100 / end if figures.relative else None,
            )


def _finite(members: Members) -> Members:
    """Return the values that are finite, without empty transforms."""
    finite = {
        name: {model: each for model, each in values.items() if is_finite(each)} for name, values in members.items()
    }
    return {name: values for name, values in finite.items() if values}


def _described(members: Members) -> Iterator[str]:
    for name, values in members.items():
        yield f"{words(name)}: {', '.join(f'{model} {PERCENT.text(each.value)}' for model, each in values.items())}"


def _bars(members: Members, slots: Slots, end: float) -> tuple[list[Bars], int]:
    """Return the bars of all transforms from top to bottom, and their total height."""
    drawn, top = [], 0
    for name, values in members.items():
        bars = [
            Bar(
                slots[model],
                top + BAR * (index + 0.5),
                _percent(each.value, end),
                _percent(each.low, end),
                _percent(each.high, end),
                PERCENT.text(each.value),
                f"{model}, {words(name)}: {Number(each)} %",
            )
            for index, (model, each) in enumerate(values.items())
        ]
        drawn.append(Bars(_label(words(name)), top + BAR * len(bars) / 2, bars))
        top += BAR * len(bars) + BAR_SPACE
    return drawn, top - BAR_SPACE


def _label(name: str) -> list[str]:
    """Return a name in lines, of which the last is truncated."""
    lines = textwrap.wrap(name, LABEL)
    last = " ".join(lines[LABEL_LINES - 1 :])
    return [*lines[: LABEL_LINES - 1], *([shortened(last, LABEL)] if last else [])]


def _percent(value: float, end: float) -> float:
    """Return a length in percent of the plot's width."""
    return 100 * max(value, 0) / end


def _ticks(largest: float) -> list[float]:
    """Return tick values from 0 up to the first multiple of the step that reaches the largest value."""
    step = next((step for step in TICK_STEPS if largest <= step * MAX_TICKS), largest / MAX_TICKS)
    return [step * index for index in range(max(1, math.ceil(largest / step - 1e-9)) + 1)]
