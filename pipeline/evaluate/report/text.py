"""The tables of a report as Markdown, LaTeX and text for a terminal."""

import io
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table as RichTable
from rich.text import Text

from pipeline.evaluate.report.views import EXTRA, INTERVAL, LOSSY_CLEAN, PARTIAL, WIDTH, Cell, Column, Document, Table
from pipeline.text import escape_controls

FORMULA_STARTS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""First characters that make spreadsheets evaluate a cell as a formula; the last four are full-width."""

NOTE_WIDTH = 100  # maximum length of a line of a note in a terminal
NAME_WIDTH = 24  # number of characters that names keep in a console that is too narrow for a table
UNLIMITED = 10_000  # width of a console for a file, in which no table is folded


def plain_cell(name: str) -> str:
    """Return a name for a CSV cell: controls escaped, an apostrophe before what a spreadsheet takes for a formula."""
    return "'" * name.startswith(FORMULA_STARTS) + escape_controls(name)


def _blocks(table: Table, widths: Sequence[int], limit: int) -> list[list[int]]:
    """Divide the columns of a table into blocks that are at most ``limit`` wide, if that is possible.

    Each block starts with the columns of text at the left. The columns of a model stay together.
    """
    first = next((index for index, column in enumerate(table.columns) if column.number), len(table.columns))
    fixed, rest = list(range(first)), range(first, len(table.columns))
    blocks: list[list[int]] = []
    for _, group in groupby(rest, key=lambda index: table.columns[index].model or index):
        indices = list(group)
        wide = sum(widths[index] for index in [*(blocks[-1] if blocks else fixed), *indices])
        if blocks and wide <= limit:
            blocks[-1].extend(indices)
        else:
            blocks.append([*fixed, *indices])
    return blocks or [fixed]


# Markdown


def to_markdown(tables: Iterable[Table]) -> str:
    """Return tables as GitHub-flavoured Markdown; markup in names is escaped."""
    return "\n".join(chain.from_iterable(_markdown(table) for table in tables))


def to_markdown_page(document: Document) -> str:
    """Return a document as Markdown: title, warnings, tables, and how the values came about."""
    warnings = "".join(f"- {_literal(each)}\n" for each in document.warnings)
    above = f"**Warnings**\n\n{warnings}\n" if warnings else ""
    facts = "".join(f"- {_literal(name)}: {_literal(text)}\n" for name, text in document.provenance)
    below = f"\n## Provenance\n\n{facts}" if facts else ""
    return f"# {_literal(document.title)}\n\n{above}{to_markdown(document.tables)}{below}"


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


# Text


@dataclass(frozen=True)
class TerminalTable:
    """A table that rich renders. Where it is wider than the console, the columns of further models follow below."""

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the title, the blocks of columns, and the note. A file has room for all columns."""
        table, room = self.table, options.max_width if console.is_terminal else UNLIMITED
        cells = [[str(row[index]) for row in table.rows] for index in range(len(table.columns))]
        longest = [max(map(len, of_column), default=0) for of_column in cells]
        heads = [_head(column, max(long, 12)) for column, long in zip(table.columns, longest, strict=True)]
        widths = [max([long, *map(len, head)]) + 2 for long, head in zip(longest, heads, strict=True)]
        if sum(widths) > room + 2:  # long names wrap before numbers do
            widths = [
                wide if column.number else min(wide, NAME_WIDTH + 2)
                for column, wide in zip(table.columns, widths, strict=True)
            ]
        yield Text(f"{table.section}: {table.title}", style="bold")
        for number, block in enumerate(_blocks(table, widths, room + 2)):
            if number:
                yield Text("")
            drawn = RichTable(box=None, header_style="bold", pad_edge=False)
            for index in block:
                column = table.columns[index]
                drawn.add_column(
                    Text("\n".join(heads[index])),
                    justify="right" if column.number else "left",
                    vertical="bottom",
                    overflow="fold",
                    no_wrap=column.number,
                    max_width=widths[index] - 2,
                )
            for row in zip(*(cells[index] for index in block), strict=True):
                drawn.add_row(*map(Text, row))
            yield from console.render(drawn, options.update(width=room))
        if table.note:
            note = RichTable.grid()  # a grid wraps at words even in a console with soft wrapping
            note.add_column(max_width=min(NOTE_WIDTH, options.max_width))
            note.add_row(Text(table.note, style="dim"))
            yield note
        yield Text("")


