"""Values of images by condition, and images joined by source id: of conditions, and of several evaluations."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import UserError
from pipeline.evaluate.metrics.arrays import Floats, Numbers
from pipeline.evaluate.report.load import Evaluation, Flags, Tested
from pipeline.evaluate.results.predictions import ConditionPredictions
from pipeline.text import counted, printable
from pipeline.transforms.family import Condition

Rows = NDArray[np.int64]

Warn = Callable[[str], None]
"""A function that adds a warning to the report."""

SETTINGS = (*(("input", name) for name in ("size", "mean", "std", "steps", "resize")), ("run", "precision"))
"""Settings that change predictions by more than rounding errors."""


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

    def equals(self, other: "Images") -> bool:
        """Return whether the images, their order and their labels are equal."""
        same_labels = np.array_equal(self.labels, other.labels)
        return self.ids == other.ids and same_labels and np.array_equal(self.digests, other.digests)

    def take(self, rows: Rows) -> "Images":
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
class Scores:
    """Values over the same images by condition: ``values`` has the shape (images, conditions, ...)."""

    images: Images
    keys: tuple[Condition, ...]
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


def join_columns(evaluation: Evaluation, columns: Mapping[Condition, ImageValues]) -> Scores:
    """Return the values of the images that all columns have in common.

    Raises:
        UserError: If the columns have no image in common, or disagree about a label.
    """
    kinds = image_sets(columns)
    images = common_images(kinds)
    if not images.ids:
        raise UserError(f"{evaluation.folder}: no image was evaluated under every transform, so nothing can be shown")
    rows = {id(kind): _rows(evaluation, images, kind) for kind in kinds}
    values = [column.values[rows[id(column.images)]] for column in columns.values()]
    return Scores(images, tuple(columns), np.stack(values, axis=1))


def image_sets(columns: Mapping[Condition, ImageValues]) -> list[Images]:
    """Return the different sets of images of columns."""
    return list({id(column.images): column.images for column in columns.values()}.values())


def common_images(kinds: Iterable[Images]) -> Images:
    """Return the images that all have, in the order of the first."""
    first, *others = kinds
    if not others:
        return first
    shared = [row for row, id_ in enumerate(first.ids) if all(id_ in other.row_by_id for other in others)]
    return first.take(np.array(shared, np.int64))


def _rows(evaluation: Evaluation, images: Images, among: Images) -> Rows | slice:
    """Return the rows of ``images`` in ``among``. Raise UserError if their labels differ."""
    if images is among:
        return slice(None)  # which copies nothing
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
) -> Scores:
    """Return values of each image by condition, (images, conditions, ...).

    ``value`` returns those of a condition, (S, ...); by default 1 where an image is misclassified.

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


# Images of two evaluations


@dataclass(frozen=True)
class Match:
    """The common images of two sets."""

    rows: Rows  # in the first set
    others: Rows  # of the same images in the second set
    by_position: bool = False  # images are matched by their position in an array file instead of by id
    namesakes: tuple[str, ...] = ()  # ids of both sets that name different photographs, which are no common images

    @property
    def difference(self) -> str:
        """A clause on photographs with the same ids, after the name of the second set; empty if there are none."""
        if not self.namesakes:
            return ""
        what = counted(len(self.namesakes), "other photograph")
        return f"has {what} with the same ids, which are left out: {list_names(self.namesakes)}"

    def missing(self, images: Images) -> str:
        """Return the number and the first ids of the images that have no match, as a clause."""
        if self.namesakes:
            return self.difference
        missing = np.setdiff1d(np.arange(len(images.ids)), self.rows)
        first = list_names([images.ids[row] for row in missing[:4]])
        return f"lacks {len(missing):,} of {len(images.ids):,} images: {first}"


