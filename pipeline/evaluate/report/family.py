"""The definition of a report on one family of transforms: summaries, metrics, tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from pipeline.evaluate.metrics.bootstrap import Estimate
from pipeline.evaluate.report.calibration import CalibrationTable
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.formats import COUNT, PERCENT, Cell, NumberFormat, Value
from pipeline.evaluate.report.plots import Plot
from pipeline.evaluate.report.scores import Evaluation


class FamilySummary(Protocol):
    """The fields that the summaries of all families have."""

    @property
    def model(self) -> str:
        """The name of the model."""

    @property
    def data_set(self) -> str:
        """The name of the data set in this report."""

    @property
    def manifest_sha256(self) -> str:
        """The digest of the data set's manifest; empty if unknown."""

    @property
    def source_ids_sha256(self) -> str:
        """The digest of the sorted source ids of its images; empty if unknown."""


class SummaryRow(Protocol):
    """The fields that all rows of summaries have; a row holds the metrics of one transform."""

    @property
    def name(self) -> str:
        """The name of the transform."""

    @property
    def group(self) -> str:
        """The group of the transform in plots; empty if it has none."""

    @property
    def benchmark(self) -> bool:
        """Whether the benchmark's means include the transform."""


S = TypeVar("S", bound=FamilySummary)
Models = Mapping[str, S]
"""Summary of each model, by the model's name in the section."""


@dataclass(frozen=True)
class Benchmark:
    """The transforms that a benchmark's means are taken over.

    Attributes:
        total: Number of transforms.
        what: Noun for one of them, such as "corruption".
        complete: Returns whether a summary has all of them at all levels.
    """

    total: int
    what: str
    complete: Callable[[Any], bool]


@dataclass(frozen=True)
class Figure:
    """A metric of a report.

    Attributes:
        name: Name in every output.
        value: Returns the value from a summary, or from a row of a summary.
        format: Number format.
        normalised: Whether the value is divided by the baseline's.
        over: For means over rows: returns the averaged value of a row.
        higher_is_better: Whether larger values are better. None if unknown: models are not ranked by the metric.
        benchmark: For means over part of the benchmark: this part. Default: that of the layout.
        total: For counts: returns the number for the complete data set; 0 if unknown.
        covers: For metrics that are not means over rows: returns the part of the benchmark that they cover, such as
            ``2 of 3 attacks``; empty for all of it.
        of_clean: Whether the value depends on the clean images that a summary is compared with, or is on.
    """

    name: str
    value: Callable[[Any], Value]
    format: NumberFormat = PERCENT
    normalised: bool = False
    over: Callable[[Any], Value] | None = None
    higher_is_better: bool | None = None
    benchmark: Benchmark | None = None
    total: Callable[[Any], int] = lambda summary: 0
    covers: Callable[[Any], str] = lambda summary: ""
    of_clean: bool = False


@dataclass(frozen=True)
class LevelFigure:
    """A metric with one value per level.

    Attributes:
        name: Name in every output.
        values: Returns the values by level from a summary, or from a row of a summary.
        over: For means over rows: returns the averaged value of a row.
        of_clean: Whether the values depend on the clean images that a summary is compared with.
    """

    name: str
    values: Callable[[Any], Mapping[int, Estimate]]
    over: Callable[[Any], Value] | None = None
    of_clean: bool = False


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        title: Title.
        model: Model that is shown above the titles of its columns; empty for none.
        number: Whether the column contains numbers, which are aligned to the right.
    """

    title: str
    model: str = ""
    number: bool = True


@dataclass(frozen=True)
class Table:
    """A table in the ``section`` of a data set, with an optional plot of its values."""

    section: str
    title: str
    note: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    plot: Plot | None = None


@dataclass(frozen=True, kw_only=True)
class ReportLayout(Generic[S]):
    """The presentation of a family's summaries.

    Attributes:
        key: Key in ``report.json`` and value of the column ``family`` in ``report.csv``: lower case letters, digits and
            underscores.
        figures: Metrics of a summary, in order.
        leads: Candidates for the headline; the first that has a value is used.
        note: Explanation of the table of key figures.
        normalised_note: Text that follows ``note`` if there is a baseline.
        counts: Counts of a summary, such as the number of images.
        benchmark: Transforms that means are taken over; None if means are over all rows.
        tables: Returns further tables, given the title and the models of a section.
        title: Returns the title of the section that shows a summary.
        rows: Returns the rows of a summary, one per transform.
        row_figures: Metrics of a row.
        level_figures: Metrics of a summary at each level.
        row_level_figures: Metrics of a row at each level.
        level: Returns the only level of a summary; None if it has several.
        baseline: Returns the name of the baseline; None if nothing is normalised.
        clean_accuracy: Returns the accuracy on the clean images that a summary is compared with; None if unknown.
        clean_images: Returns how the clean images of a summary are stored, such as ``png compression=3 (lossless)``;
            empty if there are none.
        calibration: Calibration of a summary, and the words of its table; None for no table.
        glossary: Terms and their definitions, for the page.
        sources: Papers that define the metrics, for the page.
    """

    key: str
    figures: Sequence[Figure]
    leads: Sequence[Figure]
    note: str
    normalised_note: str = ""
    counts: Sequence[Figure] = (
        Figure("images", lambda summary: summary.images, COUNT),
        Figure("failed", lambda summary: summary.failed, COUNT),
    )
    benchmark: Benchmark | None = None
    tables: Callable[[ReportLayout[S], str, Models[S]], Iterable[Table]] = lambda layout, section, models: ()
    title: Callable[[S], str] = lambda summary: summary.data_set
    rows: Callable[[S], Sequence[SummaryRow]] = lambda summary: ()
    row_figures: Sequence[Figure] = ()
    level_figures: Sequence[LevelFigure] = ()
    row_level_figures: Sequence[LevelFigure] = ()
    level: Callable[[S], int | None] = lambda summary: None
    baseline: Callable[[S], str | None] = lambda summary: None
    clean_accuracy: Callable[[S], float | None] = lambda summary: None
    clean_images: Callable[[S], str] = lambda summary: ""
    calibration: CalibrationTable | None = None
    glossary: Sequence[tuple[str, str]] = ()
    sources: Sequence[str] = ()


@dataclass(frozen=True)
class ReportFamily(Generic[S]):
    """The report on one family of transforms.

    Attributes:
        name: Name of the family.
        summarise: Returns the summaries of an evaluation, one per section of the report.
        layout: Presentation of the summaries.
        needs_labels: Whether there are no figures of unlabelled images, which ``evaluate`` then refuses.
    """

    name: str
    summarise: Callable[[Evaluation, ReportContext], Sequence[S]]
    layout: ReportLayout[S]
    needs_labels: bool = True
