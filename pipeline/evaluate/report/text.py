"""The tables of a report as Markdown and on a terminal, and all figures of a summary as CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from rich.console import RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from pipeline.evaluate.report.estimates import Estimate
from pipeline.evaluate.report.families import FAMILIES
from pipeline.evaluate.report.family import Family, Table
from pipeline.evaluate.report.formats import value_of
from pipeline.evaluate.report.imagenet_c import CURVE
from pipeline.evaluate.report.sections import summaries_of
from pipeline.evaluate.report.summary import Summary
from pipeline.text import LONGEST_MESSAGE, printable

FORMULA_STARTS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""What spreadsheets take for the beginning of a formula, if a text begins with it; the last four are full-width."""

CSV_COLUMNS = ("model", "data_set", "family", "transform", "level", "figure", "value", "low", "high", "baseline")


def to_markdown(tables: Iterable[Table]) -> str:
    """The tables as Markdown of GitHub's kind; what names contain is shown as it is, never as markup."""
    return "\n".join(chain.from_iterable(_markdown(table) for table in tables))


def to_terminal(tables: Iterable[Table]) -> list[RenderableType]:
    """What to print on one of rich's consoles, in order: numbers to the right; two models fit 100 columns."""
    return list(chain.from_iterable(_terminal(table) for table in tables))


def to_csv(summary: Summary) -> str:
    """Every figure on a line of its own, in full precision, with ``CSV_COLUMNS``.

    Fractions but for top-5 distances (0..15) and NSD (percentage points). ``low`` and ``high`` are empty where there is
    no interval; ``baseline`` is what a normalised figure is divided by, and empty for all others. A name that a
    spreadsheet would take for a formula has an apostrophe in front.
    """
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for family in FAMILIES:
        for each in summaries_of(summary, family):
            names = _plain(each.model), _plain(each.data_set)
            writer.writerows((*names, family.name, *line) for line in _lines(family, each))
    return lines.getvalue()


def to_markdown_page(summary: Summary, title: str, tables: Iterable[Table]) -> str:
    """Return a Markdown document: title, warnings, tables."""
    warnings = "".join(f"- {_literal(printable(each, LONGEST_MESSAGE))}\n" for each in summary.warnings)
    told = f"**Warnings**\n\n{warnings}\n" if warnings else ""
    return f"# {_literal(printable(title))}\n\n{told}{to_markdown(tables)}"


def _plain(name: str) -> str:
    """Return a name that no spreadsheet takes for a formula."""
    return f"'{name}" if name.startswith(FORMULA_STARTS) else name


def _markdown(table: Table) -> Iterator[str]:
    titles = (f"{column.model} {column.title}".strip() for column in table.columns)
    yield from (f"### {_literal(f'{table.section}: {table.title}')}", "", _literal(table.note), "")
    yield f"| {' | '.join(map(_literal, titles))} |"
    yield f"| {' | '.join('---:' if column.number else '---' for column in table.columns)} |"
    yield from (f"| {' | '.join(map(_literal, row))} |" for row in table.rows)
    yield ""


def _literal(text: str) -> str:
    """A text that Markdown shows as it is. Single brackets, and underscores within words, are no markup."""
    return re.sub(r"[\\`<>|~&$*#]|(?<!\w)_|_(?!\w)|(?<=\])[(\[:]", r"\\\g<0>", text)


def _terminal(table: Table) -> Iterator[RenderableType]:
    made = RichTable(box=None, header_style="bold", pad_edge=False)
    for column in table.columns:
        title = Text("\n".join(filter(None, (column.model, column.title))))
        made.add_column(title, justify="right" if column.number else "left", vertical="bottom", overflow="fold")
    for row in table.rows:
        made.add_row(*map(Text, row))
    note = RichTable.grid()  # wraps at words, which bare text does not in a console with soft wrapping
    note.add_row(Text(table.note, style="dim"))
    yield from (Text(f"{table.section}: {table.title}", style="bold"), made, note, Text(""))


def _lines(family: Family, summary: Any) -> Iterator[Sequence[str | int]]:
    """Of one summary, what follows the family's name on each line of the CSV."""
    baseline = _plain(getattr(summary, "baseline", None) or "")
    level = getattr(summary, "difficulty", "")
    for figure in family.figures:
        yield from _line("", level, figure.name, getattr(summary, figure.field), baseline * figure.normalised)
    for severity, value in getattr(summary, "curve", {}).items():
        yield from _line("", severity, CURVE.name, value)
    for row in getattr(summary, "rows", ()):
        name = _plain(row.name)
        for severity, value in getattr(row, "errors", {}).items():
            yield from _line(name, severity, "error", value)
        for figure in family.rows:
            yield from _line(name, level, figure.name, getattr(row, figure.field), baseline * figure.normalised)
    for field in family.counted:
        yield from _line("", level, field, getattr(summary, field))


def _line(
    transform: str, level: str | int, figure: str, value: Estimate | float | None, baseline: str = ""
) -> Iterator[Sequence[str | int]]:
    """One line, or none where the figure does not exist."""
    if value is not None:
        bounds = (str(value.low), str(value.high)) if isinstance(value, Estimate) else ("", "")
        yield (transform, level, figure, str(value_of(value)), *bounds, baseline)
