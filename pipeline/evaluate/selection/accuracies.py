"""Accuracies of several models on clean images, candidates and natural images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from pipeline.errors import UserError
from pipeline.evaluate.metrics.arrays import Floats
from pipeline.evaluate.selection.files import CLEAN, read_table
from pipeline.evaluate.selection.measures import MIN_MODELS
from pipeline.text import counted, shown

MIN_CORRUPTIONS, MAX_CORRUPTIONS = 3, 200
"""Numbers of corruptions with overlap scores: categories need three, and the time that they take grows fast."""


class Kind(StrEnum):
    """What a value of a model is measured on."""

    CLEAN = "clean images"
    CANDIDATE = "candidates"
    NATURAL = "natural images"
    SCORE = "other benchmarks"


@dataclass(frozen=True)
class Measurements:
    """Values of M models.

    Attributes:
        models: Names of the models.
        clean: Accuracies on clean images, (M,).
        names: Names of the C candidates.
        candidates: Accuracies on the candidates, (M, C).
        natural: Accuracies by natural set, (M,) each.
        scores: Scores by other benchmark, (M,) each; smaller is better.
    """

    models: Sequence[str]
    clean: Floats
    names: Sequence[str]
    candidates: Floats
    natural: Mapping[str, Floats]
    scores: Mapping[str, Floats]


class Accuracies:
    """A collection of values by kind, model and set of images, from several files and folders."""

    def __init__(self) -> None:
        self._values: dict[Kind, dict[str, dict[str, float]]] = {kind: {} for kind in Kind}

    def add(self, kind: Kind, model: str, name: str, value: float) -> None:
        """Add a value.

        Raises:
            UserError: Another value is already known.
        """
        known = self._values[kind].setdefault(name, {}).setdefault(model, value)
        if known != value:
            raise UserError(f"the model {shown(model)} has two values for {shown(name)}, {known} and {value}: give one")

    def add_file(self, kind: Kind, location: str) -> None:
        """Add the values of a table. Accuracies on clean images are in its column ``clean``, if there is one.

        Raises:
            UserError: The file is invalid, or another value is already known.
        """
        for model, by_name in read_table(location, fractions=kind is not Kind.SCORE).items():
            for name, value in by_name.items():
                of_clean = name == CLEAN and kind is not Kind.SCORE
                self.add(Kind.CLEAN if of_clean else kind, model, name, value)

    def measurements(self) -> Measurements | None:
        """Return the values of all models; None if there are none.

        Raises:
            UserError: A kind of value is missing, there are fewer than three models, or one of them lacks a value.
        """
        models = list(dict.fromkeys(model for sets in self._values.values() for row in sets.values() for model in row))
        if not models:
            return None
        for kind, remedy in (
            (Kind.CLEAN, "add the column 'clean', or evaluate the models on clean images"),
            (Kind.CANDIDATE, "give --candidates, or evaluate the models on candidates"),
            (Kind.NATURAL, "give --natural, or evaluate the models on natural images such as ImageNet-A"),
        ):
            if not self._values[kind]:
                raise UserError(f"no accuracies on {kind}: {remedy}")
        if len(models) < MIN_MODELS:
            names = " and ".join(map(shown, models))
            raise UserError(f"{names} are too few models for a correlation: give at least {MIN_MODELS}")
        columns = {kind: self._columns(kind, models) for kind in Kind}
        candidates = columns[Kind.CANDIDATE]
        (clean,) = columns[Kind.CLEAN].values()
        return Measurements(
            models,
            clean,
            list(candidates),
            np.stack(list(candidates.values()), axis=1),
            columns[Kind.NATURAL],
            columns[Kind.SCORE],
        )

    def _columns(self, kind: Kind, models: Sequence[str]) -> dict[str, Floats]:
        """Return the values of all models, (M,), by set of images. Raise UserError if a model lacks one."""
        for name, by_model in self._values[kind].items():
            if missing := [model for model in models if model not in by_model]:
                raise UserError(
                    f"the model {shown(missing[0])} has no value for {shown(name)} ({kind}): evaluate it there too, "
                    "or leave it out"
                )
        return {name: np.array([row[model] for model in models]) for name, row in self._values[kind].items()}


def read_trained(location: str) -> tuple[list[str], Floats]:
    """Return the accuracies of models that were trained with corruptions.

    Args:
        location: Path or URL of a table. Rows: ``clean`` for the model trained on clean images, and one per corruption
            for the model trained with it. Columns: ``clean`` for clean images, and one per corruption.

    Returns:
        Names of the C corruptions, and the accuracies (C + 1, C + 1) for ``overlap_scores``.

    Raises:
        UserError: The file is invalid, a row or a column is missing, or the number of corruptions is outside its range.
    """
    table = read_table(location)
    columns = list(next(iter(table.values())))
    for among, others, what in ((table, columns, "row"), (columns, table, "column")):
        if missing := [name for name in (CLEAN, *others) if name not in among]:
            raise UserError(
                f"{location} has no {what} {shown(missing[0])}: give the model trained on clean images and one trained "
                "with each corruption, on clean images and on each corruption"
            )
    names = [name for name in columns if name != CLEAN]
    if not MIN_CORRUPTIONS <= len(names) <= MAX_CORRUPTIONS:
        raise UserError(
            f"{location} has {counted(len(names), 'corruption')}: give {MIN_CORRUPTIONS} to {MAX_CORRUPTIONS}"
        )
    order = [CLEAN, *names]
    return names, np.array([[table[row][column] for column in order] for row in order])
