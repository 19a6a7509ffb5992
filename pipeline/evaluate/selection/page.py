"""An analysis as one self-contained HTML page, with the style and the tables of a report's page."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from pipeline.evaluate.report.page import Part, part, template
from pipeline.evaluate.selection.heat_map import heat_map
from pipeline.evaluate.selection.records import Selection
from pipeline.evaluate.selection.tables import OVERLAPS, by_category, tables
from pipeline.text import LONGEST_MESSAGE, printable

GLOSSARY = (
    (
        "Overlap score",
        "With r the accuracy under a corruption divided by the clean accuracy: the gain in r of a model trained with "
        "the other corruption over one trained on clean images, divided by the gain of a model trained with the same "
        "corruption; averaged over both directions, 0 or more.",
    ),
    ("Category", "Corruptions with similar overlap scores, found by k-means with as few categories as suffice."),
    ("Residual robustness", "The clean accuracy minus the accuracy on other images. Smaller is better."),
    ("n, k", "Balanced benchmarks: n random categories with k random corruptions of each."),
    (
        "Spread",
        "The standard deviation of the numbers of corruptions that a benchmark has in each category. 0: balanced.",
    ),
    ("Source", "Laugros et al., BMVC 2021 (arXiv 2107.12052)."),
)


def page(selection: Selection, title: str) -> str:
    """Return the analysis as HTML.

    Args:
        selection: The analysis.
        title: Title of the page.

    Raises:
        UserError: If Jinja2 is not installed.
    """
    parts: list[Part] = []
    for table in tables(selection):
        first = table.section == OVERLAPS and not any(each.plot for each in parts)
        plot = heat_map(by_category(selection.overlaps, selection.categories)) if selection.overlaps and first else None
        parts.append(part(replace(table, plot=plot), (), "overlaps"))
    return template("selection.html.j2", __package__).render(
        title=printable(title),
        warnings=[printable(warning, LONGEST_MESSAGE) for warning in selection.warnings],
        models=len(selection.models),
        seed=selection.settings.seed,
        chapters=[(name, list(each)) for name, each in groupby(parts, key=lambda each: each.table.section)],
        slots={},
        heads=lambda table: (),
        glossary=GLOSSARY,
    )
