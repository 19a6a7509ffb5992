"""What a report shows, ready to be drawn: numbers, tables, plots, and the document that they are in."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

NOTHING = "—"  # text of a missing value
INTERVAL = "with the 95 % confidence interval over images in brackets"
WIDTH = "± is half the width of the 95 % confidence interval"
"""What notes say of the intervals of numbers, and of those of short ones."""

PARTIAL, EXTRA, LOSSY_CLEAN = "*", "†", "‡"
"""Marks of a mean over part of the benchmark, of a transform that is not in the benchmark, and of a number that depends
on clean images that were compressed with loss."""


@dataclass(frozen=True)
class NumberFormat:
    """A number format: the factor that a number is multiplied by, and the digits after the decimal point.

    ``unit`` is shown where no note names it; it is empty for percent. Numbers below ``least`` are shown as below it.
    """

    scale: float
    digits: int
    grouped: bool = False  # commas separate thousands
    unit: str = ""
    least: float = 0

    def text(self, number: float) -> str:
        """Return the number as text; without the sign of a zero."""
        if 0 <= number < self.least:
            return f"< {self.text(self.least)}"
        return f"{number * self.scale:z{',' if self.grouped else ''}.{self.digits}f}"


PERCENT, COUNT = NumberFormat(100, 1), NumberFormat(1, 0, grouped=True)
PLAIN, FINE = NumberFormat(1, 2), NumberFormat(1, 3)


@dataclass(frozen=True)
class Number:
    """A table cell with a number, its interval, and what marks it. NaN stands for what is missing."""

    value: float
    low: float = math.nan
    high: float = math.nan
    format: NumberFormat = PERCENT
    short: bool = False  # the interval is shown as ± half its width
    partial: bool = False  # a mean over part of the benchmark
    total: int = 0  # of counts: the number for the complete data set, shown if it is larger
    rank: str = ""  # among all models, such as 2-3
    lossy: bool = False  # depends on clean images that were compressed with loss
    best: bool = False  # better than every other model's by more than chance explains: bold in LaTeX

    @property
    def exists(self) -> bool:
        """Whether the value is not missing."""
        return not math.isnan(self.value)

    @property
    def figure(self) -> str:
        """The number without its interval."""
        if not self.exists:
            return NOTHING
        text = self.format.text(self.value)
        return f"{text} of {self.format.text(self.total)}" if self.incomplete else text

    @property
    def incomplete(self) -> bool:
        """Whether the count is smaller than that of the complete data set."""
        return self.exists and self.total > 0 and self.value < self.total

    @property
    def interval(self) -> str:
        """The interval, ``[22.9, 23.9]`` or ``±0.5``; empty if there is none."""
        if not self.exists or math.isnan(self.low):
            return ""
        if self.short and self.low < self.value < self.high:  # ends say more at 0 and 100 %
            return f"±{self.format.text((self.high - self.low) / 2)}"
        return f"[{self.format.text(self.low)}, {self.format.text(self.high)}]"

    @property
    def details(self) -> str:
        """The text after the number: interval, rank and marks."""
        marks = PARTIAL * (self.partial and self.exists) + LOSSY_CLEAN * (self.lossy and self.exists)
        return " ".join(filter(None, (self.interval, f"#{self.rank}" if self.rank else "", marks)))

    def __str__(self) -> str:
        return f"{self.figure} {self.details}".rstrip()


Cell = str | Number
"""A cell of a table."""


@dataclass(frozen=True)
class Column:
    """A column of a table. ``model`` is shown above the titles of all of its columns."""

    title: str
    model: str = ""
    number: bool = True  # aligned to the right


@dataclass(frozen=True)
class Axis:
    """The axis of a plot: the name of its metric, the format of values, and whether it is logarithmic.

    ``ticks``: positions that must be on the axis, with their texts; empty if they are chosen by the values.
    """

    name: str
    format: NumberFormat = PERCENT
    logarithmic: bool = False
    ticks: Mapping[float, str] | None = None


@dataclass(frozen=True)
class Point:
    """A value in a panel, in the scale of measures, not of display.

    ``name`` is that of the model; of a level in a reliability diagram; of the row in a heat map; the frequency down in
    a frequency map. ``x`` is a number, or the name of a bar or of the column of a heat map.
    """

    name: str
    x: float | str
    y: float  # NaN if missing
    low: float = math.nan
    high: float = math.nan
    size: float = 1.0  # area of its mark, as a fraction of the largest
    published: bool = False  # a value that a paper prints
    marked: bool = True  # has a mark on a line, and is in the alternative text


@dataclass(frozen=True)
class Panel:
    """One pair of axes of a plot. ``note``: text below a frequency map."""

    title: str
    points: Sequence[Point]
    x: Axis
    y: Axis
    note: str = ""

    @property
    def known(self) -> list[Point]:
        """The points whose value is finite."""
        return [each for each in self.points if math.isfinite(each.y)]

    @property
    def lines(self) -> dict[str, list[Point]]:
        """The known points by name; a name may have none."""
        lines: dict[str, list[Point]] = {each.name: [] for each in self.points}
        for each in self.known:
            lines[each.name].append(each)
        return lines


PlotKind = Literal["lines", "bars", "heat map", "frequency map", "reliability", "scatter"]


@dataclass(frozen=True)
class Plot:
    """The plot of a table: panels of one kind and size."""

    kind: PlotKind
    panels: Sequence[Panel]
    limit: float | None = None  # a line across the bars, such as 1 for the baseline
    limit_name: str = ""
    strong: Literal["low", "high"] = "low"  # values of a heat map with a strong colour: low accuracies, high scores


@dataclass(frozen=True)
class Table:
    """A table in the ``section`` of a data set, with an optional plot of its values.

    ``caption``: what the values were measured on, for tables that leave the report: number of images, seed.
    ``intervals``: whether its numbers say nothing without their intervals.
    ``values``: the values of a plot that are too many for the rows, as the lines of a CSV file.
    """

    section: str
    title: str
    note: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    plot: Plot | None = None
    caption: str = ""
    intervals: bool = False
    values: Sequence[Sequence[str | int | float]] = ()


@dataclass(frozen=True)
class Headline:
    """The most important metric of a model on a data set."""

    section: str
    metric: str
    number: Number
    baseline: str  # empty if the metric is not normalised
    part: str  # what it covers, such as 12 of 15 corruptions or 9 of 10 images; empty for the whole benchmark
    clean: str  # how the clean images are stored, if that costs detail and the metric depends on it


@dataclass(frozen=True)
class Chapter:
    """The part of a document on one data set, or on all models."""

    title: str
    tables: Sequence[Table]


@dataclass(frozen=True)
class Document:
    """A report as it is shown. Names of models, titles and notes are printable.

    The position of a model among ``models`` decides its colour and mark everywhere.
    """

    title: str
    warnings: Sequence[str]
    models: Sequence[str]
    notes: Mapping[str, str]  # of users on models, by name
    headlines: Mapping[str, Sequence[Headline]]  # by model
    data_sets: int  # their number
    chapters: Sequence[Chapter]
    glossary: Sequence[tuple[str, str]]  # terms and their definitions
    sources: Sequence[str]  # papers that define the metrics
    provenance: Sequence[tuple[str, str]] = ()  # how the values came about: name and text
    about: str = ""  # what is shown, below the title of the page; empty for models on data sets

    @property
    def tables(self) -> list[Table]:
        """All tables in order."""
        return [table for chapter in self.chapters for table in chapter.tables]
