"""Figures of reference models as papers print them, shown beside evaluated models. They enter no computation."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

from pipeline.evaluate.report import natural_robustness
from pipeline.evaluate.report.attack_summaries import AdversarialSummary
from pipeline.evaluate.report.baseline import ALEXNET
from pipeline.evaluate.report.family import Column, Figure, Models, ReportLayout, Table
from pipeline.evaluate.report.formats import PERCENT, Cell, Number, Value
from pipeline.evaluate.report.scores import Evaluation
from pipeline.evaluate.report.summary import PublishedFigure
from pipeline.evaluate.report.tables import lossy_note, rows_by_name, summary_cell
from pipeline.evaluate.report.validation import VALIDATION_IMAGES
from pipeline.text import printable
from pipeline.transforms import imagenet_c, imagenet_c_bar, imagenet_p, low_pass
from pipeline.transforms.registry import FAMILIES

FILE = "published.csv"
"""The figures as printed: in percent, or in the unit of their format in the report.

``data_set`` is a value of ``BENCHMARKS`` or ``UNNORMALISED``, one of the names below, or the name of a task.
"""

MARK = "(published)"

BENCHMARKS: Mapping[str, str] = {imagenet_c.FAMILY.name: "imagenet-c", imagenet_p.FAMILY.name: "imagenet-p"}
"""Family of transforms -> data set of published figures, which are normalised by AlexNet's."""

UNNORMALISED: Mapping[tuple[str, str, int], str] = {
    (imagenet_c_bar.FAMILY.name, "imagenet", 1000): "imagenet-c-bar",
    (imagenet_c_bar.FAMILY.name, "cifar", 10): "cifar-10-c-bar",
    (low_pass.FAMILY.name, "imagenet", 1000): "low-pass",
}
"""Family of transforms, profile and number of classes -> data set of published figures that are not normalised."""

ATTACK_RECIPES = ("robustart", "ares-white-box")
"""Attack recipes with published figures of models that were attacked themselves."""

VALIDATION, NATURAL_ROBUSTNESS = "imagenet", "natural-robustness"


def published_figures(found: Iterable[tuple[Evaluation | None, ReportLayout[Any], Any]]) -> list[PublishedFigure]:
    """Return the published figures on the data sets of a report.

    Args:
        found: Evaluation, layout and summary. The evaluation is None for figures of several data sets.
    """
    sections: dict[tuple[str, str], tuple[ReportLayout[Any], str]] = {}
    transforms: dict[tuple[str, str], set[str]] = {}
    for evaluation, layout, summary in found:
        if data_set := _data_set(evaluation, layout, summary):
            section = layout.key, layout.title(summary)
            sections[section] = layout, data_set
            transforms.setdefault(section, {""}).update(_transforms(evaluation, layout, summary))
    return [
        PublishedFigure(
            model, title, family, transform, name, printed / figure.format.scale, source, ALEXNET * figure.normalised
        )
        for (family, title), (layout, data_set) in sections.items()
        for model, source, transform, name, printed in _figures_by_data_set().get(data_set, ())
        if transform in transforms[family, title]
        for figure in _named(layout, transform, name)
    ]


def _transforms(evaluation: Evaluation | None, layout: ReportLayout[Any], summary: Any) -> Iterator[str]:
    """Yield the transforms whose published figures are shown: those of the family, and others that were evaluated."""
    yield from FAMILIES[evaluation.table.data_set.family].names if evaluation else ()
    yield from (row.name for row in layout.rows(summary))


def _named(layout: ReportLayout[Any], transform: str, name: str) -> list[Figure]:
    """Return the figure of a name, of a transform or of the whole data set, in a list."""
    return [figure for figure in (layout.row_figures if transform else layout.figures) if figure.name == name]


def _data_set(evaluation: Evaluation | None, layout: ReportLayout[Any], summary: Any) -> str | None:
    """Return the data set of published figures that a summary can be compared with; None if there is none."""
    if evaluation is None:
        return NATURAL_ROBUSTNESS if layout is natural_robustness.LAYOUT else None
    if isinstance(summary, AdversarialSummary):
        comparable = summary.white_box and summary.imagenet
        return summary.recipe if comparable and summary.recipe in ATTACK_RECIPES else None
    if evaluation.role is None:
        table = evaluation.table
        if unnormalised := UNNORMALISED.get((table.data_set.family, table.data_set.profile, table.labels)):
            return None if evaluation.groups_digest else unnormalised
        comparable = layout.baseline(summary) == ALEXNET and layout.level(summary) in (None, 1)
        return BENCHMARKS.get(evaluation.table.data_set.family) if comparable else None
    if evaluation.role == "clean":
        complete = summary.complete_images == VALIDATION_IMAGES and not evaluation.groups_digest
        return VALIDATION if complete else None
    return evaluation.table.task.name if evaluation.table.task else None


