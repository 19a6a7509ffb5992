"""A report as one self-contained HTML page: key figures, plots, and tables with the same values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from pipeline.errors import UserError
from pipeline.evaluate.report.figures import Key, legend, panels
from pipeline.evaluate.report.panels import COLOURS, DASHES, HATCHES, is_small
from pipeline.evaluate.report.views import Column, Document, Plot, Table

if TYPE_CHECKING:
    from jinja2 import Template

SHAPES = (
    "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0", "M-3.6,-3.6h7.2v7.2h-7.2z", "M0,-4.8L4.6,3.4H-4.6z", "M0,-5L5,0L0,5L-5,0z",
    "M0,4.8L4.6,-3.4H-4.6z",
)  # fmt: skip
"""SVG paths of the markers of figures, centred at the origin, for legends."""

HOW = {
    "heat map": "A stronger colour means a {0} value. Dashed cells were not evaluated.",
    "reliability": "Diagrams: accuracy (vertical) by confidence (horizontal), both in percent. The area of a mark is "
    "proportional to the number of predictions.",
    "lines": "Horizontal axis: {1}. Vertical axis: {2}.",
}
"""How to read a kind of plot that does not say it itself: strength of colours, and names of both axes."""


@dataclass(frozen=True)
class Part:
    """A table with the plot of its values: pairs of a title and an SVG, their legend, and how to read them."""

    table: Table
    plot: Plot | None
    figures: Sequence[tuple[str, str]]
    legend: Sequence[Key]
    how: str


@cache
def _template() -> Template:
    """Return the template of the page. Raise UserError if Jinja2 is not installed."""
    try:
        import jinja2
    except ImportError:
        raise UserError("HTML pages need Jinja2: pip install 'robustshards[evaluate]'") from None
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__, ""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(colours=len(COLOURS), dashes=len(DASHES), hatches=len(HATCHES), shapes=SHAPES)
    return environment.get_template("report.html.j2")


def frame(page: str, title: str) -> str:
    """Return a page as an HTML element for a notebook: a frame, so that its styles do not affect the notebook.

    Args:
        page: The page, which must not need scripts.
        title: Title of the page, for screen readers.
    """
    # Without a base of its own, a link to a part of the page would open the notebook in the frame.
    content = page.replace("<head>", '<head><base href="about:srcdoc">', 1)
    style = "border: 0; height: 40rem; resize: vertical; width: 100%"
    return f'<iframe sandbox srcdoc="{escape(content)}" style="{style}" title="{escape(title)}"></iframe>'


def page(document: Document) -> str:
    """Return the report as HTML.

    Raises:
        UserError: If Jinja2 or matplotlib is not installed.
    """
    parts = [
        [part(table, document.models, f"f{chapter}-{index}") for index, table in enumerate(each.tables, 1)]
        for chapter, each in enumerate(document.chapters, 1)
    ]
    return _template().render(
        document=document,
        slots={model: slot for slot, model in enumerate(document.models)},
        chapters=list(zip(document.chapters, parts, strict=True)),
        heads=heads,
    )


def part(table: Table, models: Sequence[str], name: str) -> Part:
    """Return a table with its figures, drawn as by ``panels``."""
    plot = table.plot
    if plot is None or not plot.panels:
        return Part(table, None, (), (), "")
    first = plot.panels[0]
    how = HOW.get(plot.kind, "") if plot.kind == "heat map" or is_small(plot) else ""
    titles = [panel.title for panel in plot.panels]
    drawn = list(zip(titles, panels(plot, models, name), strict=True))
    strength = "lower" if plot.strong == "low" else "higher"
    return Part(table, plot, drawn, legend(plot, models), how.format(strength, first.x.name, first.y.name))


def heads(table: Table) -> list[tuple[str, list[Column]]]:
    """Return the models above the column titles, and the columns of each; empty if there are none."""
    groups = [(model, list(columns)) for model, columns in groupby(table.columns, key=lambda each: each.model)]
    return groups if any(model for model, _ in groups) else []
