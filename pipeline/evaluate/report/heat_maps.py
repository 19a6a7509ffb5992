"""The layout of heat maps: x in percent of the plot's width, y in CSS pixels from the top."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline.evaluate.metrics.bootstrap import Estimate
from pipeline.evaluate.report.formats import PERCENT, Number
from pipeline.evaluate.report.plots import Grids, Slots, Tick, shortened
from pipeline.text import printable

ROW = 30
"""Height of a row in CSS pixels."""

MAX_WIDE_COLUMNS = 4
HEADING_LENGTH = 30
"""Number of characters that fit above all columns together."""

Grid = Mapping[tuple[str, str], Estimate]


@dataclass(frozen=True)
class HeatCell:
    """A cell. ``strength`` of the colour, 0..1: distance below the map's best cell, relative to the largest one."""

    x: float
    y: float
    strength: float
    text: str
    tip: str


@dataclass(frozen=True)
class Heading:
    """The heading of a column: words from top to bottom."""

    position: float
    words: Sequence[str]


@dataclass(frozen=True)
class HeatMap:
    """A heat map. ``slot`` is None unless it is of one model; ``empty`` lists positions of cells without a value."""

    title: str
    slot: int | None
    description: str
    height: int
    width: float
    columns: Sequence[Heading]
    rows: Sequence[Tick]
    cells: Sequence[HeatCell]
    empty: Sequence[tuple[float, float]]


def heat_maps(figures: Grids, slots: Slots) -> Iterator[HeatMap]:
    """Yield the maps; all have the same cells and the same colour scale."""
    pairs = dict.fromkeys(pair for grid in figures.grids.values() for pair in grid)
    columns, rows = list(dict.fromkeys(column for column, _ in pairs)), list(dict.fromkeys(row for _, row in pairs))
    width = 100 / max(len(columns), 1)
    positions = {(column, row): (x * width, y * ROW) for x, column in enumerate(columns) for y, row in enumerate(rows)}
    names = {pair: printable(figures.joint.join(pair)) for pair in pairs}
    below = {title: _below_best(grid) for title, grid in figures.grids.items()}
    largest = max((distance for each in below.values() for distance in each.values()), default=0.0) or 1.0
    for title, grid in figures.grids.items():
        values = ", ".join(f"{names[pair]} {PERCENT.text(each.value)}" for pair, each in grid.items())
        subject = f"accuracy of {title}" if figures.of_models else f"{title}, accuracy"
        cells = [
            HeatCell(
                *positions[pair],
                below[title][pair] / largest,
                PERCENT.text(each.value),
                f"{title}, {names[pair]}: {Number(each)} %",
            )
            for pair, each in grid.items()
        ]
        yield HeatMap(
            title,
            slots[title] if figures.of_models else None,
            f"Heat map, {subject} in percent by {' and '.join(figures.what)}: {values}.",
            ROW * len(rows),
            width,
            _headings(columns),
            [Tick((index + 0.5) * ROW, shortened(printable(name))) for index, name in enumerate(rows)],
            cells,
            [position for pair, position in positions.items() if pair not in grid],
        )


def _below_best(grid: Grid) -> dict[tuple[str, str], float]:
    best = max((each.value for each in grid.values()), default=0.0)
    return {pair: best - each.value for pair, each in grid.items()}


def _headings(names: Sequence[str]) -> list[Heading]:
    """Return up to three words per name; if columns are narrow, every second heading is one line higher."""
    narrow = len(names) > MAX_WIDE_COLUMNS
    length = max(3, HEADING_LENGTH * (1 + narrow) // max(len(names), 1))
    return [
        Heading(
            (index + 0.5) * 100 / len(names),
            [shortened(word, length) for word in printable(name).split("-")[:3]] + [""] * (narrow and index % 2),
        )
        for index, name in enumerate(names)
    ]
