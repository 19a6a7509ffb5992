"""Numbers of a report, and their formats."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pipeline.evaluate.metrics.bootstrap import Estimate

NOTHING = "—"
"""Text of a missing value."""

PARTIAL, EXTRA = "*", "†"
"""Marks of a mean over part of the benchmark, and of a transform that is not in the benchmark."""

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
    """

    scale: float
    digits: int
    grouped: bool = False
    unit: str = ""

    def text(self, number: float) -> str:
        """Return the number as text."""
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
    """

    value: Value
    format: NumberFormat = PERCENT
    short: bool = False
    partial: bool = False
    total: int = 0
    rank: int = 0

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
        """The text after the number: interval, rank and mark."""
        rank, mark = f"#{self.rank}" if self.rank else "", PARTIAL if self.partial and self.exists else ""
        return " ".join(filter(None, (self.interval, rank, mark)))

    def __str__(self) -> str:
        return f"{self.figure} {self.details}".rstrip()


Cell = str | Number
"""A cell of a table."""


def value_of(value: Estimate | float) -> float:
    """Return the number without its interval."""
    return value.value if isinstance(value, Estimate) else value
