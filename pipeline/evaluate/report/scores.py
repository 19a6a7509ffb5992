"""Predictions of an evaluation as per-image scores, with the checks that a report needs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.errors import UserError
from pipeline.evaluate.metrics import TOP
from pipeline.evaluate.report.tested import Tested
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
from pipeline.storage import open_store
from pipeline.tasks.schema import Role, Task
from pipeline.text import LONGEST_PATH, printable
from pipeline.transforms.clean import FAMILY as CLEAN
from pipeline.transforms.family import Condition
from pipeline.transforms.registry import FAMILIES

MAX_CONDITIONS = 2000
"""Maximum number of conditions of one evaluation: the page has a plot for each transform."""

Rows = NDArray[np.int64]
Key = TypeVar("Key", bound=Hashable)


def role_of(family: str, task: Task | None) -> Role | None:
    """Return what images are to a report: the role of their task, or clean images; None if they have a transform."""
    if family != CLEAN.name:
        return None
    return task.role if task else "clean"


@dataclass(frozen=True)
class Evaluation(Tested[EvaluationTable]):
    """A finished evaluation of one model on one data set. ``table``: contents of ``evaluation.toml``."""

    @property
    def role(self) -> Role | None:
        """What the images are to the report."""
        return role_of(self.table.data_set.family, self.table.task)

    @property
    def groups_digest(self) -> str:
        """The digest of the groups of classes that the labels count; empty if each class is a label."""
        return self.table.task.groups_digest if self.table.task else ""

    def predictions(self) -> Iterator[ConditionPredictions]:
        """Yield the predictions, one condition at a time.

        Raises:
            UserError: If the predictions are damaged or empty, or have more than ``MAX_CONDITIONS`` conditions.
        """
        count = 0
        with reading(self.folder):
            for predicted in read_predictions(self.store.path(PREDICTIONS_FILE), self.table.labels):
                count += 1
                if count > MAX_CONDITIONS:
                    raise UserError(
                        f"{self.folder} has more than {MAX_CONDITIONS} conditions (transforms at a level): a report "
                        "cannot show more, evaluate fewer transforms"
                    )
                self._check(predicted)
                yield predicted
            if not count:
                raise UserError(f"{self.folder} contains no predictions: evaluate a data set that has images")

    def levels(self) -> list[int]:
        """Return the levels of all conditions, in ascending order.

        Raises:
            UserError: If a level is below 1.
        """
        levels = set[int]()
        with reading(self.folder), pq.ParquetFile(self.store.path(PREDICTIONS_FILE)) as file:
            for batch in file.iter_batches(columns=["level"]):
                levels.update(pc.unique(batch["level"]).to_pylist())
        if levels and min(levels) < 1:
            raise self.damaged_error(f"level {min(levels)} is below 1")
        return sorted(levels)

    def damaged_error(self, reason: str) -> UserError:
        """Return the error for invalid predictions."""
        return UserError(f"{self.folder}: {PREDICTIONS_FILE} is damaged: {reason}; evaluate again into a new folder")

    def changed_samples(self) -> tuple[int, int]:
        """Return how many samples decoded to other pixels than when they were built, and how many were checked."""
        with reading(self.folder):
            return pixels_changed(self.store)

    def _check(self, predicted: ConditionPredictions) -> None:
        """Raise UserError if the predictions of a condition do not fit the family."""
        family, labels = FAMILIES[self.table.data_set.family], self.table.labels
        if not family.recognition.other_names and predicted.condition.transform not in family.names:
            raise self.damaged_error(
                f"{predicted.condition.transform!r} is not a transform of the family {family.name}"
            )
        if not family.sequences and predicted.top1.shape[1] != 1:
            raise self.damaged_error(f"{predicted.condition} contains sequences, but the family {family.name} has none")
        if predicted.top5.shape[2] != min(TOP, labels):
            raise self.damaged_error(
                f"{predicted.condition} lists {predicted.top5.shape[2]} classes per image instead of {min(TOP, labels)}"
            )


def open_evaluation(folder: str) -> Evaluation:
    """Open a folder that ``evaluate`` wrote.

    Args:
        folder: Folder or URL.

    Raises:
        UserError: If the folder has no valid evaluation.
        UnfinishedError: If the evaluation is incomplete.
    """
    store = open_store(folder)
    with reading(folder):
        table = read_table(store)
        require_finished(store)
        facts = pq.read_metadata(store.path(PREDICTIONS_FILE)).metadata or {}
    if facts.get(FACT_EVALUATION.encode(), b"") != table.digest.encode():
        raise UserError(
            f"{printable(folder, LONGEST_PATH)}: {PREDICTIONS_FILE} does not belong to {EVALUATION_FILE}: one of the "
            "two was changed or copied; evaluate again into a new folder"
        )
    return Evaluation(printable(folder, LONGEST_PATH), table, store)


@dataclass(frozen=True)
class About:
    """Fields that every summary takes from its evaluation.

    Attributes:
        model: Name of the model.
        data_set: Name of the data set in this report.
        failed: Number of failed samples in the data set.
        manifest_sha256: Digest of the data set's manifest.
        source_ids_sha256: Digest of the sorted source ids of the images.
    """

    model: str
    data_set: str
    failed: int
    manifest_sha256: str
    source_ids_sha256: str


@contextmanager
def reading(folder: str) -> Iterator[None]:
    """Convert errors raised while reading an evaluation into a UserError that names the folder."""
    try:
        yield
    except (ValueError, LookupError, ArithmeticError, RecursionError, MemoryError, pa.ArrowException) as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(f"the evaluation {printable(folder, LONGEST_PATH)} cannot be read: {reason[0]}") from error


@dataclass(frozen=True)
class Images:
    """Distinct images in a fixed order: their source ids, labels (S,), and digests of the photographs (S,), or 0."""

    ids: tuple[str, ...]
    labels: NDArray[np.int32]
    digests: NDArray[np.int64]

    @cached_property
    def row_by_id(self) -> Mapping[str, int]:
        """The row of each source id."""
        return {id_: row for row, id_ in enumerate(self.ids)}

    def equals(self, other: Images) -> bool:
        """Return whether the images, their order and their labels are equal."""
        same_labels = np.array_equal(self.labels, other.labels)
        return self.ids == other.ids and same_labels and np.array_equal(self.digests, other.digests)

    def take(self, rows: Rows) -> Images:
        """Return the images at some rows."""
        if len(rows) == len(self.ids):
            return self
        return Images(tuple(self.ids[row] for row in rows), self.labels[rows], self.digests[rows])


@dataclass(frozen=True)
class ScoreColumn:
    """Images, and one value for each of them."""

    images: Images
    values: NDArray[np.bool_] | NDArray[np.float64]


@dataclass(frozen=True)
class Scores(Generic[Key]):
    """Values (images, columns) over the same images; ``keys`` names the columns."""

    images: Images
    keys: tuple[Key, ...]
    values: NDArray[np.float64]


class ConditionImages:
    """A function of a condition that returns its images; successive conditions with equal images share one object."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation
        self._latest: Images | None = None

    def __call__(self, predicted: ConditionPredictions) -> Images:
        """Return the images of a condition.

        Raises:
            UserError: If a source id occurs twice.
        """
        of_attack = self._evaluation.table.attack is not None  # its digests are those of clean samples
        digests = np.zeros_like(predicted.digests) if of_attack else predicted.digests
        images, latest = Images(tuple(predicted.source_ids), predicted.labels, digests), self._latest
        if latest is None or not latest.equals(images):
            self._latest, ids = (latest := images), images.ids
            if len(latest.row_by_id) < len(ids):
                first = next(id_ for row, id_ in enumerate(ids) if latest.row_by_id[id_] != row)
                raise UserError(
                    f"{self._evaluation.folder}: the source id {printable(first)!r} occurs twice in "
                    f"{predicted.condition}: give the images unique names, then build and evaluate again"
                )
        return latest


