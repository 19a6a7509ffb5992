"""The overlap matrix as a heat map, for a terminal and for the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from pipeline.evaluate.report.formats import PLAIN
from pipeline.evaluate.report.heat_maps import ROW, Heading, HeatCell, HeatMap
from pipeline.evaluate.report.plots import Tick, shortened
from pipeline.evaluate.selection.records import Overlaps
from pipeline.text import printable

SHADES = " ░▒▓█"
"""Characters of overlap scores, from 0 to 1 in equal steps."""

LEGEND = "Shades: below 0.2 (blank), 0.4, 0.6, 0.8, and from there. Columns are in the order of the rows."


@dataclass(frozen=True)
class TerminalHeatMap:
    """A heat map that rich renders, two characters wide per score if it then fits the console, otherwise one."""

    overlaps: Overlaps

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the title, one line per corruption, and the legend."""
        names = [shortened(printable(name)) for name in self.overlaps.names]
        margin = max(map(len, names), default=0) + 1
        width = 2 if margin + 2 * len(names) <= options.max_width else 1
        yield Text("overlaps: heat map", style="bold")
        for name, scores in zip(names, self.overlaps.scores.tolist(), strict=True):
            yield Text(f"{name:<{margin}}{''.join(shade(score) * width for score in scores)}")
        yield Text(LEGEND, style="dim")
        yield Text("")


def shade(score: float) -> str:
    """Return the character of an overlap score."""
    return SHADES[min(int(score * len(SHADES)), len(SHADES) - 1)]


def heat_map(overlaps: Overlaps) -> HeatMap:
    """Return the layout of the heat map on the page; every heading is a single word."""
    names = list(map(printable, overlaps.names))
    width = 100 / max(len(names), 1)
    return HeatMap(
        "overlap scores",
        0,
        f"Heat map, overlap scores of {len(names)} corruptions. The table below has the values.",
        ROW * len(names),
        width,
        [Heading((index + 0.5) * width, [shortened(name)]) for index, name in enumerate(names)],
        [Tick((index + 0.5) * ROW, shortened(name)) for index, name in enumerate(names)],
        list(_cells(names, overlaps, width)),
        [],
    )


def _cells(names: list[str], overlaps: Overlaps, width: float) -> Iterator[HeatCell]:
    for y, (row, scores) in enumerate(zip(names, overlaps.scores.tolist(), strict=True)):
        for x, (column, score) in enumerate(zip(names, scores, strict=True)):
            text = PLAIN.text(score)
            yield HeatCell(x * width, y * ROW, min(score, 1), text, f"{row}, {column}: {text}")
