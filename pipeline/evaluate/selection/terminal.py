"""An analysis for a terminal."""

from __future__ import annotations

from rich.console import RenderableType

from pipeline.evaluate.report.text import to_terminal
from pipeline.evaluate.selection.heat_map import TerminalHeatMap
from pipeline.evaluate.selection.records import Selection
from pipeline.evaluate.selection.tables import OVERLAPS, by_category, tables


def renderables(selection: Selection) -> list[RenderableType]:
    """Return the heat map of overlaps, and all tables but that of overlaps, which is too wide."""
    found: list[RenderableType] = []
    if selection.overlaps:
        found.append(TerminalHeatMap(by_category(selection.overlaps, selection.categories)))
    return found + to_terminal(table for table in tables(selection) if table.section != OVERLAPS)
