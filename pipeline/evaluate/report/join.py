"""Images of two evaluations, joined by source id and by the digest of the photograph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.evaluate.report.scores import Evaluation, Images, Rows, list_names
from pipeline.text import counted, printable


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


def match(first: Images, second: Images) -> Match:
    """Match images by source id, and by the digest of the photograph where both sets have one.

    Images of array files have ids that consist of the file name and a position. If no id matches, these are matched by
    position, provided that all labels agree.
    """
    if first.equals(second):
        return Match(np.arange(len(first.ids)), np.arange(len(first.ids)))
    matched = _match(first.ids, second.row_by_id)
    if len(matched.rows):
        digest, other_digest = first.digests[matched.rows], second.digests[matched.others]
        same = (digest == other_digest) | (digest == 0) | (other_digest == 0)
        namesakes = tuple(first.ids[row] for row in matched.rows[~same])
        return Match(matched.rows[same], matched.others[same], namesakes=namesakes)
    positions, other_positions = _positions(first), _positions(second)
    if positions and other_positions:
        matched = _match(positions, {position: row for row, position in enumerate(other_positions)})
        labels = first.labels[matched.rows]
        if len(set(labels.tolist())) > 1 and np.array_equal(labels, second.labels[matched.others]):
            return Match(matched.rows, matched.others, by_position=True)
    return Match(np.empty(0, np.int64), np.empty(0, np.int64))


def _match(ids: Sequence[Any], row_by_id: Mapping[Any, int]) -> Match:
    """Match ids with the rows of another set."""
    pairs = [(row, row_by_id[id_]) for row, id_ in enumerate(ids) if id_ in row_by_id]
    rows, others = np.array(pairs, np.int64).reshape(-1, 2).T
    return Match(rows, others)


def _positions(images: Images) -> list[str]:
    """Return the positions of images in one array file (``test_batch_000123``); empty if they are separate files."""
    parts = [id_.rpartition("_") for id_ in images.ids]
    stems = {stem for stem, _, _ in parts}
    arrays = len(stems) == 1 and "/" not in next(iter(stems))
    positions = [position for _, _, position in parts]
    return positions if arrays and all(position.isdecimal() for position in positions) else []


def label_conflict(
    evaluation: Evaluation, images: Images, other: Evaluation, other_images: Images, common: Match
) -> str:
    """Return an error message if common images have different labels; empty if all labels agree."""
    labels, other_labels = images.labels[common.rows], other_images.labels[common.others]
    differ = np.flatnonzero(labels != other_labels)
    if not differ.size:
        return ""
    first = differ[0]
    return (
        f"the image {printable(images.ids[common.rows[first]])!r} has the label {labels[first]} in {evaluation.folder} "
        f"and {other_labels[first]} in {other.folder} ({differ.size:,} labels differ in total): give evaluations of "
        "the same photographs"
    )


def missing_images(images: Images, matched: Match) -> str:
    """Return the number and the first ids of the images that have no match, as a clause."""
    if matched.namesakes:
        return matched.difference
    missing = np.setdiff1d(np.arange(len(images.ids)), matched.rows)
    first = list_names([images.ids[row] for row in missing[:4]])
    return f"lacks {len(missing):,} of {len(images.ids):,} images: {first}"