def to_terminal(tables: Iterable[Table]) -> list[RenderableType]:
    """Return tables as rich renderables, in order."""
    return [TerminalTable(table) for table in tables]


def to_text(tables: Iterable[Table], width: int | None = None) -> str:
    """Return tables as plain text, of lines of at most ``width`` characters if it is given."""
    text = io.StringIO()
    console = Console(
        file=text, width=width or UNLIMITED, force_terminal=True, highlight=False, markup=False, emoji=False,
        color_system=None,
    )  # fmt: skip
    for renderable in to_terminal(tables):
        console.print(renderable)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()).strip() + "\n"


def _head(column: Column, width: int) -> list[str]:
    """Return the lines above a column: model and title, wrapped at spaces and hyphens."""
    texts = filter(None, (column.model, column.title))
    return list(chain.from_iterable(textwrap.wrap(text, max(width, 18)) or [""] for text in texts))


# LaTeX

MEANINGS = {
    PARTIAL: "Mean over a part of the benchmark.",
    EXTRA: "Not in the benchmark, so not included in means.",
    LOSSY_CLEAN: "Depends on clean images that were compressed with loss.",
}
"""Explanations of marks that the note of a table does not explain."""

MARKS = {PARTIAL: "*", EXTRA: r"\dagger", LOSSY_CLEAN: r"\ddagger"}

SIZES = ((r"\small", 51, 107), (r"\footnotesize", 56, 116), (r"\scriptsize", 59, 124))
"""Font sizes, and the number of characters that fit in one column of a two-column article and in both."""

_OVER = INTERVAL.replace("images", r"\w+")
INTERVALS = re.compile(rf",? {_OVER}|; {WIDTH}(?=\.)| {WIDTH}; ECE has none[^.]*\.")
"""What notes say of intervals, which tables without them leave out."""

MOST_NUMBERS = 5  # tables with more columns of numbers cover both columns of a two-column article
TEXT_WIDTH = 16  # number of characters of a line of text among numbers, such as the name of an encoder
MOST_ROWS = 50  # rows of a table; further ones are in a table of their own

LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "%": r"\%", "#": r"\#", "&": r"\&", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': "''", "`": r"\textasciigrave{}", "[": "{[}", "]": "{]}", "*": "{*}", "\0": "{}-",
    "—": "{---}",
    "\u2013": "{--}", "\u2212": "$-$", "±": r"$\pm$", "\u00d7": r"$\times$", "÷": r"$\div$", "∞": r"$\infty$",
    "↑": r"$\uparrow$", "↓": r"$\downarrow$",
    "≤": r"$\le$", "≥": r"$\ge$", "≈": r"$\approx$", "°": r"$^\circ$", "…": r"\ldots{}", "†": r"$^{\dagger}$",
    "‡": r"$^{\ddagger}$", "\u00a0": "~", "\u202f": r"\,", "\u2018": "`", "\u2019": "'", "“": "``", "”": "''",
    "ß": r"\ss{}", "ø": r"\o{}", "Ø": r"\O{}", "æ": r"\ae{}", "Æ": r"\AE{}", "œ": r"\oe{}", "ł": r"\l{}", "Ł": r"\L{}",
    "→": r"$\to$", "·": r"$\cdot$", "²": "$^2$", "³": "$^3$", "µ": r"$\mu$", "\u2113": r"$\ell$",
}  # fmt: skip
"""LaTeX of characters that have a meaning there or are not ASCII. NUL: a hyphen after another."""

GREEK = frozenset(
    re.findall(
        r"\w+", "alpha beta gamma delta epsilon zeta eta theta iota kappa mu nu xi pi rho sigma tau phi chi psi omega"
    )
)
"""Greek letters whose command is their name."""

ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u", "\u0307": ".",
    "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0327": "c",
}  # fmt: skip
"""LaTeX commands of combining characters."""


