"""What a report on one family of transforms consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.evaluate.report.formats import PERCENT, Unit


@dataclass(frozen=True)
class Figure:
    """One figure: its name in every output, and the field of a summary or of its rows that holds it.

    ``normalised``: divided by the baseline's. ``over``: of a mean, the field of the rows that it is the mean of.
    """

    name: str
    field: str
    unit: Unit = PERCENT
    normalised: bool = False
    over: str = ""


@dataclass(frozen=True)
class Column:
    """``model`` stands above the titles of all columns of that model; ``number`` columns are aligned to the right."""

    title: str
    model: str = ""
    number: bool = True


@dataclass(frozen=True)
class Table:
    """Strings ready to be shown. ``section`` is the data set; ``about`` says what it holds, for who plots it."""

    section: str
    title: str
    note: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    about: str


@dataclass(frozen=True)
class Content:
    """A table of transforms: which figures of their rows it shows, and what is said of them."""

    about: str
    title: str
    note: str
    figures: Sequence[Figure]


@dataclass(frozen=True)
class Family:
    """What is shown of summaries of one kind, which are ``Summary``'s field of that ``name``.

    ``leads``: the first of these that exists is the headline. ``total``: transforms of the benchmark, called ``what``;
    0 where there is no such number. ``normalised_note`` is said where there is a baseline. ``counted``: fields of a
    summary that count. ``rows``: figures of a row.
    """

    name: str
    figures: Sequence[Figure]
    leads: Sequence[str]
    note: str
    counted: Sequence[str] = ("images", "failed")
    total: int = 0
    what: str = ""
    normalised_note: str = ""
    rows: Sequence[Figure] = ()
    tables: Callable[[Family, str, Mapping[str, Any]], Iterable[Table]] = lambda family, section, models: ()
    title: Callable[[Any], str] = lambda summary: summary.data_set
