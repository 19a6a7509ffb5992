"""Numbers of a report, and their formats."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pipeline.evaluate.metrics.bootstrap import Estimate

NOTHING = "—"
"""Text of a missing value."""

PARTIAL, EXTRA, LOSSY_CLEAN = "*", "†", "‡"
"""Marks of a mean over part of the benchmark, of a transform that is not in the benchmark, and of a number that depends
on clean images that were compressed with loss."""

Value = Estimate | float | None
"""A value with a confidence interval, a value without one, or a missing value."""


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
        """Return the number as text."""
        if 0 <= number < self.least:
            return f"< {self.text(self.least)}"
        return f"{number * self.scale:{',' if self.grouped else ''}.{self.digits}f}"


PERCENT, COUNT = NumberFormat(100, 1), NumberFormat(1, 0, grouped=True)
PLAIN, FINE = NumberFormat(1, 2), NumberFormat(1, 3)


@dataclass(frozen=True)
class Number:
    """A table cell with a number.

    Attributes:
        value: The number.
        format: Its format.
        short: Whether the interval is shown as ± half its width instead of its ends, to save space.
        partial: Whether the number is a mean over part of the benchmark, which gets a mark.
        total: For counts: the number for the complete data set, which is shown if it is larger; 0 if unknown.
        rank: Rank of the number among those of all models; 0 for none.
        lossy: Whether the number depends on clean images that were compressed with loss, which gets a mark.
    """

    value: Value
    format: NumberFormat = PERCENT
    short: bool = False
    partial: bool = False
    total: int = 0
    rank: int = 0
    lossy: bool = False

    @property
    def exists(self) -> bool:
        """Whether the value is present and not NaN."""
        return self.value is not None and not math.isnan(value_of(self.value))

    @property
    def figure(self) -> str:
        """The number without its interval."""
        if self.value is None or not self.exists:
            return NOTHING
        text = self.format.text(value_of(self.value))
        return f"{text} of {self.format.text(self.total)}" if self.incomplete else text

    @property
    def incomplete(self) -> bool:
        """Whether the count is smaller than that of the complete data set."""
        return self.total > 0 and self.value is not None and value_of(self.value) < self.total

    @property
    def interval(self) -> str:
        """The interval, ``[22.9, 23.9]`` or ``±0.5``; empty if there is none."""
        if not isinstance(self.value, Estimate) or not self.exists:
            return ""
        low, high = self.value.low, self.value.high
        if self.short:
            return f"±{self.format.text((high - low) / 2)}"
        return f"[{self.format.text(low)}, {self.format.text(high)}]"

    @property
    def details(self) -> str:
        """The text after the number: interval, rank and marks."""
        marks = PARTIAL * (self.partial and self.exists) + LOSSY_CLEAN * (self.lossy and self.exists)
        return " ".join(filter(None, (self.interval, f"#{self.rank}" if self.rank else "", marks)))

    def __str__(self) -> str:
        return f"{self.figure} {self.details}".rstrip()


Cell = str | Number
"""A cell of a table."""


def value_of(value: Estimate | float) -> float:
    """Return the number without its interval."""
    return value.value if isinstance(value, Estimate) else value
