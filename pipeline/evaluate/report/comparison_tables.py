"""Tables and scatter plots that compare the models of a report, and their values as CSV lines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from pipeline.evaluate.report.family import Column, Figure, Table
from pipeline.evaluate.report.formats import LOSSY_CLEAN, NOTHING, Cell, Number, NumberFormat, value_of
from pipeline.evaluate.report.models import SIZES, ReportModel
from pipeline.evaluate.report.plots import Axis, Plot, PlotKind, Point, Scatter, Scatters
from pipeline.evaluate.report.ranking import Comparison, Ranking, comparable_models, leading_figure
from pipeline.evaluate.report.section import Section
from pipeline.evaluate.report.summary import PublishedFigure
from pipeline.evaluate.report.tables import is_lossy
from pipeline.evaluate.report.tested import LOSSY
from pipeline.text import printable

SECTION = "Comparison"

ONE_DIGIT = NumberFormat(1, 1)

CLEAN_KEY = "clean"
"""Key of the layout of clean images."""

NOT_DRAWN = "Models that cannot be compared are not drawn."

CLEAN_ERRORS = ("top-1 error", "clean error")
"""Names of published figures that are errors on clean images."""


def comparison_tables(
    comparison: Comparison,
    sections: Sequence[Section],
    models: Sequence[ReportModel],
    published: Sequence[PublishedFigure] = (),
) -> Iterator[Table]:
    """Yield the tables that compare the models of a report.

    Args:
        comparison: Ranks of the models.
        sections: Sections of the report.
        models: Notes and sizes of the models.
        published: Published figures of reference models, which are drawn but not ranked.
    """
    figures = [(section, figure) for section in sections if (figure := leading_figure(section))]
    formats = {(section.title, section.layout.key): figure.format for section, figure in figures}
    lossy = {
        (section.title, section.layout.key, model): section.layout.clean_images(summary)
        for section, figure in figures
        for model, summary in section.models.items()
        if is_lossy(section.layout, summary, figure)
    }
    yield _ranking_table(comparison, formats, lossy)
    yield _order_table(comparison)
    robustness = [(section, figure) for section, figure in figures if section.layout.key != CLEAN_KEY]
    yield from _clean_accuracy_table(sections, robustness, published)
    yield from _size_table(figures, models)


def comparison_lines(comparison: Comparison) -> Iterator[tuple[str, str, str, str, float]]:
    """Yield model, data set, family, name and value of all ranks; the mean rank has no data set."""
    for ranking in comparison.rankings:
        for model, rank in ranking.ranks.items():
            yield (model, ranking.data_set, ranking.family, f"rank by {ranking.figure}", rank)
    for model, mean in comparison.mean_ranks.items():
        yield (model, "", "comparison", "mean rank", mean)


# Ranks


def _ranking_table(
    comparison: Comparison,
    formats: Mapping[tuple[str, str], NumberFormat],
    lossy: Mapping[tuple[str, str, str], str],
) -> Table:
    """Return the table of values and ranks: models as rows, the best first; data sets as columns."""
    means, rankings = comparison.mean_ranks, comparison.rankings
    rows: list[Sequence[Cell]] = []
    for model in _ordered(comparison):
        cells = [
            Number(
                each.values.get(model),
                formats[each.data_set, each.family],
                rank=each.ranks.get(model, 0),
                lossy=(each.data_set, each.family, model) in lossy,
            )
            for each in rankings
        ]
        rows.append([model, *[Number(means.get(model), ONE_DIGIT)] * bool(means), *cells])
    columns = [Column("model", number=False), *[Column("mean rank")] * bool(means)]
    columns += [Column(_directed(each), each.data_set) for each in rankings]
    note = (
        "The most important metric of each data set, and the rank (#) of each model. Equal values share a rank. Values "
        "on other images, with another baseline or over another part of the benchmark are not ranked."
    )
    if means:
        complete = sum(each.ranks.keys() == means.keys() for each in rankings)
        note += f" The mean rank is over the {complete} columns in which every model has a rank."
    if lossy:
        encoders = ", ".join(dict.fromkeys(lossy.values()))
        note += f" {LOSSY_CLEAN} depends on clean images that were compressed again: {encoders}."
    return Table(SECTION, "ranking", note, columns, rows)


def _order_table(comparison: Comparison) -> Table:
    """Return the table of model names in the order of each metric: ranks as rows, data sets as columns."""
    rankings = comparison.rankings
    rows: list[Sequence[Cell]] = []
    for rank in range(1, max(len(each.ranks) for each in rankings) + 1):
        tied = ([model for model, own in each.ranks.items() if own == rank] for each in rankings)
        rows.append([str(rank), *(", ".join(models) or NOTHING for models in tied)])
    columns = [Column("rank", number=False)]
    columns += [Column(_directed(each), each.data_set, number=False) for each in rankings]
    return Table(SECTION, "models by rank", "The best model of each data set is in the first row.", columns, rows)


def _ordered(comparison: Comparison) -> list[str]:
    """Return the models by mean rank, or by their rank on the first data set without mean ranks; unranked ones last."""
    by = comparison.mean_ranks or comparison.rankings[0].ranks
    models = dict.fromkeys(chain.from_iterable(each.values for each in comparison.rankings))
    return sorted(models, key=lambda model: by.get(model, math.inf))


def _directed(ranking: Ranking) -> str:
    """Return the name of a metric with an arrow in the direction of better values."""
    return f"{ranking.figure} {'↑' if ranking.higher_is_better else '↓'}"


# Scatter plots

Figures = Sequence[tuple[Section, Figure]]
"""Sections, and the figure of each that models are compared by."""


def _clean_accuracy_table(
    sections: Sequence[Section], figures: Figures, published: Sequence[PublishedFigure]
) -> Iterator[Table]:
    """Yield the table and plots of clean accuracy and robustness; nothing if no plot has two models."""
    fallback, title = _clean_accuracies(sections)
    axis = Axis("clean accuracy")
    plots: list[Scatter] = []
    for section, figure in figures:
        accuracies = {
            model: fallback.get(model) if (own := section.layout.clean_accuracy(summary)) is None else own
            for model, summary in section.models.items()
        }
        points = [*_points(section, figure, accuracies), *_published_points(section, figure, published)]
        plots += _scatter(section, figure, axis, points)
    note = (
        "Clean accuracy is that on the clean versions of the images or, for natural images, on clean images of the "
        "same classes" + (f"; for other data sets, that on {title}. " if title else ". ") + NOT_DRAWN
    )
    lossy = {
        f"{model}: {encoder}"
        for section in sections
        for model, summary in section.models.items()
        if (encoder := section.layout.clean_images(summary)).endswith(LOSSY)
    }
    if lossy:
        note += f" Clean images that were compressed again: {'; '.join(sorted(lossy))}."
    yield from _scatter_table("clean accuracy and robustness", note, plots)


def _size_table(figures: Figures, models: Sequence[ReportModel]) -> Iterator[Table]:
    """Yield the table and plots of sizes and the metrics of data sets; nothing if no plot has two models."""
    plots: list[Scatter] = []
    for title, size in SIZES.items():
        values = {printable(model.name): size.value(model) for model in models}
        sizes = {model: float(value_of(value)) for model, value in values.items() if value}
        for section, figure in figures:
            axis = Axis(title, size.format, logarithmic=True)
            plots += _scatter(section, figure, axis, _points(section, figure, sizes))
    note = f"Sizes are on a logarithmic scale. Multiply-adds are for one image. {NOT_DRAWN}"
    yield from _scatter_table("model size", note, plots)


def _clean_accuracies(sections: Sequence[Section]) -> tuple[dict[str, float], str]:
    """Return clean accuracies by model and their section: the one with most models or, of several, most images."""
    clean = [section for section in sections if section.layout.key == CLEAN_KEY]
    if not clean:
        return {}, ""

    def size(section: Section) -> tuple[int, float]:
        count = section.layout.counts[0]
        return len(section.models), max(value_of(count.value(each) or 0) for each in section.models.values())

    best = max(clean, key=size)
    (error, *_) = best.layout.leads
    found = {model: error.value(summary) for model, summary in best.models.items()}
    return {model: 1 - value_of(value) for model, value in found.items() if value is not None}, best.title


def _points(section: Section, figure: Figure, positions: Mapping[str, float | None]) -> Iterator[Point]:
    """Yield the models of a section that can be compared and have a position on the horizontal axis."""
    for model in comparable_models(section, figure):
        x, y = positions.get(model), figure.value(section.models[model])
        if x is not None and y is not None and math.isfinite(value_of(y)):
            yield Point(model, x, value_of(y))


def _published_points(section: Section, figure: Figure, published: Iterable[PublishedFigure]) -> Iterator[Point]:
    """Yield the reference models whose figure and clean error are published."""
    whole = [each for each in published if not each.transform]
    errors = {(each.model, each.source): each.value for each in whole if each.figure in CLEAN_ERRORS}
    for each in whole:
        here = (each.family, printable(each.data_set), each.figure) == (section.layout.key, section.title, figure.name)
        if here and (each.model, each.source) in errors:
            yield Point(printable(each.model), 1 - errors[each.model, each.source], each.value, published=True)


def _scatter(section: Section, figure: Figure, axis: Axis, points: Iterable[Point]) -> Iterator[Scatter]:
    """Yield the plot of a metric if at least two models have a point."""
    points = list(points)
    if sum(not point.published for point in points) > 1:
        unit = f" ({figure.format.unit})" if figure.format.unit else ""
        yield Scatter(section.title, axis, Axis(f"{figure.name}{unit}", figure.format), points)


def _scatter_table(title: str, note: str, plots: Sequence[Scatter]) -> Iterator[Table]:
    """Yield the table of the points of plots: models as rows, both coordinates of each plot as columns."""
    if not plots:
        return
    columns: list[_Coordinates] = []
    for plot in plots:
        for axis, data_set, values in (
            (plot.x, "", {point.model: point.x for point in plot.points}),
            (plot.y, plot.title, {point.model: point.y for point in plot.points}),
        ):
            shared = next((each for each in columns if each.fits(axis, data_set, values)), None)
            if shared is None:
                columns.append(shared := _Coordinates(axis, data_set, {}, []))
            shared.values.update(values)
            shared.plots.append(plot.title)
    names = dict.fromkeys(point.model for plot in plots for point in plot.points)
    rows: list[Sequence[Cell]] = [
        [name, *(Number(column.values.get(name), column.axis.format) for column in columns)] for name in names
    ]
    heads = [Column("model", number=False), *(Column(each.axis.name, each.title(columns)) for each in columns)]
    yield Table(SECTION, title, note, heads, rows, Plot(PlotKind.SCATTERS, Scatters(plots)))


@dataclass(frozen=True)
class _Coordinates:
    """A column of the table of plots: coordinates by model that several plots may have in common.

    Attributes:
        axis: The axis.
        data_set: Title of the data set whose metric is on the axis; empty for other axes.
        values: Coordinates by model.
        plots: Titles of the plots.
    """

    axis: Axis
    data_set: str
    values: dict[str, float]
    plots: list[str]

    def fits(self, axis: Axis, data_set: str, values: Mapping[str, float]) -> bool:
        """Return whether an axis of a plot has these coordinates too."""
        same = all(math.isclose(self.values.get(model, value), value) for model, value in values.items())
        return (self.axis, self.data_set) == (axis, data_set) and same

    def title(self, columns: Iterable[_Coordinates]) -> str:
        """Return the data set, or those of the plots if other columns have the same name."""
        several = sum(each.axis == self.axis for each in columns) > 1
        return self.data_set or (", ".join(dict.fromkeys(self.plots)) if several else "")
