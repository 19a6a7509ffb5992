"""The tidy table of a report: metrics, their values with confidence intervals, and what each family shows of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from pipeline.evaluate.metrics.arrays import Floats
from pipeline.evaluate.report.views import COUNT, PERCENT, NumberFormat, Plot, Table

if TYPE_CHECKING:
    from pipeline.evaluate.report.load import Evaluation

Facts = dict[str, Any]
"""Values by name that can be written as JSON."""


@dataclass(frozen=True)
class Metric:
    """A metric of a family.

    Attributes:
        name: Name in every output.
        better: 1 if larger values are better, -1 if smaller ones are; 0 if unknown: models are not ranked by it.
        unit: Unit of values: ``fraction`` of images; ``ratio`` to the baseline; ``difference`` of fractions; others.
        format: Number format.
        of_clean: Whether it depends on the clean images that a data set is compared with, or is on.
        key: Whether its value for the whole data set is a key figure.
    """

    name: str
    better: Literal[-1, 0, 1] = 0
    unit: str = "fraction"
    format: NumberFormat = PERCENT
    of_clean: bool = False
    key: bool = True

    @property
    def normalised(self) -> bool:
        """Whether the value is divided by the baseline's."""
        return self.unit == "ratio"


@dataclass(frozen=True)
class Measure:
    """A value of a metric.

    Attributes:
        metric: Name of the metric.
        value: Value.
        low: Lower end of its confidence interval; NaN without one.
        high: Upper end.
        transform: Transform that it is of; empty for the whole data set.
        level: Level that it is of; None for all levels.
        covers: Part of the benchmark that a mean is over, such as ``12 of 15 corruptions``; empty for all of it.
        images: Number of images that it is computed on; 0 for those of the results.
        draws: Values in the bootstrap draws, (draws,), which all models share; None if they were not kept.
    """

    metric: str
    value: float
    low: float = math.nan
    high: float = math.nan
    transform: str = ""
    level: int | None = None
    covers: str = ""
    images: int = 0
    draws: Floats | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class TransformNames:
    """How a transform is shown.

    Attributes:
        group: Title of the plot that it is in.
        benchmark: Whether means over the benchmark include it.
        labels: Cells of its row; empty for its name.
        levels: Name of the transform at a level, where it is more than the level.
    """

    group: str = ""
    benchmark: bool = True
    labels: tuple[str, ...] = ()
    levels: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Results:
    """The measures of one model on one data set.

    Attributes:
        report: What the family shows.
        section: Title of the section, which models of one data set share.
        data_set: Name of the data set in this report.
        model: Name of the model.
        measures: Measures, in order.
        counts: Counts such as the number of images, and the number for the complete data set, or 0 if unknown.
        transforms: How each transform is shown, in order.
        level: The only level of all measures; None if there are several, or none.
        baseline: Name of the baseline; empty if nothing is normalised.
        clean_images: How the clean images are stored that measures depend on; empty if there are none.
        clean_accuracy: Accuracy on these images; NaN if unknown.
        seed: Seed of the data set; None if unknown.
        manifest_sha256: Digest of the data set's manifest; empty if unknown.
        pixel_root: Root of all images of the data set; empty if unknown.
        source_ids_sha256: Digest of the sorted source ids of the images; empty if unknown.
        order_sha256: Digest of the source ids in their order: images in bootstrap draws are equal if it is.
        published: Name of the data set in the table of published figures; empty if they cannot be compared.
        natural: The figures of natural robustness that these results have, by name.
        details: Further facts for ``report.json``, as JSON values.
    """

    report: FamilyReport
    section: str
    data_set: str
    model: str
    measures: Sequence[Measure]
    counts: Mapping[str, tuple[int, int]]
    transforms: Mapping[str, TransformNames] = field(default_factory=dict)
    level: int | None = None
    baseline: str = ""
    clean_images: str = ""
    clean_accuracy: float = math.nan
    seed: int | None = None
    manifest_sha256: str = ""
    pixel_root: str = ""
    source_ids_sha256: str = ""
    order_sha256: str = ""
    published: str = ""
    natural: Mapping[str, Measure] = field(default_factory=dict)
    details: Facts = field(default_factory=dict)

    def titled(self, section: str) -> Results:
        """Return the results in a section of another title."""
        return replace(self, section=section)

    @property
    def images(self) -> int:
        """The number of images or sequences; 0 if they are of several data sets."""
        return next((number for number, _ in self.counts.values()), 0)

    def condition(self, transform: str, level: int | None) -> str:
        """Return the name of a transform at a level."""
        levels = self.transforms[transform].levels
        return levels.get(level or next(iter(levels), 0), transform)

    def whole(self, metric: str) -> Measure | None:
        """Return the measure of the whole data set; None if there is none."""
        return next((each for each in self.measures if each.metric == metric and is_whole(each)), None)


def is_whole(measure: Measure) -> bool:
    """Return whether a measure is of the whole data set."""
    return not measure.transform and measure.level is None


Key = tuple[str, str, int | None, str]
"""Model, transform, level and metric of a measure."""

Found = Mapping[Key, Measure]
"""Measures by key."""


@dataclass(frozen=True)
class Section:
    """A data set, and the results of each model on it, by printable name."""

    title: str
    report: FamilyReport
    models: Mapping[str, Results]

    @cached_property
    def found(self) -> Found:
        """All measures of the models."""
        return {
            (model, each.transform, each.level, each.metric): each
            for model, results in self.models.items()
            for each in results.measures
        }


