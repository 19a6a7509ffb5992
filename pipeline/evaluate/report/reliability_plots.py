"""The layout of reliability diagrams: x in percent of the plot's width, y in CSS pixels from the top."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline.evaluate.report.calibration import ReliabilityBin
from pipeline.evaluate.report.formats import COUNT, PERCENT
from pipeline.evaluate.report.plots import Diagrams, Slots, Tick, svg_points

HEIGHT = 120
"""Height in CSS pixels."""

TICKS = (0.0, 0.5, 1.0)
"""Labelled confidences and accuracies."""

LARGEST = 5.0
"""Radius in CSS pixels of the mark of a bin that contains all images; the area is proportional to their number."""

SMALLEST = 1.2
"""Smallest radius in CSS pixels."""

FAINTEST = 0.3
"""Opacity of the lowest of several levels."""


@dataclass(frozen=True)
class Spot:
    """The mark of a bin, with its tooltip."""

    x: float
    y: float
    radius: float
    tip: str


@dataclass(frozen=True)
class Shade:
    """The opacity of a level, for the legend."""

    text: str
    opacity: float


@dataclass(frozen=True)
class ReliabilityCurve:
    """The bins of a level: marks, and the SVG ``points`` of the line."""

    opacity: float
    spots: Sequence[Spot]
    points: str


@dataclass(frozen=True)
class ReliabilityPlot:
    """The reliability diagram of one model. ``shades`` has the levels of all models if there are several."""

    title: str
    slot: int
    description: str
    height: int
    curves: Sequence[ReliabilityCurve]
    shades: Sequence[Shade]
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]


def reliability_plots(figures: Diagrams, slots: Slots) -> Iterator[ReliabilityPlot]:
    """Yield one diagram per model, with one curve per level: the higher the level, the stronger the colour."""
    levels = sorted({level for curves in figures.diagrams.values() for level in curves})
    step = (1 - FAINTEST) / max(len(levels) - 1, 1)
    opacities = {level: 1 - step * index for index, level in enumerate(reversed(levels))}
    several = len(levels) > 1
    names = {level: f"{figures.axis} {level}" if several else "" for level in levels}
    for model, curves in figures.diagrams.items():
        yield ReliabilityPlot(
            model,
            slots[model],
            f"Reliability diagram of {model}, accuracy by confidence in percent: {_described(curves, names)}.",
            HEIGHT,
            [_curve(model, bins, names[level], opacities[level]) for level, bins in sorted(curves.items())],
            [Shade(names[level], opacities[level]) for level in levels] if several else [],
            [Tick(100 * tick, f"{100 * tick:.0f}") for tick in TICKS],
            [Tick(HEIGHT * (1 - tick), f"{100 * tick:.0f}") for tick in TICKS],
        )


def _described(curves: Mapping[int, Sequence[ReliabilityBin]], names: Mapping[int, str]) -> str:
    values = {
        names[level]: ", ".join(f"{PERCENT.text(each.accuracy)} at {PERCENT.text(each.confidence)}" for each in bins)
        for level, bins in sorted(curves.items())
    }
    return "; ".join(f"{name} {text}".strip() for name, text in values.items())


def _curve(model: str, bins: Sequence[ReliabilityBin], name: str, opacity: float) -> ReliabilityCurve:
    total = sum(each.images for each in bins)
    who = f"{model}, {name}" if name else model
    spots = [
        Spot(
            100 * each.confidence,
            HEIGHT * (1 - each.accuracy),
            max(LARGEST * (each.images / total) ** 0.5, SMALLEST),
            f"{who}: accuracy {PERCENT.text(each.accuracy)} %, mean confidence {PERCENT.text(each.confidence)} %, "
            f"{COUNT.text(each.images)} predictions",
        )
        for each in bins
    ]
    return ReliabilityCurve(opacity, spots, svg_points((spot.x, spot.y) for spot in spots))