def to_latex(table: Table, *, label: str, comment: Sequence[str] = (), intervals: bool = True) -> str:
    r"""Return a table in LaTeX, for an article that loads the package booktabs.

    A table that is too wide for the page continues with further models below; a very long one in further tables.

    Args:
        table: The table.
        label: Name for ``\ref``. Characters that are not letters, digits or one of ``:.-`` become hyphens.
        comment: Lines above the table, such as the provenance of the values.
        intervals: Whether numbers have their intervals.
    """
    above = [
        f"% {escape_controls(' '.join(line.split()))}".encode("ascii", "backslashreplace").decode() for line in comment
    ]
    intervals = intervals or table.intervals
    texts = [
        [_cell(cell, column, intervals) for cell, column in zip(row, table.columns, strict=True)] for row in table.rows
    ]
    longest = [max((_width(row[index]) for row in texts), default=0) for index in range(len(table.columns))]
    heads = [textwrap.wrap(each.title, max(long, 14)) for each, long in zip(table.columns, longest, strict=True)]
    widths = [max([long, *map(len, head)]) + 2 for head, long in zip(heads, longest, strict=True)]
    numbers = sum(column.number for column in table.columns)
    wide = numbers > MOST_NUMBERS or sum(widths) > SIZES[-1][1]
    sizes = [(size, both if wide else one) for size, one, both in SIZES]
    size, limit = next((each for each in sizes if sum(widths) <= each[1] and len(texts) <= 40), sizes[-1])
    blocks = _blocks(table, widths, limit)
    label = re.sub(r"[^A-Za-z0-9:.-]+", "-", label)
    note, below = _notes(table, texts)
    note = note if intervals else INTERVALS.sub("", note)
    parts = [range(start, min(start + MOST_ROWS, len(texts))) for start in range(0, max(len(texts), 1), MOST_ROWS)]
    lines = list(above)
    for number, rows in enumerate(parts):
        caption = f"{table.caption.removesuffix('.')}." if table.caption else ""
        about = " ".join(filter(None, (f"{table.section}: {table.title}.", caption, note)))
        caption = about if not number else f"{table.section}: {table.title} (continued)."
        name = "table*" if wide else "table"
        lines += [rf"\begin{{{name}}}[t]", r"\centering", rf"\caption{{{latex(caption)}}}"]
        lines += [rf"\label{{{label}{'-' + str(number + 1) if number else ''}}}", size, r"\setlength{\tabcolsep}{4pt}"]
        for index, block in enumerate(blocks):
            lines += [r"\par\medskip"] * bool(index)
            lines += _tabular(table, block, widths, [texts[row] for row in rows])
        if below and number == len(parts) - 1:
            lines += [r"\par\smallskip", r"\parbox{\linewidth}{\footnotesize", *(rf"{text}\par" for text in below), "}"]
        lines.append(rf"\end{{{name}}}")
    return "\n".join(lines) + "\n"


def latex(text: str) -> str:
    """Return a text for LaTeX: markup is escaped, and characters that pdfLaTeX may not know become ASCII."""
    line = unicodedata.normalize("NFC", escape_controls(text)).replace("\n", " ")
    return "".join(map(_character, re.sub("(?<=-)-", "\0", line)))


def _character(character: str) -> str:
    if character in LATEX:
        return LATEX[character]
    if character.isascii():
        return character
    kind, _, letter = unicodedata.name(character, "").lower().rpartition(" ")
    if kind in ("greek small letter", "greek capital letter") and letter in GREEK:
        return rf"$\{letter if kind == 'greek small letter' else letter.capitalize()}$"
    parts = unicodedata.normalize("NFD", character)
    if len(parts) == 2 and parts[1] in ACCENTS and parts[0].isascii():
        return rf"\{ACCENTS[parts[1]]}{{{parts[0]}}}"
    plain = unicodedata.normalize("NFKD", character)
    return "".join(LATEX.get(each, each) for each in plain) if plain.isascii() else f"{{[}}U+{ord(character):04X}{{]}}"