def join_columns(evaluation: Evaluation, columns: Mapping[Key, ScoreColumn]) -> Scores[Key]:
    """Return the values of the images that all columns have in common.

    Raises:
        UserError: If the columns have no image in common, or disagree about a label.
    """
    kinds = {id(column.images): column.images for column in columns.values()}
    first, *others = kinds.values()
    images = first
    if others:
        shared = [row for row, id_ in enumerate(first.ids) if all(id_ in other.row_by_id for other in others)]
        images = first.take(np.array(shared, np.int64))
    if not images.ids:
        raise UserError(f"{evaluation.folder}: no image was evaluated under every transform, so nothing can be shown")
    rows = {kind: _rows(evaluation, images, kinds[kind]) for kind in kinds}
    values = [column.values[rows[id(column.images)]] for column in columns.values()]
    return Scores(images, tuple(columns), np.stack(values, axis=1).astype(np.float64))


def _rows(evaluation: Evaluation, images: Images, among: Images) -> Rows:
    """Return the rows of ``images`` in ``among``. Raise UserError if their labels differ."""
    if images is among:
        return np.arange(len(images.ids))
    rows = np.array([among.row_by_id[id_] for id_ in images.ids], np.int64)
    if (differ := np.flatnonzero(among.labels[rows] != images.labels)).size:
        name = printable(images.ids[differ[0]])
        raise evaluation.damaged_error(f"the label of {name!r} is not the same in all conditions")
    return rows