@dataclass(frozen=True)
class Pivot:
    """A table of measures, with an optional plot of the same.

    Attributes:
        title: Title of the table. ``{group}`` stands for a group of transforms: there is one table for each.
        metrics: Names of the metrics.
        note: Explanation below the title.
        rows: What a row is: a transform, a level, a transform at a level, for all models or for one.
        columns: What a column is.
        head: Titles of the columns before the numbers, without that of models. Default: the noun of the report.
        plot: Kind of plot, or a function that draws it; empty for none. ``small lines``: one panel per transform.
        axis: Name of the axis of levels. Default: the noun for them.
        level: Text before levels in titles of columns.
        ticks: Levels that are on the axis of a plot even if nothing is known there.
        unless: Name of a metric: the table is left out if every model has it.
    """

    title: str
    metrics: Sequence[str]
    note: str
    rows: Literal["transform", "transform, model", "level", "condition, model"] = "transform"
    columns: Literal["model", "level", "metric"] = "model"
    head: Sequence[str] = ()
    plot: str | Callable[[Section], Plot | None] = ""
    axis: str = ""
    level: str = ""
    ticks: Sequence[int] = ()
    unless: str = ""


@dataclass(frozen=True, kw_only=True)
class FamilyReport:
    """The report on one family: what fills the table, and what is shown of it.

    Attributes:
        family: Name of the family.
        key: Value of the column ``family``: lower case letters, digits and underscores.
        measure: Returns the results of an evaluation, one per section. Default: it has none.
        metrics: All metrics, in order. Those of the whole data set are the key figures.
        leads: Names of candidates for the headline; the first that has a value is used.
        note: Explanation of the key figures.
        normalised_note: Text that follows ``note`` if there is a baseline.
        tables: Tables of measures.
        more: Returns further tables.
        joint: Returns tables that compare all results of the family, in sections of their own.
        transform: Noun for transforms in tables, such as "corruption".
        level: Noun for levels, such as "severity".
        calibrated: Whether there is a calibration table.
        glossary: Definitions by term.
        sources: Papers that define the metrics.
        needs_labels: Whether there are no figures of unlabelled images, which ``evaluate`` then refuses.
        reassessed: Whether there are accuracies by the reassessed labels (ReaL) of validation images.
        is_clean: Whether the images are clean ones, whose accuracy stands beside results on other images.
    """

    family: str
    key: str
    metrics: Sequence[Metric]
    measure: Callable[[Evaluation, Any], Iterable[Results]] = lambda *_: ()  # Any: a Context, which imports this module
    leads: Sequence[str] = ()
    note: str = ""
    normalised_note: str = ""
    tables: Sequence[Pivot] = ()
    more: Callable[[Section], Iterable[Table]] = lambda section: ()
    joint: Callable[[Sequence[Results]], Iterable[Table]] = lambda found: ()
    transform: str = "transform"
    level: str = "level"
    calibrated: bool = False
    glossary: Mapping[str, str] = field(default_factory=dict)
    sources: Sequence[str] = ()
    needs_labels: bool = True
    reassessed: bool = False
    is_clean: bool = False

    def metric(self, name: str) -> Metric:
        """Return the metric of a name; a count if the family has none of it."""
        return next((each for each in self.metrics if each.name == name), Metric(name, 0, "count", COUNT))


def complement(measure: Measure, metric: str) -> Measure:
    """Return 1 - measure as another metric, such as the accuracy for an error."""
    draws = None if measure.draws is None else 1 - measure.draws
    low, high = 1 - measure.high, 1 - measure.low
    return replace(measure, metric=metric, value=1 - measure.value, low=low, high=high, draws=draws)


COLUMNS: Mapping[str, type] = {
    **dict.fromkeys(("model", "data_set", "family", "transform"), str), "level": int, "metric": str,
    **dict.fromkeys(("value", "low", "high"), float), **dict.fromkeys(("unit", "covers"), str), "images": int,
    **dict.fromkeys(("baseline", "clean_images", "pixel_root"), str),
}  # fmt: skip
"""Type of each column of the tidy table. ``transform`` is empty for the whole data set, ``level`` is missing for all
levels. ``covers`` is the part of the benchmark that a mean is over, empty for all of it. ``baseline`` and
``clean_images`` are empty for values that do not depend on them, and ``pixel_root`` where it is unknown."""


def row(**values: str | float | None) -> Facts:
    """Return a row of the tidy table; texts that are not given are empty, numbers missing, and ``images`` 0."""
    return {name: "" if of is str else None for name, of in COLUMNS.items()} | {"images": 0} | values


def table_of(results: Iterable[Results]) -> Iterator[Facts]:
    """Yield the rows of the tidy table, with all measures and counts in order."""
    for each in results:
        counts = [Measure(name, number) for name, (number, _) in each.counts.items()]
        for measure in (*each.measures, *counts):
            metric = each.report.metric(measure.metric)
            yield row(
                model=each.model,
                data_set=each.data_set,
                family=each.report.key,
                transform=measure.transform,
                level=each.level if measure.level is None else measure.level,
                metric=measure.metric,
                value=measure.value,
                **({} if math.isnan(measure.low) else {"low": measure.low, "high": measure.high}),
                unit=metric.unit,
                covers=measure.covers,
                images=measure.images or each.images,
                baseline=each.baseline if metric.normalised else "",
                clean_images=each.clean_images if metric.of_clean else "",
                pixel_root=each.pixel_root,
            )
