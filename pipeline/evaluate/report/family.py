"""The record of a report on one family of transforms, and the parts that such a report consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from pipeline.evaluate.metrics.bootstrap import Estimate
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.formats import COUNT, PERCENT, Cell, NumberFormat, Value
from pipeline.evaluate.report.plots import Plot
from pipeline.evaluate.report.scores import Evaluation


class FamilySummary(Protocol):
    """What every summary of an evaluation says; the rest is its family's."""

    @property
    def model(self) -> str:
        """The model's name."""

    @property
    def data_set(self) -> str:
        """The data set's name in this report."""

    @property
    def manifest_sha256(self) -> str:
        """Digest of the data set's manifest; empty where it is unknown."""

    @property
    def source_ids_sha256(self) -> str:
        """Digest of the sorted source ids of its images; empty where it is unknown."""


class SummaryRow(Protocol):
    """What every row of a summary says of its transform."""

    @property
    def name(self) -> str:
        """The transform."""

    @property
    def group(self) -> str:
        """Its group in plots; empty where it has none."""

    @property
    def benchmark(self) -> bool:
        """Whether the means of the benchmark are taken over it."""


S = TypeVar("S", bound=FamilySummary)
Models = Mapping[str, S]
"""Model, as it is called in a section -> its summary."""


@dataclass(frozen=True)
class Figure:
    """One figure.

    Attributes:
        name: Its name in every output.
        value: Takes it from a summary, or from a row of one.
        format: How it is shown.
        normalised: Whether it is divided by the baseline's.
        over: Of a mean over the rows, what it is the mean of, taken from a row.
    """

    name: str
    value: Callable[[Any], Value]
    format: NumberFormat = PERCENT
    normalised: bool = False
    over: Callable[[Any], Value] | None = None


@dataclass(frozen=True)
class LevelFigure:
    """A figure at each level: its name, and what takes it from a summary or a row. ``over`` as in ``Figure``."""

    name: str
    values: Callable[[Any], Mapping[int, Estimate]]
    over: Callable[[Any], Value] | None = None


@dataclass(frozen=True)
class Column:
    """A column of a table: ``model`` is shown above the titles of its columns, ``number`` aligns cells to the right."""

    title: str
    model: str = ""
    number: bool = True


@dataclass(frozen=True)
class Table:
    """A table of the ``section`` of a data set, and the plot of its figures."""

    section: str
    title: str
    note: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    plot: Plot | None = None


@dataclass(frozen=True)
class Benchmark:
    """The transforms that a benchmark's means are taken over.

    Attributes:
        total: Number of them.
        what: What they are called, plural.
        complete: Returns whether a summary has all of them, at all their levels.
    """

    total: int
    what: str
    complete: Callable[[Any], bool]


@dataclass(frozen=True, kw_only=True)
class ReportLayout(Generic[S]):
    """How the summaries of a family are shown.

    Attributes:
        key: Key in ``report.json`` and family in ``report.csv``. Lower case letters, digits and underscores.
        figures: Figures of a summary, in order.
        leads: The first of these that exists is the headline.
        note: How to read the key figures.
        normalised_note: Added to ``note`` where there is a baseline.
        counts: Numbers of images and the like.
        benchmark: What means are taken over; None where they are taken over all rows.
        tables: Makes further tables for a section's title and its models.
        title: Returns the title of the section that a summary belongs to.
        rows: Returns a summary's rows, one per transform.
        row_figures: Figures of a row.
        level_figures: Figures of a summary at each level.
        row_level_figures: Figures of a row at each level.
        level: Returns the level that a whole summary is of; None where it is of several.
        baseline: Returns the name of what figures are divided by.
        glossary: Terms and their meanings, for the page.
        sources: Papers that define the figures, for the page.
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
    glossary: Sequence[tuple[str, str]] = ()
    sources: Sequence[str] = ()


@dataclass(frozen=True)
class ReportFamily(Generic[S]):
    """The report on one family of transforms.

    Attributes:
        name: Name of the family.
        summarise: Returns the summaries of an evaluation, one for each section that it is shown in.
        layout: How they are shown.
    """

    name: str
    summarise: Callable[[Evaluation, ReportContext], Sequence[S]]
    layout: ReportLayout[S]
