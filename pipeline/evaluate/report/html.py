"""A report as one self-contained HTML page: key figures, SVG plots, and tables with the same values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pipeline.errors import UserError
from pipeline.evaluate.report import calibration_tables
from pipeline.evaluate.report.bar_plots import BarPlot, bar_plots
from pipeline.evaluate.report.families import layouts
from pipeline.evaluate.report.family import Column, Table
from pipeline.evaluate.report.heat_maps import HeatMap, heat_maps
from pipeline.evaluate.report.line_plots import (
    LinePlot,
    budget_plots,
    dense_line_plots,
    line_plots,
    small_line_plots,
)
from pipeline.evaluate.report.plots import PlotKind, Slots
from pipeline.evaluate.report.reliability_plots import ReliabilityPlot, reliability_plots
from pipeline.evaluate.report.scatter_plots import ScatterPlot, scatter_plots
from pipeline.evaluate.report.section import Headline, Section
from pipeline.evaluate.report.sections import overview, sections
from pipeline.evaluate.report.summary import Summary
from pipeline.text import LONGEST_MESSAGE, printable

if TYPE_CHECKING:
    from jinja2 import Template

DrawnPlot = LinePlot | BarPlot | HeatMap | ReliabilityPlot | ScatterPlot
"""The layout of a plot."""

DRAW: Mapping[PlotKind, Callable[[Any, Slots], Iterator[DrawnPlot]]] = {
    PlotKind.LINES: line_plots,
    PlotKind.SMALL_LINES: small_line_plots,
    PlotKind.DENSE_LINES: dense_line_plots,
    PlotKind.BUDGETS: budget_plots,
    PlotKind.BARS: bar_plots,
    PlotKind.HEAT_MAPS: heat_maps,
    PlotKind.RELIABILITY: reliability_plots,
    PlotKind.SCATTERS: scatter_plots,
}
"""Layout function of each kind of plot."""


@dataclass(frozen=True)
class Part:
    """A table with the plots of its values; ``kind`` is None if there are no plots."""

    table: Table
    kind: PlotKind | None
    plots: Sequence[DrawnPlot]


@dataclass(frozen=True)
class Chapter:
    """The part of the page on one data set, or on all models."""

    title: str
    models: Sequence[str]
    baselines: Sequence[str]
    parts: Sequence[Part]


def template(name: str, package: str = __package__) -> Template:
    """Return the template of a page. It can import and include the templates of this package.

    Args:
        name: File name of the template.
        package: Package that contains it.

    Raises:
        UserError: If Jinja2 is not installed.
    """
    try:
        import jinja2
    except ImportError:
        raise UserError("HTML pages need Jinja2: pip install 'robustshards[evaluate]'") from None
    loaders = [jinja2.PackageLoader(each, "") for each in dict.fromkeys((package, __package__))]
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


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


def page(summary: Summary, title: str) -> str:
    """Return the report as HTML.

    Args:
        summary: Contents of the report.
        title: Title of the page.

    Raises:
        UserError: If Jinja2 is not installed.
    """
    all_sections = sections(summary)
    slots = {
        model: slot
        for slot, model in enumerate(dict.fromkeys(model for section in all_sections for model in section.models))
    }
    return template("report.html.j2").render(
        title=printable(title),
        warnings=[printable(warning, LONGEST_MESSAGE) for warning in summary.warnings],
        slots=slots,
        cards={model: list(_headlines(all_sections, model)) for model in slots},
        notes={printable(model.name): printable(model.note, LONGEST_MESSAGE) for model in summary.models if model.note},
        data_sets=len(all_sections),
        chapters=[
            *_overview(overview(summary, all_sections), slots),
            *(_chapter(each, slots) for each in all_sections),
        ],
        heads=_heads,
        kinds=PlotKind,
        glossary=[*(term for layout in layouts().values() for term in layout.glossary), *calibration_tables.GLOSSARY],
        sources=list(
            dict.fromkeys(
                [*(source for layout in layouts().values() for source in layout.sources), *calibration_tables.SOURCES]
            )
        ),
    )


def _headlines(all_sections: Iterable[Section], model: str) -> Iterator[Headline]:
    for section in all_sections:
        if model in section.models and (headline := section.headline(model)):
            yield headline


def _heads(table: Table) -> list[tuple[str, list[Column]]]:
    """Return the models above the column titles, and the columns of each; empty if there are none."""
    groups = [(model, list(columns)) for model, columns in groupby(table.columns, key=lambda each: each.model)]
    return groups if any(model for model, _ in groups) else []


def _overview(tables: Iterable[Table], slots: Slots) -> Iterator[Chapter]:
    """Yield the parts of the page that are not about one data set."""
    for title, group in groupby(tables, key=lambda table: table.section):
        yield Chapter(title, (), (), [_part(table, slots) for table in group])


def _chapter(section: Section, slots: Slots) -> Chapter:
    parts = [_part(table, slots) for table in section.tables]
    return Chapter(section.title, list(section.models), section.baselines(), parts)


def _part(table: Table, slots: Slots) -> Part:
    plots = list(DRAW[table.plot.kind](table.plot.figures, slots)) if table.plot else []
    return Part(table, table.plot.kind if table.plot and plots else None, plots)
