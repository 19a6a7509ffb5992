"""What reports read of an evaluation: its predictions, checked, and the images that they are of."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.errors import UserError
from pipeline.evaluate.metrics import TOP
from pipeline.evaluate.results.folder import (
    EVALUATION_FILE,
    FACT_EVALUATION,
    PREDICTIONS_FILE,
    EvaluationTable,
    pixels_changed,
    read_table,
    require_finished,
)
from pipeline.evaluate.results.predictions import ConditionPredictions, read_predictions
from pipeline.storage import Store, open_store
from pipeline.text import LONGEST_PATH, printable
from pipeline.transforms.clean import FAMILY as CLEAN
from pipeline.transforms.family import Condition
from pipeline.transforms.registry import FAMILIES

MOST_CONDITIONS = 2000
"""Conditions of one evaluation that a report takes: it draws a plot of each transform."""

Rows = NDArray[np.int64]
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Evaluation:
    """A finished evaluation: what was shown to which model, and where its predictions are."""

    folder: str
    table: EvaluationTable
    store: Store

    @property
    def model(self) -> str:
        """The model's name, on one line."""
        return printable(self.table.model.name)

    @property
    def place(self) -> str:
        """The folder, by whatever name it was given."""
        return self.store.root if "://" in self.store.root else str(Path(self.store.root).resolve())

    def predictions(self) -> Iterator[ConditionPredictions]:
        """Yield its predictions, one condition at a time. Raises UserError for those that no evaluation writes."""
        seen = 0
        with reading(self.folder):
            for predicted in read_predictions(self.store.path(PREDICTIONS_FILE), self.table.model.classes):
                seen += 1
                if seen > MOST_CONDITIONS:
                    raise UserError(
                        f"{self.folder} has more than {MOST_CONDITIONS} transforms and levels, too many to show"
                    )
                self._check(predicted)
                yield predicted
            if not seen:
                raise UserError(f"{self.folder} has no predictions: the data set had no image")

    def levels(self) -> list[int]:
        """Return the levels of all conditions, rising. Raises UserError for one below 1."""
        levels = set[int]()
        with reading(self.folder), pq.ParquetFile(self.store.path(PREDICTIONS_FILE)) as file:
            for batch in file.iter_batches(columns=["level"]):
                levels.update(pc.unique(batch["level"]).to_pylist())
        if levels and min(levels) < 1:
            raise self.damaged(f"the level {min(levels)} is below 1")
        return sorted(levels)

    def damaged(self, what: str) -> UserError:
        """Return the error for predictions that cannot be right."""
        return UserError(f"{self.folder}: {PREDICTIONS_FILE} is damaged: {what}; evaluate again into a new folder")

    def changed(self) -> tuple[int, int]:
        """Return how many samples decoded to other pixels than were built, and how many were compared."""
        with reading(self.folder):
            return pixels_changed(self.store)

    def _check(self, predicted: ConditionPredictions) -> None:
        """Check that a condition is one of the family. Raises UserError."""
        family, classes = FAMILIES[self.table.data_set.family], self.table.model.classes
        if not family.recognition.other_names and predicted.condition.transform not in family.names:
            raise self.damaged(f"{predicted.condition.transform!r} is no transform of the family {family.name}")
        if not family.sequences and predicted.top1.shape[1] != 1:
            raise self.damaged(f"{predicted.condition} has sequences, which the family {family.name} does not have")
        if predicted.top5.shape[2] != min(TOP, classes):
            raise self.damaged(
                f"{predicted.condition} has lists of {predicted.top5.shape[2]} classes, not of {min(TOP, classes)}"
            )


def is_clean(each: Evaluation) -> bool:
    """Return whether an evaluation is of images without any transform."""
    return each.table.data_set.family == CLEAN.name


def open_evaluation(folder: str) -> Evaluation:
    """Open a folder that ``evaluate`` wrote. Raises UserError where there is none, UnfinishedError for a part."""
    store = open_store(folder)
    with reading(folder):
        table = read_table(store)
        require_finished(store)
        facts = pq.read_metadata(store.path(PREDICTIONS_FILE)).metadata or {}
    if facts.get(FACT_EVALUATION.encode(), b"") != table.digest.encode():
        raise UserError(
            f"{printable(folder, LONGEST_PATH)}: {PREDICTIONS_FILE} is not of the evaluation that {EVALUATION_FILE} "
            "describes: one of the two was changed or copied; evaluate again into a new folder"
        )
    return Evaluation(printable(folder, LONGEST_PATH), table, store)


@dataclass(frozen=True)
class About:
    """What a summary says of its evaluation besides figures."""

    model: str
    data_set: str
    failed: int
    manifest_sha256: str
    source_ids_sha256: str


@contextmanager
def reading(folder: str) -> Iterator[None]:
    """Name the folder in whatever goes wrong as its files are read. Raises UserError."""
    try:
        yield
    except (ValueError, LookupError, ArithmeticError, RecursionError, MemoryError, pa.ArrowException) as error:
        what = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(f"the evaluation {printable(folder, LONGEST_PATH)} cannot be read: {what[0]}") from error


