"""Tables and scatter plots that compare the models of a report: ranks, differences, clean accuracy, size."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

from pipeline.evaluate.report import across
from pipeline.evaluate.report.load import LOSSY
from pipeline.evaluate.report.measures import Metric, Section
from pipeline.evaluate.report.pivots import MISSING, cell
from pipeline.evaluate.report.views import (
    LOSSY_CLEAN,
    NOTHING,
    Axis,
    Cell,
    Column,
    Number,
    NumberFormat,
    Panel,
    Plot,
    Point,
    Table,
)
from pipeline.evaluate.results.folder import ModelTable
from pipeline.text import LONGEST_MESSAGE, printable

COMPARISON, MODELS = "Comparison", "Models"

RANK = NumberFormat(1, 1)

MAX_PAIRED = 6
"""Maximum number of models of which every pair has a difference; of more, neighbours in the ranking have."""

NOT_DRAWN = "Models that cannot be compared are not drawn."

CLEAN_ERRORS = ("top-1 error", "clean error")  # names of published figures that are errors on clean images

SIZES: Mapping[str, tuple[str, NumberFormat]] = {
    "parameters (millions)": ("parameters", NumberFormat(1e-6, 1, grouped=True)),
    "multiply-adds (billions)": ("multiply_adds", NumberFormat(1e-9, 2, grouped=True)),
}
"""Attribute and format of each size of a model, by its name with the unit of the format."""


@dataclass(frozen=True)
class ReportModel:
    """A model of a report."""

    name: str
    note: str = ""  # of the user, for example how it was trained; those of several evaluations are joined
    parameters: int | None = None
    multiply_adds: int | None = None  # for one image; None if they differ, since they depend on the size of images


def models_of(evaluated: Iterable[ModelTable]) -> list[ReportModel]:
    """Return the models of evaluations, in order of their first evaluation."""
    tables: dict[str, list[ModelTable]] = {}
    for table in evaluated:
        tables.setdefault(table.name, []).append(table)
    models = []
    for name, of_model in tables.items():
        note = "; ".join(dict.fromkeys(table.note for table in of_model if table.note))
        sizes = ({getattr(table, attribute) for table in of_model} - {None} for attribute, _ in SIZES.values())
        models.append(ReportModel(name, note, *(size.pop() if len(size) == 1 else None for size in sizes)))
    return models


def model_table(models: Sequence[ReportModel]) -> Iterator[Table]:
    """Yield the table of notes and sizes, without columns that have no value; nothing if all have none."""
    columns: dict[Column, list[Cell]] = {}
    if any(model.note for model in models):
        notes: list[Cell] = [printable(model.note, LONGEST_MESSAGE) if model.note else NOTHING for model in models]
        columns[Column("note", number=False)] = notes
    for title, (attribute, format_) in SIZES.items():
        sizes = [getattr(model, attribute) for model in models]
        if any(size is not None for size in sizes):
            columns[Column(title)] = [Number(math.nan if size is None else size, format=format_) for size in sizes]
    if columns:
        rows = list(zip([printable(model.name) for model in models], *columns.values(), strict=True))
        note = (
            "As recorded by evaluate: its option --note, the number of parameters, and the multiply-adds for one image."
        )
        yield Table(MODELS, "notes and sizes", note, [Column("model", number=False), *columns], rows)


def tables(
    sections: Sequence[Section],
    rankings: Sequence[across.Ranking],
    means: Mapping[str, float],
    models: Sequence[ReportModel],
    published: Sequence[across.PublishedFigure],
) -> Iterator[Table]:
    """Yield the tables that compare the models of a report, with their mean ranks; nothing if no two can be compared.

    Published figures are drawn, but not ranked.
    """
    if rankings:
        yield _ranking_table(rankings, means)
        yield _difference_table(rankings, means)
        metrics = [(section, metric) for section in sections if (metric := across.leading_metric(section))]
        yield from _clean_accuracy_table(sections, metrics, published)
        yield from _size_table(metrics, models)


# Ranks and differences


def _ranking_table(rankings: Sequence[across.Ranking], means: Mapping[str, float]) -> Table:
    """Return the table of values and ranks: models as rows, the best first; data sets as columns."""
    rows: list[Sequence[Cell]] = []
    for model in _ordered(rankings, means):
        cells = [_ranked(each, model) for each in rankings]
        rows.append([model, *[Number(means.get(model, math.nan), format=RANK)] * bool(means), *cells])
    columns = [Column("model", number=False), *[Column("mean rank")] * bool(means)]
    columns += [Column(_directed(each), each.section.title) for each in rankings]
    note = (
        "The most important metric of each data set, and the rank (#) of each model. Models share ranks, such as #2-3, "
        "if their difference has a 95 % confidence interval that contains 0, or has none because their images are in "
        "another order. Values on other images, with another baseline or over another part of the benchmark are not "
        "ranked."
    )
    if means:
        complete = sum(each.ranks.keys() == means.keys() for each in rankings)
        note += f" The mean rank is over the {complete} columns in which every model has a rank."
    lossy = {
        each.section.models[model].clean_images
        for each in rankings
        for model in each.values
        if each.metric.of_clean and each.section.models[model].clean_images.endswith(LOSSY)
    }
    if lossy:
        note += f" {LOSSY_CLEAN} depends on clean images that were compressed again: {', '.join(sorted(lossy))}."
    return Table(COMPARISON, "ranking", note, columns, rows)


def _ranked(each: across.Ranking, model: str) -> Number:
    """Return the value of a model with its rank."""
    if model not in each.values:
        return MISSING
    first, last = each.ranks.get(model, ("", ""))
    rank = str(first) if first == last else f"{first}-{last}"
    return replace(cell(each.section.models[model], each.metric, each.values[model]), partial=False, rank=rank)


def _difference_table(rankings: Sequence[across.Ranking], means: Mapping[str, float]) -> Table:
    """Return the table of differences of models: pairs as rows, data sets as columns."""
    order = _ordered(rankings, means)
    pairs = list(combinations(order, 2)) if len(order) <= MAX_PAIRED else list(pairwise(order))
    rows: list[Sequence[Cell]] = []
    for one, other in pairs:
        found = [each.difference(one, other) for each in rankings]
        if any(found):
            cells = [
                Number(measure.value, measure.low, measure.high, each.metric.format) if measure else MISSING
                for each, measure in zip(rankings, found, strict=True)
            ]
            rows.append([f"{one} - {other}", *cells])
    columns = [Column("models", number=False), *(Column(_directed(each), each.section.title) for each in rankings)]
    note = (
        "First model minus second, in the unit of the metric, with the 95 % confidence interval of the paired "
        "bootstrap: every draw has the same images for both. If the interval contains 0, chance may explain the "
        "difference."
    )
    if len(order) > MAX_PAIRED:
        note += " Only neighbours in the ranking are compared."
    return Table(COMPARISON, "differences", note, columns, rows, intervals=True)


def _ordered(rankings: Sequence[across.Ranking], means: Mapping[str, float]) -> list[str]:
    """Return the models by mean rank, or by their rank on the first data set without mean ranks; unranked ones last."""
    first = rankings[0]
    by = means or {
        model: sum(ranks) - 1e-9 * first.metric.better * first.values[model].value
        for model, ranks in first.ranks.items()
    }
    models = dict.fromkeys(model for each in rankings for model in each.values)
    return sorted(models, key=lambda model: by.get(model, math.inf))


def _directed(each: across.Ranking) -> str:
    """Return the name of a metric with an arrow in the direction of better values."""
    return f"{each.metric.name} {'↑' if each.metric.better > 0 else '↓'}"


# Scatter plots


def _clean_accuracy_table(
    sections: Sequence[Section], metrics: Sequence[tuple[Section, Metric]], published: Sequence[across.PublishedFigure]
) -> Iterator[Table]:
    """Yield the table and plots of clean accuracy and robustness; nothing if no plot has two models."""
    clean = [section for section in sections if section.report.is_clean]
    best = max(clean, key=lambda each: (len(each.models), max(of.images for of in each.models.values())), default=None)
    fallback = {model: each.clean_accuracy for model, each in best.models.items()} if best else {}
    axis = Axis("clean accuracy")
    plots: list[Panel] = []
    for section, metric in metrics:
        if not section.report.is_clean:
            accuracies = {
                model: fallback.get(model, math.nan) if math.isnan(each.clean_accuracy) else each.clean_accuracy
                for model, each in section.models.items()
            }
            plots += _scatter(section, metric, axis, accuracies, _published_points(section, metric, published))
    note = (
        "Clean accuracy is that on the clean versions of the images or, for natural images, on clean images of the "
        "same classes" + (f"; for other data sets, that on {best.title}. " if best else ". ") + NOT_DRAWN
    )
    lossy = {
        f"{model}: {each.clean_images}"
        for section in sections
        for model, each in section.models.items()
        if each.clean_images.endswith(LOSSY)
    }
    if lossy:
        note += f" Clean images that were compressed again: {'; '.join(sorted(lossy))}."
    yield from _scatter_table("clean accuracy and robustness", note, plots)


def _size_table(metrics: Sequence[tuple[Section, Metric]], models: Sequence[ReportModel]) -> Iterator[Table]:
    """Yield the table and plots of sizes and the metrics of data sets; nothing if no plot has two models."""
    plots: list[Panel] = []
    for title, (attribute, format_) in SIZES.items():
        sizes = {printable(model.name): float(getattr(model, attribute) or math.nan) for model in models}
        for section, metric in metrics:
            plots += _scatter(section, metric, Axis(title, format_, logarithmic=True), sizes)
    note = f"Sizes are on a logarithmic scale. Multiply-adds are for one image. {NOT_DRAWN}"
    yield from _scatter_table("model size", note, plots)


def _published_points(section: Section, metric: Metric, published: Iterable[across.PublishedFigure]) -> Iterator[Point]:
    """Yield the reference models whose figure and clean error are published."""
    whole = [each for each in published if not each.transform]
    errors = {(each.model, each.source): each.value for each in whole if each.metric in CLEAN_ERRORS}
    for each in whole:
        here = (each.family, each.section, each.metric) == (section.report.key, section.title, metric.name)
        if here and (each.model, each.source) in errors:
            yield Point(printable(each.model), 1 - errors[each.model, each.source], each.value, published=True)


def _scatter(
    section: Section, metric: Metric, axis: Axis, positions: Mapping[str, float], published: Iterable[Point] = ()
) -> Iterator[Panel]:
    """Yield the plot of the models that can be compared and have a position, if there are at least two of them."""
    found = {model: section.models[model].whole(metric.name) for model in across.comparable_models(section, metric)}
    known = {model: x for model, x in positions.items() if not math.isnan(x)}
    points = [Point(model, known[model], each.value) for model, each in found.items() if each and model in known]
    points += published
    if sum(not point.published for point in points) > 1:
        unit = f" ({metric.format.unit})" if metric.format.unit else ""
        yield Panel(section.title, points, axis, Axis(f"{metric.name}{unit}", metric.format))


def _scatter_table(title: str, note: str, plots: Sequence[Panel]) -> Iterator[Table]:
    """Yield the table of the points of plots: models as rows, both coordinates of each plot as columns.

    Coordinates that several plots have in common are one column.
    """
    if not plots:
        return
    columns: list[tuple[Axis, dict[str, float], list[str]]] = []
    for plot in plots:
        for axis, values, heading in (
            (plot.x, {point.name: float(point.x) for point in plot.points}, ""),
            (plot.y, {point.name: point.y for point in plot.points}, plot.title),
        ):
            for known, others, titles in columns:
                same = all(math.isclose(others.get(model, value), value) for model, value in values.items())
                if same and known == axis and (not heading or heading in titles):
                    others.update(values)
                    titles.append(plot.title)
                    break
            else:
                columns.append((axis, values, [plot.title]))
    names = dict.fromkeys(point.name for plot in plots for point in plot.points)
    rows: list[Sequence[Cell]] = [
        [name, *(Number(values.get(name, math.nan), format=axis.format) for axis, values, _ in columns)]
        for name in names
    ]
    repeated = [axis for axis, _, _ in columns]
    heads = [
        Column(axis.name, ", ".join(dict.fromkeys(titles)) if repeated.count(axis) > 1 or len(set(titles)) == 1 else "")
        for axis, _, titles in columns
    ]
    yield Table(COMPARISON, title, note, [Column("model", number=False), *heads], rows, Plot("scatter", plots))
