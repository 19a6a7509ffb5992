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
    """A metric of a family: its name in every output, and what is known of its values."""

    name: str
    better: Literal[-1, 0, 1] = 0  # 1 if larger values are better, -1 if smaller ones; 0: models are not ranked by it
    unit: str = "fraction"  # of images; ratio to the baseline; difference of fractions; others
    format: NumberFormat = PERCENT
    of_clean: bool = False  # depends on the clean images that a data set is compared with, or is on
    key: bool = True  # its value for the whole data set is a key figure

    @property
    def normalised(self) -> bool:
        """Whether the value is divided by the baseline's."""
        return self.unit == "ratio"


@dataclass(frozen=True)
class Measure:
    """A value of a metric with its confidence interval, whose ends are NaN without one."""

    metric: str
    value: float
    low: float = math.nan
    high: float = math.nan
    transform: str = ""  # empty for the whole data set
    level: int | None = None  # None for all levels
    covers: str = ""  # part of the benchmark that a mean is over, such as 12 of 15 corruptions; empty for all of it
    images: int = 0  # that it is computed on; 0 for those of the results
    draws: Floats | None = field(default=None, compare=False, repr=False)  # (draws,) of all models


@dataclass(frozen=True)
class TransformNames:
    """How a transform is shown."""

    group: str = ""  # title of the plot that it is in
    benchmark: bool = True  # means over the benchmark include it
    labels: tuple[str, ...] = ()  # cells of its row; empty for its name
    levels: Mapping[int, str] = field(default_factory=dict)  # its name at a level, where that is more than the level


@dataclass(frozen=True)
class Results:
    """The measures of one model on one data set. Texts are empty where they are unknown or do not apply."""

    report: FamilyReport
    section: str  # title, which models of one data set share
    data_set: str  # name of the data set in this report
    model: str
    measures: Sequence[Measure]
    counts: Mapping[str, tuple[int, int]]  # such as the number of images, and that of the complete data set, or 0
    transforms: Mapping[str, TransformNames] = field(default_factory=dict)
    level: int | None = None  # the only level of all measures; None if there are several, or none
    baseline: str = ""
    clean_images: str = ""  # how the clean images are stored that measures depend on
    clean_accuracy: float = math.nan  # on these images
    seed: int | None = None
    manifest_sha256: str = ""
    pixel_root: str = ""
    source_ids_sha256: str = ""  # of the sorted source ids
    order_sha256: str = ""  # of the source ids in their order: images in bootstrap draws are equal if it is
    published: str = ""  # name of the data set in the table of published figures
    natural: Mapping[str, Measure] = field(default_factory=dict)  # figures of natural robustness, by name
    details: Facts = field(default_factory=dict)  # further facts for report.json

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
    """A table of measures, with an optional plot of the same."""

    title: str  # {group} stands for a group of transforms: there is one table for each
    metrics: Sequence[str]
    note: str
    rows: Literal["transform", "transform, model", "level", "condition, model"] = "transform"
    columns: Literal["model", "level", "metric"] = "model"
    head: Sequence[str] = ()  # titles of the columns before the numbers, without that of models; default: the noun
    plot: str | Callable[[Section], Plot | None] = ""  # a kind, or a function that draws; small lines: by transform
    axis: str = ""  # name of the axis of levels; default: the noun for them
    level: str = ""  # text before levels in titles of columns
    ticks: Sequence[int] = ()  # levels that are on the axis of a plot even if nothing is known there
    unless: str = ""  # the table is left out if every model has this metric


@dataclass(frozen=True, kw_only=True)
class FamilyReport:
    """The report on one family: what fills the table, and what is shown of it."""

    family: str
    key: str  # value of the column family: lower case letters, digits and underscores
    metrics: Sequence[Metric]  # those of the whole data set are the key figures
    measure: Callable[[Evaluation, Any], Iterable[Results]] = lambda *_: ()  # Any: a Context, which imports this module
    leads: Sequence[str] = ()  # candidates for the headline; the first that has a value is used
    note: str = ""  # explanation of the key figures
    normalised_note: str = ""  # follows if there is a baseline
    tables: Sequence[Pivot] = ()
    more: Callable[[Section], Iterable[Table]] = lambda section: ()  # further tables
    joint: Callable[[Sequence[Results]], Iterable[Table]] = lambda found: ()  # compare all results of the family
    transform: str = "transform"  # noun for transforms in tables, such as corruption
    level: str = "level"  # noun for levels, such as severity
    calibrated: bool = False  # there is a calibration table
    glossary: Mapping[str, str] = field(default_factory=dict)  # definitions by term
    sources: Sequence[str] = ()  # papers that define the metrics
    needs_labels: bool = True  # unlabelled images have no figures, so evaluate refuses them
    reassessed: bool = False  # there are accuracies by the reassessed labels (ReaL) of validation images
    is_clean: bool = False  # the images are clean ones, whose accuracy stands beside results on other images

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