def top1_errors(evaluation: Evaluation, predicted: ConditionPredictions) -> NDArray[np.bool_]:
    """Return whether the predicted class of each image differs from its label, (S,).

    Raises:
        UserError: If an image has no label.
    """
    if (predicted.labels < 0).any():
        raise UserError(
            f"{evaluation.folder} contains unlabelled images, so no error rate can be computed: put the "
            "images in one folder per class, make the data set again, and evaluate it into a new folder"
        )
    return predicted.top1[:, 0] != predicted.labels


Measure = Callable[[Evaluation, ConditionPredictions], NDArray[Any]]
"""A function that returns one value for each image of a condition, (S,)."""


def condition_scores(evaluation: Evaluation, measures: Sequence[Measure]) -> list[Scores[Condition]]:
    """Return several values of each image by condition, (images, conditions), one set of scores per measure.

    Raises:
        UserError: If an image has no label, or the predictions are damaged.
    """
    images = ConditionImages(evaluation)
    columns: list[dict[Condition, ScoreColumn]] = [{} for _ in measures]
    for predicted in evaluation.predictions():
        of_condition = images(predicted)
        for measure, by_condition in zip(measures, columns, strict=True):
            by_condition[predicted.condition] = ScoreColumn(of_condition, measure(evaluation, predicted))
    return [join_columns(evaluation, by_condition) for by_condition in columns]


def error_scores(evaluation: Evaluation) -> Scores[Condition]:
    """Return for each condition whether each image is misclassified: 1 or 0, (images, conditions).

    Raises:
        UserError: If an image has no label, or the predictions are damaged.
    """
    return condition_scores(evaluation, [top1_errors])[0]


@dataclass(frozen=True)
class Untransformed:
    """The predictions for images without a transform.

    Attributes:
        evaluation: The evaluation.
        images: The images.
        predicted: Their predictions.
    """

    evaluation: Evaluation
    images: Images
    predicted: ConditionPredictions

    @cached_property
    def top1_errors(self) -> NDArray[np.bool_]:
        """Whether the predicted label is wrong, (S,). Raises UserError if an image has no label."""
        return top1_errors(self.evaluation, self.predicted)

    @property
    def top5_errors(self) -> NDArray[np.bool_]:
        """Whether the label is not among the five most probable ones, (S,)."""
        return self.predicted.label_rank[:, 0] > TOP

    @property
    def free_errors(self) -> NDArray[np.bool_]:
        """Whether the most probable of all classes is not in the group of the label, (S,)."""
        return self.predicted.free[:, 0] != self.predicted.labels

    @property
    def confidences(self) -> NDArray[np.float64]:
        """The largest probability of each image, (S,), 0..1."""
        return self.predicted.confidence[:, 0].astype(np.float64).clip(max=1)  # rounding can exceed 1


def read_untransformed(evaluation: Evaluation) -> Untransformed:
    """Return the predictions of an evaluation on images without a transform.

    Raises:
        UserError: If the evaluation has several conditions.
    """
    first, *others = ((ConditionImages(evaluation)(predicted), predicted) for predicted in evaluation.predictions())
    if others:
        raise evaluation.damaged_error(f"images without a transform have {1 + len(others)} conditions instead of one")
    return Untransformed(evaluation, *first)


def digest_of_ids(ids: Iterable[str]) -> str:
    """Return the hexadecimal SHA-256 of sorted source ids."""
    return hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()


def list_names(names: Sequence[str], limit: int = 3) -> str:
    """Return the first names joined by commas, with an ellipsis if there are more."""
    return ", ".join(printable(name) for name in names[:limit]) + (" ..." if len(names) > limit else "")
