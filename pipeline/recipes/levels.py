"""Levels as text: ranges in options, and short lists in messages and reports."""

import math
import re
from collections.abc import Iterator, Sequence

from pipeline.errors import UserError
from pipeline.text import shown
from pipeline.transforms.family import HUNDREDTHS

MAX_RANGE = 10_000
"""Maximum number of levels of a range, so that a mistyped one does not fill the memory."""

_RANGE = re.compile(r"(\d{1,9})\s*-\s*(\d{1,9})")

_REAL = re.compile(r"\d{1,3}\.\d{1,9}")

_MOST_RUNS = 24
"""Maximum number of runs and single levels that are shown."""

_LEAST_RUN = 6
"""Minimum number of levels at equal distances that are shown as a run."""


def whole_level(level: object) -> object:
    """Return a real level as an integer: whole ones as they are, others in hundredths. Other values stay as they are.

    Raises:
        ValueError: It is not a multiple of 0.01 from 0.1 on.
    """
    if not isinstance(level, float) or level.is_integer():
        return int(level) if isinstance(level, float) else level
    if not level >= 0.1 or not math.isclose(level * HUNDREDTHS, found := round(level * HUNDREDTHS)):
        raise ValueError(f"real levels are multiples of 0.01 from 0.1 on, not {level!r}")
    return found


def parse_levels(text: str) -> list[float]:
    """Return the levels of a text such as ``1-64,159`` or ``0.25,1.75``.

    Args:
        text: Comma-separated numbers, and ranges of integers, which contain both of their ends.

    Raises:
        UserError: A part is neither a number nor an increasing range, or a range is too long.
    """
    return [level for word in text.split(",") for level in _parsed(word.strip(), text)]


def _parsed(word: str, text: str) -> Sequence[float]:
    if found := _RANGE.fullmatch(word):
        first, last = map(int, found.groups())
        if not first <= last < first + MAX_RANGE:
            raise UserError(f"invalid range {word!r} of levels: use increasing ends, for example 1-64")
        return range(first, last + 1)
    try:
        return [float(word) if _REAL.fullmatch(word) else int(word)]
    except ValueError:
        raise UserError(
            f"invalid levels {shown(text)}: use comma-separated integers or ranges, for example 1,3,5 or 1-64,159, or "
            "severities such as 0.25"
        ) from None


def shown_levels(levels: Sequence[int]) -> str:
    """Return increasing levels as text, long runs shortened: ``1-64, 68, 72 ... 112, 159``.

    Very many levels without order are shown by their ends and their number.
    """
    runs = list(_runs(levels))
    if len(runs) <= _MOST_RUNS:
        return ", ".join(runs)
    return f"{', '.join(runs[:2])} ... {runs[-1]} ({len(levels):,} levels)"


def some_levels(levels: Sequence[int], most: int) -> list[int]:
    """Return levels at about equal distances, among them the first and the last; all if there are at most ``most``."""
    if len(levels) <= most:
        return list(levels)
    return [levels[round(index * (len(levels) - 1) / (most - 1))] for index in range(most)]


def _runs(levels: Sequence[int]) -> Iterator[str]:
    start = 0
    while start < len(levels):
        end = start + 1
        while end < len(levels) and levels[end] - levels[end - 1] == levels[start + 1] - levels[start]:
            end += 1
        first, last = levels[start], levels[end - 1]
        if end - start < _LEAST_RUN:
            end = start + 1
            yield str(first)
        elif levels[start + 1] == first + 1:
            yield f"{first}-{last}"
        else:
            yield f"{first}, {levels[start + 1]} ... {last}"
        start = end