def match(first: Images, second: Images) -> Match:
    """Match images by source id, and by the digest of the photograph where both sets have one.

    Images of array files have ids that consist of the file name and a position. If no id matches, these are matched by
    position, provided that all labels agree.
    """
    if first.equals(second):
        return Match(np.arange(len(first.ids)), np.arange(len(first.ids)))
    rows, others = _match(first.ids, second.row_by_id)
    if len(rows):
        digest, other_digest = first.digests[rows], second.digests[others]
        same = (digest == other_digest) | (digest == 0) | (other_digest == 0)
        return Match(rows[same], others[same], namesakes=tuple(first.ids[row] for row in rows[~same]))
    positions, other_positions = _positions(first), _positions(second)
    if positions and other_positions:
        rows, others = _match(positions, {position: row for row, position in enumerate(other_positions)})
        labels = first.labels[rows]
        if len(set(labels.tolist())) > 1 and np.array_equal(labels, second.labels[others]):
            return Match(rows, others, by_position=True)
    return Match(np.empty(0, np.int64), np.empty(0, np.int64))


def _match(ids: Sequence[str], row_by_id: Mapping[str, int]) -> tuple[Rows, Rows]:
    """Return the rows of ids that both sets have, in both sets."""
    pairs = [(row, row_by_id[id_]) for row, id_ in enumerate(ids) if id_ in row_by_id]
    rows, others = np.array(pairs, np.int64).reshape(-1, 2).T
    return rows, others


def _positions(images: Images) -> list[str]:
    """Return the positions of images in one array file (``test_batch_000123``); empty if they are separate files."""
    parts = [id_.rpartition("_") for id_ in images.ids]
    stems = {stem for stem, _, _ in parts}
    arrays = len(stems) == 1 and "/" not in next(iter(stems))
    positions = [position for _, _, position in parts]
    return positions if arrays and all(position.isdecimal() for position in positions) else []


class Conflict(str):
    """Why two evaluations contradict each other."""


def join(evaluation: Evaluation, images: Images, other: Evaluation, other_images: Images) -> Match | str:
    """Return the images that two evaluations of a model have in common, or why they cannot be compared."""
    common = match(images, other_images)
    if not len(common.rows):
        return f"{other.folder} {common.difference or 'has no images in common with this evaluation'}"
    if reason := unfit(evaluation, other):
        return f"{other.folder} {reason}"
    return label_conflict(evaluation, images, other, other_images, common) or common


def label_conflict(
    evaluation: Evaluation, images: Images, other: Evaluation, other_images: Images, common: Match
) -> Conflict | None:
    """Return an error message if common images have different labels."""
    labels, other_labels = images.labels[common.rows], other_images.labels[common.others]
    differ = np.flatnonzero(labels != other_labels)
    if not differ.size:
        return None
    first = differ[0]
    return Conflict(
        f"the image {printable(images.ids[common.rows[first]])!r} has the label {labels[first]} in {evaluation.folder} "
        f"and {other_labels[first]} in {other.folder} ({differ.size:,} labels differ in total): give evaluations of "
        "the same photographs"
    )


def unfit(evaluation: Evaluation, other: Evaluation) -> str:
    """Return why another evaluation of a model cannot be compared image by image; empty if it can."""
    profile, other_profile = evaluation.table.data_set.profile, other.table.data_set.profile
    if evaluation.groups_digest != other.groups_digest:
        return "has other labels: the groups of classes of its task differ"
    if profile and other_profile and profile != other_profile:
        return f"has the profile {other_profile!r} instead of {profile!r}"
    return ""


def differing_settings(first: Tested, second: Tested) -> str:
    """Return the settings that differ between two evaluations, with both values; empty if all are equal.

    Settings that one evaluation does not have, such as the preparation of images that are already prepared, are not
    compared.
    """
    pairs = (
        (f"{table}.{field}", getattr(getattr(first.table, table), field), getattr(getattr(second.table, table), field))
        for table, field in SETTINGS
    )
    known = ((name, one, other) for name, one, other in pairs if one is not None and other is not None)
    return ", ".join(f"{name} {one} and {other}" for name, one, other in known if one != other)
