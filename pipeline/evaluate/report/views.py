"""What a report shows, ready to be drawn: numbers, tables, plots, and the document that they are in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

NOTHING = "—"
"""Text of a missing value."""

INTERVAL = "with the 95 % confidence interval over images in brackets"
WIDTH = "± is half the width of the 95 % confidence interval"
"""What notes say of the intervals of numbers, and of those of short ones."""

PARTIAL, EXTRA, LOSSY_CLEAN = "*", "†", "‡"
"""Marks of a mean over part of the benchmark, of a transform that is not in the benchmark, and of a number that depends
on clean images that were compressed with loss."""


@dataclass(frozen=True)
class NumberFormat:
    """A number format.

    Attributes:
        scale: Factor that the number is multiplied by.
        digits: Number of digits after the decimal point.
        grouped: Whether commas separate thousands.
        unit: Unit, which is shown where no note names it; empty for percent and for numbers without a unit.
        least: Smallest number that is shown as such; smaller ones are shown as below it.
    """

    scale: float
    digits: int
    grouped: bool = False
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
    """A table cell with a number.

    Attributes:
        value: The number; NaN if it is missing.
        low: Lower end of its confidence interval; NaN without one.
        high: Upper end.
        format: Its format.
        short: Whether the interval is shown as ± half its width instead of its ends, to save space.
        partial: Whether the number is a mean over part of the benchmark, which gets a mark.
        total: For counts: the number for the complete data set, which is shown if it is larger; 0 if unknown.
        rank: Rank of the number among those of all models, such as ``2-3``; empty for none.
        lossy: Whether the number depends on clean images that were compressed with loss, which gets a mark.
        best: Whether it is better than every other model's by more than chance explains; bold in LaTeX.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    format: NumberFormat = PERCENT
    short: bool = False
    partial: bool = False
    total: int = 0
    rank: str = ""
    lossy: bool = False
    best: bool = False

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

    Attributes:
        name: Name of the model; of a level in a reliability diagram; of the row in a heat map; the frequency down in a
            frequency map.
        x: Position: a number, or the name of a bar or of the column of a heat map.
        y: Value; NaN if missing.
        low: Lower end of its confidence interval; NaN without one.
        high: Upper end.
        size: Area of its mark, as a fraction of the largest.
        published: Whether the value is one that a paper prints.
        marked: Whether a point of a line has a mark and is in the alternative text.
    """

    name: str
    x: float | str
    y: float
    low: float = math.nan
    high: float = math.nan
    size: float = 1.0
    published: bool = False
    marked: bool = True


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
    """The plot of a table.

    Attributes:
        kind: Kind of the plot.
        panels: Its panels, of one size.
        limit: Value of a line across the bars, such as 1 for that of the baseline; None for no line.
        limit_name: What the line is.
        strong: Which values of a heat map have a strong colour: the low ones of accuracies, the high ones of scores.
    """

    kind: PlotKind
    panels: Sequence[Panel]
    limit: float | None = None
    limit_name: str = ""
    strong: Literal["low", "high"] = "low"


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
    """The most important metric of a model on a data set.

    Attributes:
        section: Title of the section.
        metric: Name of the metric.
        number: Value.
        baseline: Name of the baseline; empty if the metric is not normalised.
        part: What the metric covers, such as ``12 of 15 corruptions`` or ``9 of 10 images``; empty if it covers the
            whole benchmark.
        clean: How the clean images are stored, if that costs detail and the metric depends on it; empty otherwise.
    """

    section: str
    metric: str
    number: Number
    baseline: str
    part: str
    clean: str


@dataclass(frozen=True)
class Chapter:
    """The part of a document on one data set, or on all models."""

    title: str
    tables: Sequence[Table]


@dataclass(frozen=True)
class Document:
    """A report as it is shown. Names of models, titles and notes are printable.

    Attributes:
        title: Title.
        warnings: Warnings for the reader.
        models: Names of the models; the position of a model decides its colour and mark everywhere.
        notes: Notes of users on models, by name.
        headlines: Headlines by model.
        data_sets: Number of data sets.
        chapters: Chapters in order.
        glossary: Terms and their definitions.
        sources: Papers that define the metrics.
        provenance: Facts on how the values came about, as pairs of a name and a text.
        about: What is shown, below the title of the page; empty for models on data sets.
    """

    title: str
    warnings: Sequence[str]
    models: Sequence[str]
    notes: Mapping[str, str]
    headlines: Mapping[str, Sequence[Headline]]
    data_sets: int
    chapters: Sequence[Chapter]
    glossary: Sequence[tuple[str, str]]
    sources: Sequence[str]
    provenance: Sequence[tuple[str, str]] = ()
    about: str = ""

    @property
    def tables(self) -> list[Table]:
        """All tables in order."""
        return [table for chapter in self.chapters for table in chapter.tables]
