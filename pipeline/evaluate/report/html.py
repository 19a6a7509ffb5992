"""A report as one HTML page that needs nothing else: key figures, plots as SVG, and tables with the same figures.

Here the figures become places on plots; ``report.html.j2`` draws them. Across, places are percent of the plot's width,
whatever that is, so a plot fills a phone or a page while its text keeps its size; downwards they are CSS pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import groupby

from pipeline.errors import UserError
from pipeline.evaluate.report.family import Table
from pipeline.evaluate.report.plots import PLOTS, BarPlot, HeatMap, LinePlot, Slots, _no_plots
from pipeline.evaluate.report.sections import Headline, Section, sections
from pipeline.evaluate.report.summary import Summary
from pipeline.text import LONGEST_MESSAGE, printable

TEMPLATE = "report.html.j2"


@dataclass(frozen=True)
class Part:
    """Plots, and below them the table with their figures. ``kind`` chooses how they are drawn; "" is no plot."""

    table: Table
    kind: str
    plots: Sequence[LinePlot | BarPlot | HeatMap]


@dataclass(frozen=True)
class Chapter:
    """One data set."""

    title: str
    models: Sequence[str]
    baselines: Sequence[str]
    parts: Sequence[Part]


def page(summary: Summary, title: str) -> str:
    """The report as HTML. Raises UserError where Jinja2 is missing."""
    try:
        import jinja2
    except ImportError:
        raise UserError("the page needs Jinja2: pip install 'robustshards[evaluate]'") from None
    found = sections(summary)
    slots = {model: slot for slot, model in enumerate(dict.fromkeys(model for s in found for model in s.models))}
    text = resources.files(__package__).joinpath(TEMPLATE).read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(text).render(
        title=printable(title),
        warnings=[printable(warning, LONGEST_MESSAGE) for warning in summary.warnings],
        slots=slots,
        cards={model: list(_headlines(found, model)) for model in slots},
        chapters=[_chapter(section, slots) for section in found],
        heads=_heads,
    )


def _headlines(found: Iterable[Section], model: str) -> Iterator[Headline]:
    for section in found:
        if model in section.models and (headline := section.headline(model)):
            yield headline


def _heads(table: Table) -> list[tuple[str, int]]:
    """Models above the titles of columns, and how many columns of each; empty where there are none."""
    groups = [(model, len(list(columns))) for model, columns in groupby(table.columns, key=lambda each: each.model)]
    return groups if any(model for model, _ in groups) else []


def _chapter(section: Section, slots: Slots) -> Chapter:
    parts = []
    for table in section.tables:
        kind, plots = PLOTS.get(table.about, ("", _no_plots))
        parts.append(Part(table, kind, list(plots(section.models, slots))))
    named = (getattr(each, "baseline", None) for each in section.models.values())
    return Chapter(section.title, list(section.models), list(dict.fromkeys(printable(n) for n in named if n)), parts)


# Accuracy against severity


# Bars


# Heat maps


# Words
