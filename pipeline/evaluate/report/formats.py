"""Numbers as text."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pipeline.evaluate.report.estimates import Estimate

NOTHING = "—"
"""Stands where a figure does not exist."""


PARTIAL, EXTRA = " *", " †"
"""Marks of a mean over a part of the benchmark, and of a transform that is not in the benchmark."""


@dataclass(frozen=True)
class Unit:
    """How a figure is shown: multiplied by ``scale``, with so many ``digits`` after the point."""

    scale: float
    digits: int

    def words(self, value: float) -> str:
        """The figure."""
        return f"{value * self.scale:.{self.digits}f}"


PERCENT, PLAIN = Unit(100, 1), Unit(1, 2)


def shown(figure: Estimate | float | None, unit: Unit = PERCENT) -> str:
    """``23.4 [22.9, 23.9]``, or ``23.4`` of a figure without an interval."""
    if figure is None or math.isnan(value_of(figure)):
        return NOTHING
    interval = f" [{unit.words(figure.low)}, {unit.words(figure.high)}]" if isinstance(figure, Estimate) else ""
    return f"{unit.words(value_of(figure))}{interval}"


def shown_short(figure: Estimate | float | None, unit: Unit = PERCENT) -> str:
    """``23.4 ±0.5``, half the width of the interval, for tables of many columns."""
    if not isinstance(figure, Estimate) or math.isnan(figure.value):
        return shown(figure, unit)
    return f"{unit.words(figure.value)} ±{unit.words((figure.high - figure.low) / 2)}"


def value_of(figure: Estimate | float) -> float:
    """The figure itself, without its interval."""
    return figure.value if isinstance(figure, Estimate) else figure
