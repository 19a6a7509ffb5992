"""Maps of accuracy by two choices, as places: across in percent of the plot's width, downwards in CSS pixels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline.evaluate.metrics.bootstrap import Estimate
from pipeline.evaluate.report.formats import PERCENT, Number
from pipeline.evaluate.report.plots import Grids, Slots, Tick, shortened
from pipeline.text import printable

ROW = 30
"""Height of a row."""

MOST_WIDE_COLUMNS = 4
HEADING_LETTERS = 30
"""Letters of names that have room above all columns together."""

Grid = Mapping[tuple[str, str], Estimate]


@dataclass(frozen=True)
class HeatCell:
    """``strength`` of its colour, 0..1: how far below the best cell, of the largest such distance in any map."""

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
    """Accuracy of one model; ``empty`` places have no figure."""

    title: str
    slot: int
    description: str
    height: int
    width: float
    columns: Sequence[Heading]
    rows: Sequence[Tick]
    cells: Sequence[HeatCell]
    empty: Sequence[tuple[float, float]]


def heat_maps(figures: Grids, slots: Slots) -> Iterator[HeatMap]:
    """Return a map for each model, all with the same places and the same scale of colours."""
    pairs = dict.fromkeys(pair for grid in figures.grids.values() for pair in grid)
    columns, rows = list(dict.fromkeys(column for column, _ in pairs)), list(dict.fromkeys(row for _, row in pairs))
    width = 100 / max(len(columns), 1)
    places = {(column, row): (x * width, y * ROW) for x, column in enumerate(columns) for y, row in enumerate(rows)}
    below = {model: _below_best(grid) for model, grid in figures.grids.items()}
    largest = max((distance for each in below.values() for distance in each.values()), default=0.0) or 1.0
    for model, grid in figures.grids.items():
        told = ", ".join(f"{_pair_name(pair)} {PERCENT.text(each.value)}" for pair, each in grid.items())
        cells = [
            HeatCell(
                *places[pair],
                below[model][pair] / largest,
                PERCENT.text(each.value),
                f"{model}, {_pair_name(pair)}: {Number(each)} %",
            )
            for pair, each in grid.items()
        ]
        yield HeatMap(
            model,
            slots[model],
            f"Accuracy of {model} in percent by {' and '.join(figures.what)}: {told}.",
            ROW * len(rows),
            width,
            _headings(columns),
            [Tick((index + 0.5) * ROW, shortened(printable(name))) for index, name in enumerate(rows)],
            cells,
            [place for pair, place in places.items() if pair not in grid],
        )


def _below_best(grid: Grid) -> dict[tuple[str, str], float]:
    best = max((each.value for each in grid.values()), default=0.0)
    return {pair: best - each.value for pair, each in grid.items()}


def _pair_name(pair: tuple[str, str]) -> str:
    return printable("_".join(pair))


def _headings(names: Sequence[str]) -> list[Heading]:
    """Return the parts of each name, at most three; where columns are narrow, every other heading is a line higher."""
    narrow = len(names) > MOST_WIDE_COLUMNS
    letters = max(3, HEADING_LETTERS * (1 + narrow) // max(len(names), 1))
    return [
        Heading(
            (index + 0.5) * 100 / len(names),
            [shortened(word, letters) for word in printable(name).split("-")[:3]] + [""] * (narrow and index % 2),
        )
        for index, name in enumerate(names)
    ]
