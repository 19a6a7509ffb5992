"""Values of images by condition: errors, probabilities and others, with the checks that a report needs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import UserError
from pipeline.evaluate.metrics.arrays import Floats, Numbers
from pipeline.evaluate.report.load import Evaluation, Flags
from pipeline.evaluate.results.predictions import ConditionPredictions
from pipeline.text import printable
from pipeline.transforms.family import Condition

Rows = NDArray[np.int64]
Key = TypeVar("Key", bound=Hashable)


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
class ImageValues:
    """Images, and values of each of them, (S, ...)."""

    images: Images
    values: Numbers


@dataclass(frozen=True)
class Scores(Generic[Key]):
    """Values over the same images; ``keys`` names the columns. ``values`` has the shape (images, columns, ...)."""

    images: Images
    keys: tuple[Key, ...]
    values: Numbers


class ConditionImages:
    """A function of a condition that returns its images; successive conditions with equal images share one object."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation
        self._latest: Images | None = None

    def __call__(self, predicted: ConditionPredictions) -> Images:
        """Return the images of a condition. Raise UserError if a source id occurs twice."""
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


def join_columns(evaluation: Evaluation, columns: Mapping[Key, ImageValues]) -> Scores[Key]:
    """Return the values of the images that all columns have in common.

    Raises:
        UserError: If the columns have no image in common, or disagree about a label.
    """
    kinds = {id(column.images): column.images for column in columns.values()}
    images = common_images(kinds.values())
    if not images.ids:
        raise UserError(f"{evaluation.folder}: no image was evaluated under every transform, so nothing can be shown")
    rows = {kind: _rows(evaluation, images, kinds[kind]) for kind in kinds}
    values = [column.values[rows[id(column.images)]] for column in columns.values()]
    return Scores(images, tuple(columns), np.stack(values, axis=1))


def common_images(kinds: Iterable[Images]) -> Images:
    """Return the images that all have, in the order of the first."""
    first, *others = kinds
    if not others:
        return first
    shared = [row for row, id_ in enumerate(first.ids) if all(id_ in other.row_by_id for other in others)]
    return first.take(np.array(shared, np.int64))


def _rows(evaluation: Evaluation, images: Images, among: Images) -> Rows:
    """Return the rows of ``images`` in ``among``. Raise UserError if their labels differ."""
    if images is among:
        return np.arange(len(images.ids))
    rows = np.array([among.row_by_id[id_] for id_ in images.ids], np.int64)
    if (differ := np.flatnonzero(among.labels[rows] != images.labels)).size:
        name = printable(images.ids[differ[0]])
        raise evaluation.damaged_error(f"the label of {name!r} is not the same in all conditions")
    return rows


def top1_errors(evaluation: Evaluation, predicted: ConditionPredictions) -> Flags:
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


def condition_scores(
    evaluation: Evaluation, value: Callable[[Evaluation, ConditionPredictions], Numbers] = top1_errors
) -> Scores[Condition]:
    """Return values of each image by condition, (images, conditions, ...).

    Args:
        evaluation: The evaluation.
        value: Returns the values of the images of a condition, (S, ...). Default: 1 where it is misclassified.

    Raises:
        UserError: If an image has no label, or the predictions are damaged.
    """
    images = ConditionImages(evaluation)
    columns = {
        predicted.condition: ImageValues(images(predicted), value(evaluation, predicted))
        for predicted in evaluation.predictions()
    }
    return join_columns(evaluation, columns)


@dataclass(frozen=True)
class Untransformed:
    """The predictions for images without a transform."""

    evaluation: Evaluation
    images: Images
    predicted: ConditionPredictions

    @cached_property
    def top1_errors(self) -> Flags:
        """Whether the predicted label is wrong, (S,). Raises UserError if an image has no label."""
        return top1_errors(self.evaluation, self.predicted)

    @property
    def confidences(self) -> Floats:
        """The largest probability of each image, (S,), 0..1."""
        return self.predicted.confidence[:, 0].astype(np.float64).clip(max=1)  # rounding can exceed 1


def read_untransformed(evaluation: Evaluation) -> Untransformed:
    """Return the predictions for images without a transform. Raise UserError if there are several conditions."""
    first, *others = ((ConditionImages(evaluation)(predicted), predicted) for predicted in evaluation.predictions())
    if others:
        raise evaluation.damaged_error(f"images without a transform have {1 + len(others)} conditions instead of one")
    return Untransformed(evaluation, *first)


def digest_of_ids(ids: Iterable[str]) -> str:
    """Return the hexadecimal SHA-256 of source ids."""
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()


def list_names(names: Sequence[str], limit: int = 3) -> str:
    """Return the first names joined by commas, with an ellipsis if there are more."""
    return ", ".join(printable(name) for name in names[:limit]) + (" ..." if len(names) > limit else "")
