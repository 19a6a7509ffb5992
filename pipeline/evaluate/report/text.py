"""The tables of a report as Markdown and for a terminal, and all values as CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from pipeline.evaluate.metrics.bootstrap import Estimate
from pipeline.evaluate.report.calibration_tables import calibration_lines
from pipeline.evaluate.report.comparison_tables import comparison_lines
from pipeline.evaluate.report.family import ReportLayout, Table
from pipeline.evaluate.report.formats import Value, value_of
from pipeline.evaluate.report.models import SIZES
from pipeline.evaluate.report.sections import summaries_by_layout
from pipeline.evaluate.report.summary import Summary
from pipeline.text import LONGEST_MESSAGE, escape_controls, printable

FORMULA_STARTS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""First characters that make spreadsheets evaluate a cell as a formula; the last four are full-width."""

CSV_COLUMNS = (
    "model",
    "data_set",
    "family",
    "transform",
    "level",
    "figure",
    "value",
    "low",
    "high",
    "baseline",
    "clean_images",
)


def to_markdown(tables: Iterable[Table]) -> str:
    """Return tables as GitHub-flavoured Markdown; markup in names is escaped."""
    return "\n".join(chain.from_iterable(_markdown(table) for table in tables))


def to_terminal(tables: Iterable[Table]) -> list[RenderableType]:
    """Return tables as rich renderables, in order. Tables of two models fit a console of 100 columns."""
    return list(chain.from_iterable(_terminal(table) for table in tables))


def to_text(tables: Iterable[Table], width: int = 100) -> str:
    """Return tables as plain text.

    Args:
        tables: The tables.
        width: Maximum length of a line.
    """
    text = io.StringIO()
    console = Console(file=text, width=width, highlight=False, markup=False, emoji=False, color_system=None)
    for renderable in to_terminal(tables):
        console.print(renderable)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()).strip() + "\n"


def to_csv(summary: Summary) -> str:
    """Return all values as CSV with the columns ``CSV_COLUMNS``: one line per value, in full precision.

    Values are fractions, except top-5 distances (0..15) and NSD (percentage points). ``low`` and ``high`` are empty for
    values without an interval. ``baseline`` is empty for values that are not normalised; ``clean_images`` says how the
    clean images are stored that a value depends on. Names that a spreadsheet would
    evaluate as a formula are prefixed with an apostrophe.
    """
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for layout, summaries in summaries_by_layout(summary):
        for each in summaries:
            names = plain_cell(each.model), plain_cell(each.data_set)
            writer.writerows((*names, layout.key, *line) for line in _lines(layout, each))
    for model in summary.models:
        lines_of_model = (_line("", "", size.name, size.value(model)) for size in SIZES.values())
        writer.writerows(
            (plain_cell(model.name), "", "models", *cells) for cells in chain.from_iterable(lines_of_model)
        )
    for name, data_set, family, figure, value in comparison_lines(summary.comparison) if summary.comparison else ():
        writer.writerows(
            (plain_cell(name), plain_cell(data_set), family, *cells) for cells in _line("", "", figure, value)
        )
    for published in summary.published:
        line = _line(published.transform, "", published.figure, published.value, published.baseline)
        columns = plain_cell(published.model), plain_cell(published.data_set), published.family
        writer.writerows((*columns, *cells) for cells in line)
    return lines.getvalue()


def to_markdown_page(summary: Summary, title: str, tables: Iterable[Table]) -> str:
    """Return a Markdown document with title, warnings and tables."""
    warnings = "".join(f"- {_literal(printable(each, LONGEST_MESSAGE))}\n" for each in summary.warnings)
    above = f"**Warnings**\n\n{warnings}\n" if warnings else ""
    return f"# {_literal(printable(title))}\n\n{above}{to_markdown(tables)}"


def plain_cell(name: str) -> str:
    """Return a name for a CSV cell: controls escaped, an apostrophe before what a spreadsheet takes for a formula."""
    return "'" * name.startswith(FORMULA_STARTS) + escape_controls(name)


def _markdown(table: Table) -> Iterator[str]:
    titles = (f"{column.model} {column.title}".strip() for column in table.columns)
    yield from (f"### {_literal(f'{table.section}: {table.title}')}", "", _literal(table.note), "")
    yield f"| {' | '.join(map(_literal, titles))} |"
    yield f"| {' | '.join('---:' if column.number else '---' for column in table.columns)} |"
    yield from (f"| {' | '.join(_literal(str(cell)) for cell in row)} |" for row in table.rows)
    yield ""


def _literal(text: str) -> str:
    """Escape Markdown markup. Single brackets and underscores within words are not markup."""
    return re.sub(r"[\\`<>|~&$*#]|(?<!\w)_|_(?!\w)|(?<=\])[(\[:]", r"\\\g<0>", text)


def _terminal(table: Table) -> Iterator[RenderableType]:
    rich_table = RichTable(box=None, header_style="bold", pad_edge=False)
    for column in table.columns:
        title = Text("\n".join(filter(None, (column.model, column.title))))
        rich_table.add_column(title, justify="right" if column.number else "left", vertical="bottom", overflow="fold")
    for row in table.rows:
        rich_table.add_row(*(Text(str(cell)) for cell in row))
    note = RichTable.grid()  # a grid wraps at words even in a console with soft wrapping
    note.add_row(Text(table.note, style="dim"))
    yield from (Text(f"{table.section}: {table.title}", style="bold"), rich_table, note, Text(""))


Line = Sequence[str | int]
"""The cells of a CSV line after the family."""


def _lines(layout: ReportLayout[Any], summary: Any) -> Iterator[Line]:
    """Yield the CSV lines of a summary."""
    baseline, level = plain_cell(layout.baseline(summary) or ""), layout.level(summary)
    clean = plain_cell(layout.clean_images(summary))
    whole = "" if level is None else level
    for figure in layout.figures:
        yield from _line(
            "", whole, figure.name, figure.value(summary), baseline * figure.normalised, clean * figure.of_clean
        )
    for figures in layout.level_figures:
        for at_level, value in figures.values(summary).items():
            yield from _line("", at_level, figures.name, value, "", clean * figures.of_clean)
    for row in layout.rows(summary):
        name = plain_cell(row.name)
        for figures in layout.row_level_figures:
            for at_level, value in figures.values(row).items():
                yield from _line(name, at_level, figures.name, value, "", clean * figures.of_clean)
        for figure in layout.row_figures:
            others = baseline * figure.normalised, clean * figure.of_clean
            yield from _line(name, whole, figure.name, figure.value(row), *others)
    for transform, at, figure_name, calibration in calibration_lines(layout, summary):
        own = clean * bool(layout.calibration and layout.calibration.of_clean)
        yield from _line(plain_cell(transform), whole if at is None else at, figure_name, calibration, "", own)
    for count in layout.counts:
        yield from _line("", whole, count.name, count.value(summary))


def _line(
    transform: str, level: str | int, figure: str, value: Value, baseline: str = "", clean: str = ""
) -> Iterator[Line]:
    """Yield one line, or none if the value is missing."""
    if value is not None:
        bounds = (str(value.low), str(value.high)) if isinstance(value, Estimate) else ("", "")
        yield (transform, level, figure, str(value_of(value)), *bounds, baseline, clean)