@dataclass(frozen=True)
class Images:
    """Images in one order, each once: their source ids, and labels (S,)."""

    ids: tuple[str, ...]
    labels: NDArray[np.int32]

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Id -> row."""
        return {id_: row for row, id_ in enumerate(self.ids)}

    def take(self, rows: Rows) -> Images:
        """Return some of them."""
        return self if len(rows) == len(self.ids) else Images(tuple(self.ids[row] for row in rows), self.labels[rows])


@dataclass(frozen=True)
class ScoreColumn:
    """One value for each of some images."""

    images: Images
    values: NDArray[np.bool_] | NDArray[np.float64]


@dataclass(frozen=True)
class Scores(Generic[Key]):
    """Columns of values over the same images: (images, columns)."""

    images: Images
    keys: tuple[Key, ...]
    values: NDArray[np.float64]


class ImagesOf:
    """The images of the conditions of one evaluation; conditions of the same images share them."""

    def __init__(self, each: Evaluation) -> None:
        self._each = each
        self._latest: Images | None = None

    def __call__(self, predicted: ConditionPredictions) -> Images:
        """Return the images of a condition. Raises UserError where an image comes twice."""
        latest, ids = self._latest, tuple(predicted.source_ids)
        if latest is None or latest.ids != ids or not np.array_equal(latest.labels, predicted.labels):
            self._latest = latest = Images(ids, predicted.labels)
            if len(latest.places) < len(ids):
                first = next(id_ for row, id_ in enumerate(ids) if latest.places[id_] != row)
                raise UserError(
                    f"{self._each.folder}: {predicted.condition} has the source id {printable(first)!r} twice, "
                    "so its images cannot be told apart; give them different names, build and evaluate again"
                )
        return latest


def joined(each: Evaluation, columns: Mapping[Key, ScoreColumn]) -> Scores[Key]:
    """Return the values of those images that every column has. Raises UserError where there is none."""
    kinds = {id(column.images): column.images for column in columns.values()}
    first, *others = kinds.values()
    images = first
    if others:
        shared = [row for row, id_ in enumerate(first.ids) if all(id_ in other.places for other in others)]
        images = first.take(np.array(shared, np.int64))
    if not images.ids:
        raise UserError(f"{each.folder}: its transforms have no image in common")
    rows = {kind: _rows(each, images, kinds[kind]) for kind in kinds}
    values = [column.values[rows[id(column.images)]] for column in columns.values()]
    return Scores(images, tuple(columns), np.stack(values, axis=1).astype(np.float64))


def _rows(each: Evaluation, images: Images, among: Images) -> Rows:
    """Where images are among others of the same evaluation. Raises UserError where their labels differ."""
    if images is among:
        return np.arange(len(images.ids))
    rows = np.array([among.places[id_] for id_ in images.ids], np.int64)
    if (differ := np.flatnonzero(among.labels[rows] != images.labels)).size:
        raise each.damaged(f"the label of {printable(images.ids[differ[0]])!r} is not the same in all conditions")
    return rows


def wrong(each: Evaluation, predicted: ConditionPredictions) -> NDArray[np.bool_]:
    """Return whether the first class of each image is not its label, (S,). Raises UserError without labels."""
    if (predicted.labels < 0).any():
        raise UserError(f"{each.folder} has images without labels, so no error rate can be computed")
    return predicted.top1[:, 0] != predicted.labels


def error_scores(each: Evaluation) -> Scores[Condition]:
    """Return whether each image is classified wrongly, by condition."""
    images = ImagesOf(each)
    return joined(
        each,
        {
            predicted.condition: ScoreColumn(images(predicted), wrong(each, predicted))
            for predicted in each.predictions()
        },
    )


@dataclass(frozen=True)
class Clean:
    """Predictions of clean images: whether each image is wrong by its first class, and by its first five."""

    evaluation: Evaluation
    images: Images
    errors: NDArray[np.bool_]
    beyond: NDArray[np.bool_]


def clean_of(each: Evaluation) -> Clean:
    """Return what is right of clean images. Raises UserError without labels, and for more than one condition."""
    first, *others = (
        (ImagesOf(each)(predicted), wrong(each, predicted), predicted.label_rank[:, 0] > TOP)
        for predicted in each.predictions()
    )
    if others:
        raise each.damaged(f"clean images have one condition, not {1 + len(others)}")
    return Clean(each, *first)


def confidences(each: Evaluation) -> NDArray[np.float64]:
    """Return the largest probability of each image, over all conditions, 0..1."""
    found = np.concatenate([predicted.confidence[:, 0] for predicted in each.predictions()]).astype(np.float64)
    return found.clip(max=1)  # rounding may leave a little more


def named(names: Sequence[str], most: int = 3) -> str:
    """Return the first of many names."""
    return ", ".join(printable(name) for name in names[:most]) + (" ..." if len(names) > most else "")
