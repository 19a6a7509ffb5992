"""The overlap matrix as a heat map, for a terminal and for the page."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from pipeline.evaluate.report.labels import LONGEST_LABEL, shortened
from pipeline.evaluate.report.views import PLAIN, Axis, Panel, Plot, Series
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
        every = list(map(printable, self.overlaps.names))
        short = shortened(every, LONGEST_LABEL)
        names = [short[name] for name in every]
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


def heat_map(overlaps: Overlaps) -> Plot:
    """Return the plot of the matrix for the page."""
    names = list(map(printable, overlaps.names))
    rows = [Series(name, names, scores) for name, scores in zip(names, overlaps.scores.tolist(), strict=True)]
    panel = Panel("overlap scores", rows, Axis("the other corruption"), Axis("overlap score", PLAIN))
    return Plot("heat map", [panel], strong="high")
