"""An analysis as it is shown, in the layout of the paper's tables 2 and 3, and its files."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import fmean
from typing import Any

from pipeline.evaluate.report import views
from pipeline.evaluate.report.text import to_markdown_page
from pipeline.evaluate.report.views import PLAIN, Document, Number, NumberFormat, Table
from pipeline.evaluate.report.write import MARKDOWN_MARK, page, replace_files, to_json, to_lines
from pipeline.evaluate.selection.analysis import Facts
from pipeline.text import LONGEST_MESSAGE, counted, printable

CORRELATION, P_VALUE = NumberFormat(1, 3), NumberFormat(1, 4, least=0.0001)
CSV_HEAD = ("table", "row", "column", "value")
OVERLAPS, SHADES = "overlaps", " ░▒▓█"
"""Section of overlap scores, and their characters in a terminal, from 0 to 1 in equal steps."""

DOUBLE = 25
"""Number of corruptions up to which a score in a terminal has two characters, so that it is nearly a square."""

MOST_DRAWN = 60
"""Number of corruptions up to which there is a heat map: more cells are unreadable, and take long to draw."""

GLOSSARY = {
    "Overlap score": "With r the accuracy under a corruption divided by the clean accuracy: the gain in r of a model "
    "trained with the other corruption over one trained on clean images, divided by the gain of a model trained with "
    "the same corruption; averaged over both directions, 0 or more.",
    "Category": "Corruptions with similar overlap scores, found by k-means with as few categories as suffice.",
    "Residual robustness": "The clean accuracy minus the accuracy on other images. Smaller is better.",
    "n, k": "Balanced benchmarks: n random categories with k random corruptions of each.",
    "Spread": "The standard deviation of the numbers of corruptions that a benchmark has in each category. 0: "
    "balanced.",
}


def document(facts: Facts, title: str) -> Document:
    """Return an analysis as it is shown."""
    models = f"{counted(len(facts['models']), 'model')}. " if facts["models"] else ""
    parts = groupby((table for table in _tables(facts) if table.rows), key=lambda table: table.section)
    return Document(
        title=printable(title),
        warnings=[printable(warning, LONGEST_MESSAGE) for warning in facts["warnings"]],
        models=(),
        notes={},
        headlines={},
        data_sets=0,
        chapters=[views.Chapter(section.capitalize(), list(tables)) for section, tables in parts],
        glossary=list(GLOSSARY.items()),
        sources=["Laugros et al., BMVC 2021 (arXiv 2107.12052)"],
        about=f"{models}Seed of categories and random benchmarks: {facts['settings']['seed']}.",
    )


def terminal_tables(shown: Document) -> list[Table]:
    """Return the tables for a terminal, where overlap scores are shades: as numbers, they are too wide."""
    return [_shades(table) if table.section == OVERLAPS else table for table in shown.tables]


def write_selection(facts: Facts, shown: Document, folder: str) -> None:
    """Write ``selection.html``, ``.md``, ``.csv`` and ``.json``, replacing those of an earlier analysis.

    Raises:
        UserError: If the folder is not writable, or contains a file with one of these names that is not an analysis.
        OSError: If a write fails. No file has been replaced then.
    """
    contents = {
        "html": page(shown),
        "md": f"{to_markdown_page(shown)}\n{MARKDOWN_MARK}",
        "csv": to_lines([CSV_HEAD, *_values(facts)]),
        "json": to_json(facts),
    }
    replace_files(folder, {f"selection.{suffix}": text.encode() for suffix, text in contents.items()})


def _tables(facts: Facts) -> Iterator[Table]:
    """Yield the tables of an analysis; those without data have no rows."""
    found = facts["categories"] or {"members": {}, "overlaps": None, "robustness": None}
    if facts["overlaps"]:
        yield _overlap_table(**facts["overlaps"], grouped=[name for each in found["members"].values() for name in each])
    yield _table(
        "categories: categories",
        "Corruptions with similar overlap scores.",
        ["category", "corruptions", "names"],
        [[name, str(len(each)), _listed(each)] for name, each in found["members"].items()],
    )
    yield _table(
        "categories: correlations of pairs",
        "Mean Pearson correlation over pairs of corruptions. Categories are good if the first is larger.",
        ["of", "same category", "different categories"],
        [[of, *means.values()] for of, means in _pairs(facts, "overlap scores")],
        CORRELATION,
    )
    yield _table(
        "benchmarks: chosen benchmarks",
        "Spread: standard deviation of the numbers of corruptions in each category. Overlap: mean overlap score within "
        "categories.",
        ["benchmark", "spread", "overlap", "names"],
        [[each["name"], each["spread"], each["overlap"], _listed(each["corruptions"])] for each in facts["benchmarks"]],
    )
    title = "correlation with natural robustness"
    yield from prediction_tables(title, "Columns: the benchmark.", facts["by_size"])
    yield from prediction_tables(
        f"{title}, by spread",
        "Columns: the standard deviation of the numbers of corruptions in each category. 0.0: balanced benchmarks.",
        facts["by_spread"],
    )


def prediction_tables(title: str, what: str, predictions: Sequence[Facts]) -> Iterator[Table]:
    """Yield the table of correlations, with natural sets and their mean as rows, and that of p-values, without a mean.

    There is a column for each prediction, which ``what`` explains.
    """
    columns = ["natural set", *(each["title"] for each in predictions)]
    means = [with_mean(each) for each in predictions]
    rows = [[name, *(each[name] for each in means)] for name in (means[0] if means else ())]
    counts = [["benchmarks", *(str(each["benchmarks"]) for each in predictions)]] if predictions else []
    note = f"Pearson correlation of residual robustness over models; mean over the benchmarks of a column. {what}"
    yield _table(f"predictiveness: {title}", note, columns, [*rows, *counts], CORRELATION)
    p_values = [each["p_values"] for each in predictions]
    rows = [[name, *(each[name] for each in p_values)] for name in (p_values[0] if p_values else ())]
    note = "Two-sided p-value of the correlation of a benchmark; mean over the benchmarks of a column, as in the paper."
    yield _table(f"predictiveness: {title}: p-values", note, columns, rows, P_VALUE)


def with_mean(prediction: Facts) -> dict[str, float]:
    """Return the correlations of a prediction by natural set, and their mean."""
    return {**prediction["correlations"], "mean": fmean(prediction["correlations"].values())}


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(printable, names))


def _pairs(facts: Facts, overlaps: str) -> list[tuple[str, dict[str, float | None]]]:
    """Return the known correlations of pairs; ``overlaps`` is the name of the first ones."""
    found = facts["categories"] or {"overlaps": None, "robustness": None}
    named = ((overlaps, found["overlaps"]), ("residual robustness", found["robustness"]))
    return [(of, means) for of, means in named if means]


def _overlap_table(names: Sequence[str], scores: Sequence[Sequence[float]], grouped: Sequence[str]) -> Table:
    """Return the overlap scores, with the corruptions of a category next to each other, and their heat map."""
    order = [names.index(name) for name in dict.fromkeys([*grouped, *names])]
    titles = [printable(names[each]) for each in order]
    rows = [[scores[row][column] for column in order] for row in order]
    cells = [
        views.Point(name, other, score)
        for name, row in zip(titles, rows, strict=True)
        for other, score in zip(titles, row, strict=True)
    ]
    panel = views.Panel("", cells, views.Axis("corruption"), views.Axis("overlap score", PLAIN))
    return _table(
        f"{OVERLAPS}: overlap scores",
        "How much training with one corruption helps against the other, relative to training with that other, averaged "
        "over both directions. 1: as much. 0: not at all.",
        ["corruption", *titles],
        [[name, *row] for name, row in zip(titles, rows, strict=True)],
        plot=views.Plot("heat map", [panel], strong="high") if len(names) <= MOST_DRAWN else None,
    )


def _shades(table: Table) -> Table:
    """Return the table of overlap scores with characters for scores."""
    width = 2 if len(table.rows) <= DOUBLE else 1

    def shade(cell: views.Cell) -> str:
        score = cell.value if isinstance(cell, Number) else 0
        return width * SHADES[min(int(score * len(SHADES)), len(SHADES) - 1)]

    rows = [[str(name), "".join(map(shade, cells))] for name, *cells in table.rows]
    note = "Shades: below 0.2 (blank), 0.4, 0.6, 0.8, and from there. Columns are in the order of the rows."
    return _table(f"{OVERLAPS}: heat map", note, ["corruption", "overlap scores"], rows)


def _table(
    title: str,
    note: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    form: NumberFormat = PLAIN,
    plot: views.Plot | None = None,
) -> Table:
    """Return a table of names, texts and numbers; ``title`` starts with the section."""

    def cell(value: str | float | None) -> views.Cell:
        return value if isinstance(value, str) else Number(float("nan") if value is None else value, format=form)

    section, _, name = title.partition(": ")
    cells = [[printable(str(first)), *map(cell, others)] for first, *others in rows]
    texts = {0, *(at for row in rows for at, each in enumerate(row) if isinstance(each, str) and not each.isdecimal())}
    heads = [views.Column(printable(each), number=at not in texts) for at, each in enumerate(columns)]
    return Table(section, name, note, heads, cells, plot)


def _values(facts: Facts) -> Iterator[tuple[str, str, str, float]]:
    """Yield all values: table, row, column, value."""
    if overlaps := facts["overlaps"]:
        for name, scores in zip(overlaps["names"], overlaps["scores"], strict=True):
            yield from (("overlap", name, other, score) for other, score in zip(overlaps["names"], scores, strict=True))
    for category, members in facts["categories"]["members"].items() if facts["categories"] else ():
        yield from (("category", name, category, 1) for name in members)
    for of, means in _pairs(facts, "overlap"):
        kinds = zip(("same category", "different categories"), means.values(), strict=True)
        yield from (("correlation of pairs", of, kind, mean) for kind, mean in kinds if mean is not None)
    for each in facts["benchmarks"]:
        yield from (("benchmark", name, each["name"], 1) for name in each["corruptions"])
    for kind in ("size", "spread"):
        for each in facts[f"by_{kind}"]:
            title = each["title"]
            yield from ((f"correlation by {kind}", name, title, value) for name, value in with_mean(each).items())
            yield from ((f"p-value by {kind}", name, title, value) for name, value in each["p_values"].items())
