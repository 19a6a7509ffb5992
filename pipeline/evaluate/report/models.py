"""The models of a report: notes of the user, and sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline.evaluate.report.family import Column, Figure, Table
from pipeline.evaluate.report.formats import NOTHING, Cell, Number, NumberFormat
from pipeline.evaluate.results.folder import ModelTable
from pipeline.text import LONGEST_MESSAGE, printable

SECTION = "Models"

NOTE = "As recorded by evaluate: its option --note, the number of parameters, and the multiply-adds for one image."


@dataclass(frozen=True)
class ReportModel:
    """A model of a report.

    Attributes:
        name: Name of the model.
        note: Remark of the user, for example how the model was trained; empty for none. Different remarks of several
            evaluations are joined.
        parameters: Number of parameters; None if unknown.
        multiply_adds: Number of multiply-add operations for one image; None if unknown, or if it differs between
            evaluations, since it depends on the size of images.
    """

    name: str
    note: str = ""
    parameters: int | None = None
    multiply_adds: int | None = None


SIZES: Mapping[str, Figure] = {
    "parameters (millions)": Figure("parameters", lambda model: model.parameters, NumberFormat(1e-6, 1, grouped=True)),
    "multiply-adds (billions)": Figure(
        "multiply-adds", lambda model: model.multiply_adds, NumberFormat(1e-9, 2, grouped=True)
    ),
}
"""Sizes of a ``ReportModel``, by their names with the unit of their formats."""


def report_models(evaluated: Iterable[ModelTable]) -> list[ReportModel]:
    """Return the models of evaluations, in order of their first evaluation."""
    tables: dict[str, list[ModelTable]] = {}
    for table in evaluated:
        tables.setdefault(table.name, []).append(table)
    return [
        ReportModel(
            name,
            "; ".join(dict.fromkeys(table.note for table in of_model if table.note)),
            _only(table.parameters for table in of_model),
            _only(table.multiply_adds for table in of_model),
        )
        for name, of_model in tables.items()
    ]


def model_tables(models: Sequence[ReportModel]) -> Iterator[Table]:
    """Yield the table of notes and sizes, without columns that have no value; nothing if all have none."""
    columns: dict[Column, list[Cell]] = {}
    if any(model.note for model in models):
        notes: list[Cell] = [printable(model.note, LONGEST_MESSAGE) if model.note else NOTHING for model in models]
        columns[Column("note", number=False)] = notes
    for title, figure in SIZES.items():
        if any(figure.value(model) is not None for model in models):
            columns[Column(title)] = [Number(figure.value(model), figure.format) for model in models]
    if columns:
        names = [printable(model.name) for model in models]
        rows = list(zip(names, *columns.values(), strict=True))
        yield Table(SECTION, "notes and sizes", NOTE, [Column("model", number=False), *columns], rows)


def _only(values: Iterable[int | None]) -> int | None:
    """Return the known value; None if there is none or several."""
    known = {value for value in values if value is not None}
    return known.pop() if len(known) == 1 else None