def _cell(cell: Cell, column: Column, intervals: bool) -> str:
    if isinstance(cell, str):
        return _stacked(cell, TEXT_WIDTH) if column.number else _superscripts(cell)
    figure = latex(cell.figure).replace("-", "$-$")
    parts = [rf"\textbf{{{figure}}}" if cell.best else figure]
    if intervals and cell.interval:
        interval = re.sub(r"(?<!\d)-(?=\d)", "\u2212", cell.interval)
        parts.append(rf"{{\scriptsize {latex(interval)}}}")
    if cell.rank:
        parts.append(rf"{{\scriptsize \#{cell.rank.replace('-', '--')}}}")
    marks = "".join(MARKS[mark] for mark, shown in ((PARTIAL, cell.partial), (LOSSY_CLEAN, cell.lossy)) if shown)
    return "~".join(parts) + (f"$^{{{marks}}}$" if marks and cell.exists else "")


def _superscripts(text: str) -> str:
    """Return a text whose last word, if it is a mark, is a superscript."""
    name, _, mark = text.rpartition(" ")
    return f"{latex(name)}$^{{{MARKS[mark]}}}$" if name and mark in MARKS else latex(text)


def _width(text: str) -> int:
    """Return the approximate number of characters of a cell in LaTeX."""
    lines = text.removeprefix(r"\shortstack").split(r"\\")
    return max(len(re.sub(r"\\[a-z]+\{?|[{}$^]|\\", "", line)) for line in lines)


def _notes(table: Table, texts: Sequence[Sequence[str]]) -> tuple[str, list[str]]:
    """Return the note for the caption, and for below the table its sentences about marks, each mark explained once."""
    marks = "".join(map(re.escape, MARKS))
    note, *sentences = re.split(rf"(?:^|(?<=\s))(?=[{marks}]\s)", table.note)
    below = [rf"$^{{{MARKS[each[0]]}}}$~{latex(each[1:].strip())}" for each in sentences]
    shown = "".join(chain.from_iterable(texts))
    for mark, meaning in MEANINGS.items():
        used = re.search(rf"\$\^\{{[^}}]*{re.escape(MARKS[mark])}", shown)
        if used and not any(each.startswith(mark) for each in sentences):
            below.append(rf"$^{{{MARKS[mark]}}}$~{meaning}")
    return note.strip(), below


def _stacked(text: str, width: int) -> str:
    """Return a title, in lines if it is longer than a number of characters."""
    lines = [latex(line) for line in textwrap.wrap(text, max(width, 14))] or [""]
    return lines[0] if len(lines) == 1 else r"\shortstack{" + r"\\".join(lines) + "}"


def _tabular(
    table: Table, block: Sequence[int], widths: Sequence[int], texts: Sequence[Sequence[str]]
) -> Iterator[str]:
    """Yield the lines of a tabular with some of the columns of a table."""
    columns = [table.columns[index] for index in block]
    yield rf"\begin{{tabular}}{{@{{}}{''.join('r' if column.number else 'l' for column in columns)}@{{}}}}"
    yield r"\toprule"
    groups = [(model, list(group)) for model, group in groupby(block, key=lambda index: table.columns[index].model)]
    if any(model for model, _ in groups):
        heads = (
            rf"\multicolumn{{{len(group)}}}{{c}}{{{_stacked(model, sum(widths[index] for index in group) - 2)}}}"
            for model, group in groups
        )
        yield f"{' & '.join(heads)} \\\\"
        spans = ((model, block.index(group[0]) + 1, block.index(group[-1]) + 1) for model, group in groups)
        yield " ".join(rf"\cmidrule(lr){{{start}-{end}}}" for model, start, end in spans if model)
    yield f"{' & '.join(_stacked(table.columns[index].title, widths[index] - 2) for index in block)} \\\\"
    yield r"\midrule"
    texts_left = sum(not column.number for column in columns)
    before = ""
    for row in texts:
        cells = [row[index] for index in block]
        if texts_left > 1 and cells[0] == before:
            cells[0] = ""
        elif texts_left > 1 and before:
            yield r"\addlinespace"
        before = cells[0] or before
        yield f"{' & '.join(cells)} \\\\"
    yield r"\bottomrule"
    yield r"\end{tabular}"