@cache
def _figures_by_data_set() -> Mapping[str, Sequence[tuple[str, str, str, str, float]]]:
    """Return model, source, transform, figure and printed value of the published figures by data set."""
    text = resources.files(__package__).joinpath(FILE).read_text("utf-8")
    by_data_set: dict[str, list[tuple[str, str, str, str, float]]] = {}
    for row in csv.DictReader(io.StringIO(text)):
        figure = f"{row['model']} {MARK}", row["source"], row["transform"], row["figure"], float(row["printed"])
        by_data_set.setdefault(row["data_set"], []).append(figure)
    return by_data_set


# Tables

NOTE = (
    f"Models marked {MARK} were not evaluated here: their figures are those that the papers print. They are "
    "not ranked, and nothing is normalised by them."
)


def published_tables(
    layout: ReportLayout[Any], section: str, models: Models[Any], figures: Iterable[PublishedFigure]
) -> Iterator[Table]:
    """Yield tables that compare the models of a section with published ones: of the whole data set, by transform.

    Args:
        layout: Layout of the section.
        section: Title of the section.
        models: Summaries of the evaluated models.
        figures: Published figures of the whole report.
    """
    here = [each for each in figures if each.family == layout.key and printable(each.data_set) == section]
    if not here:
        return
    published: dict[tuple[str, str], dict[tuple[str, str], float]] = {}
    for each in here:
        published.setdefault((each.model, each.source), {})[each.transform, each.figure] = each.value
    names = {(each.transform, each.figure) for each in here}
    yield _comparison(layout, section, [each for each in layout.figures if ("", each.name) in names], models, published)
    for figure in layout.row_figures:
        if any(transform and name == figure.name for transform, name in names):
            yield _by_transform(layout, section, figure, models, published)


def _note(figures: Sequence[Figure]) -> str:
    """Return the explanation of a table, which begins with the unit of its figures."""
    unit = "Percent." if all(figure.format == PERCENT for figure in figures) else "In the units of the key figures."
    return f"{unit} {NOTE}"


Published = Mapping[tuple[str, str], Mapping[tuple[str, str], float]]
"""Figures by transform and name, of each model and source."""


def _comparison(
    layout: ReportLayout[Any], section: str, figures: Sequence[Figure], models: Models[Any], published: Published
) -> Table:
    """Return the table of figures of the whole data set: models as rows."""
    rows: list[Sequence[Cell]] = [
        [model, *(replace(summary_cell(layout, summary, each), short=True) for each in figures), "evaluated"]
        for model, summary in models.items()
    ]
    rows += [
        [model, *(Number(values.get(("", figure.name)), figure.format) for figure in figures), source]
        for (model, source), values in published.items()
        if any(("", figure.name) in values for figure in figures)
    ]
    columns = [Column("model", number=False), *(Column(figure.name) for figure in figures)]
    note = f"{_note(figures)} {lossy_note(layout, models)}".rstrip()
    return Table(section, "published models", note, [*columns, Column("source", number=False)], rows)


def _by_transform(
    layout: ReportLayout[Any], section: str, figure: Figure, models: Models[Any], published: Published
) -> Table:
    """Return the table of a figure of transforms: transforms as rows, models as columns."""
    of_models: dict[str, Mapping[str, Value]] = {
        model: {name: figure.value(row) for name, row in rows.items()}
        for model, rows in rows_by_name(layout, models).items()
    }
    of_published = {
        model: {transform: value for (transform, name), value in values.items() if transform and name == figure.name}
        for (model, _), values in published.items()
    }
    columns: dict[str, Mapping[str, Value]] = of_models | {name: each for name, each in of_published.items() if each}
    transforms = dict.fromkeys(transform for values in of_published.values() for transform in values)
    rows: list[Sequence[Cell]] = [
        [name, *(Number(values.get(name), figure.format, short=True) for values in columns.values())]
        for name in transforms
    ]
    title = f"{figure.name} of published models"
    return Table(section, title, _note([figure]), [Column("transform", number=False), *map(Column, columns)], rows)
