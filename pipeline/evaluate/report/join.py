"""Images of two evaluations, joined by source id, and what keeps the evaluations from being compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from pipeline.evaluate.report.load import AnyTested, Evaluation
from pipeline.evaluate.report.scores import Images, Rows, list_names
from pipeline.text import counted, printable

Warn = Callable[[str], None]
"""A function that adds a warning to the report."""

SETTINGS = (
    ("input", "size"),
    ("input", "mean"),
    ("input", "std"),
    ("input", "steps"),
    ("input", "resize"),
    ("run", "precision"),
)
"""Settings that change predictions by more than rounding errors."""


@dataclass(frozen=True)
class Match:
    """The common images of two sets.

    Attributes:
        rows: Rows in the first set.
        others: Rows of the same images in the second set.
        by_position: Whether images are matched by their position in an array file instead of by id.
        namesakes: Ids of both sets that name different photographs. These are no common images.
    """

    rows: Rows
    others: Rows
    by_position: bool = False
    namesakes: tuple[str, ...] = ()

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


Id = TypeVar("Id")


def _match(ids: Sequence[Id], row_by_id: Mapping[Id, int]) -> tuple[Rows, Rows]:
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


def differing_settings(first: AnyTested, second: AnyTested) -> str:
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
