"""Images of several evaluations, joined by source id: clean versions, clean counterparts, and those of a baseline."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Generic, TypeVar

import numpy as np

from pipeline.errors import UserError
from pipeline.evaluate.metrics.arrays import Floats
from pipeline.evaluate.report.load import AnyTested, Evaluation, Flags
from pipeline.evaluate.report.scores import Images, Key, Rows, Scores, Untransformed, list_names
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


# Clean images


@dataclass(frozen=True)
class CleanError:
    """The clean errors of the images of a data set at ``rows``, those that have a clean version.

    Attributes:
        errors: Whether the clean version of each is misclassified, (len(rows),).
        rows: Rows of these images.
        encoded: How the clean images are stored.
    """

    errors: Flags
    rows: Rows
    encoded: str

    @property
    def value(self) -> float:
        """The clean error."""
        return float(self.errors.mean())


def check_clean(candidates: Iterable[Untransformed], chosen: Collection[str]) -> None:
    """Check that no two evaluations on clean images can both give the clean error of the same images.

    Raises:
        UserError: If two evaluations of one model contain the same images with the same labels and the same profile,
            and not exactly one of them is ``chosen`` by its location.
    """
    for one, other in combinations(candidates, 2):
        first, second = one.evaluation, other.evaluation
        if first.table.model.name == second.table.model.name:
            common = join(first, one.images, second, other.images)
            if isinstance(common, Match):
                _only(f"versions of the same {len(common.rows):,} images by {first.model!r}", [one, other], chosen)


def clean_error(
    evaluation: Evaluation,
    images: Images,
    candidates: Sequence[Untransformed],
    chosen: Collection[str],
    warn: Warn,
) -> CleanError | None:
    """Return the error of a model on the clean versions of some images; None if no candidate has them.

    Args:
        evaluation: Evaluation on transformed images.
        images: Images of the evaluation.
        candidates: Evaluations of the same model on clean images.
        chosen: Locations of the evaluations to use if several fit.
        warn: Receives a warning if images are missing, or if no candidate fits.

    Raises:
        UserError: If several candidates fit, or if images with the same id have different labels.
    """
    joined = [(clean, join(evaluation, images, clean.evaluation, clean.images)) for clean in candidates]
    fits = {clean.evaluation.location: (clean, common) for clean, common in joined if isinstance(common, Match)}
    if not fits:
        reasons = [reason for _, reason in joined if isinstance(reason, str)]
        if conflict := next((each for each in reasons if isinstance(each, Conflict)), None):
            raise UserError(conflict)
        if reasons:
            shown = "; ".join(map(printable, reasons))
            warn(f"{evaluation.folder}: no clean error, so metrics that need it are omitted: {shown}")
        return None
    only = _only(f"versions of the images of {evaluation.folder}", [clean for clean, _ in fits.values()], chosen)
    clean, common = fits[only.evaluation.location]
    _warn_of_clean(evaluation, images, clean, common, warn)
    return CleanError(clean.top1_errors[common.others], common.rows, clean.evaluation.encoded)


def clean_counterpart(
    evaluation: Evaluation, candidates: Iterable[Untransformed], chosen: Collection[str], warn: Warn
) -> Untransformed | None:
    """Return the evaluation on clean images that natural images are compared with, which are other images.

    Args:
        evaluation: Evaluation on natural images.
        candidates: Evaluations of the same model on clean images.
        chosen: Locations of the evaluations to use if several fit.
        warn: Receives a warning if the settings differ.

    Returns:
        The evaluation; None if no candidate has the same labels and profile.

    Raises:
        UserError: If several candidates fit.
    """
    fits = [clean for clean in candidates if not unfit(evaluation, clean.evaluation)]
    if not fits:
        return None
    clean = _only(f"images to compare {evaluation.folder} with", fits, chosen)
    if differ := differing_settings(evaluation, clean.evaluation):
        warn(
            f"{evaluation.folder} and the clean images, {clean.evaluation.folder}, were evaluated with different "
            f"settings: {differ}"
        )
    return clean


def _only(what: str, fits: Sequence[Untransformed], chosen: Collection[str]) -> Untransformed:
    """Return the only evaluation that fits, or the chosen one of several. Raise UserError if several are left."""
    left = [clean for clean in fits if clean.evaluation.location in chosen] or fits
    if len(left) > 1:
        folders = " and ".join(clean.evaluation.folder for clean in left)
        which = "both" if len(left) == 2 else "all"
        raise UserError(f"{folders} {which} have clean {what}: give one of them, or choose one with --clean FOLDER")
    return left[0]


def _warn_of_clean(evaluation: Evaluation, images: Images, clean: Untransformed, matched: Match, warn: Warn) -> None:
    """Warn of differences between transformed images and the clean images that they are compared with."""
    total, clean_total, common = len(images.ids), len(clean.images.ids), len(matched.rows)
    folder, clean_folder = evaluation.folder, clean.evaluation.folder
    if common < total:
        warn(
            f"{clean_folder} contains only {common:,} of the {total:,} images of {folder}: metrics that need the clean "
            "error use only these"
        )
    elif common < clean_total:
        warn(f"{folder}: the clean error uses its {total:,} images only; {clean_folder} has {clean_total:,}")
    if matched.namesakes:
        warn(f"{folder}: {clean_folder} {matched.difference}")
    if matched.by_position:
        warn(f"{folder}: its images and those of {clean_folder} are matched by their positions in the array files")
    if differ := differing_settings(evaluation, clean.evaluation):
        warn(f"{folder} and its clean images, {clean_folder}, were evaluated with different settings: {differ}")
    if evaluation.table.data_set.profile != clean.evaluation.table.data_set.profile:
        warn(f"{folder} and its clean images, {clean_folder}, may be prepared differently: one has no profile")


# Baseline


@dataclass(frozen=True)
class BaselineValues(Generic[Key]):
    """The values of an evaluated baseline for the images of another evaluation.

    Attributes:
        evaluation: An evaluation of the baseline.
        values: Values of each column that it has, (images, ...).
    """

    evaluation: Evaluation
    values: Mapping[Key, Floats]


def match_baseline(
    name: str,
    evaluation: Evaluation,
    scores: Scores[Key],
    candidates: Sequence[tuple[Evaluation, Scores[Key]]],
    benchmark: Callable[[Key], bool],
    warn: Warn,
) -> BaselineValues[Key]:
    """Return the baseline's values for the images of an evaluation, for each column that it has.

    Args:
        name: Name of the baseline.
        evaluation: Evaluation to normalise.
        scores: Its scores.
        candidates: Evaluations of the baseline on the same family and labels, with their scores.
        benchmark: Returns whether means are over a column. If they are over none, they are over all.
        warn: Receives warnings.

    Raises:
        UserError: If no candidate has the same profile, images and labels, if two have the same column, or if a column
            is missing that a mean needs.
    """
    columns: dict[Key, Floats] = {}
    owners: dict[Key, Evaluation] = {}
    reasons: list[str] = []
    for other, other_scores in candidates:
        common = match(scores.images, other_scores.images)
        if reason := _mismatch(evaluation, scores, other, other_scores, common):
            reasons.append(reason)
            continue
        if len(other_scores.images.ids) > len(common.rows):
            warn(
                f"{evaluation.folder}: the baseline uses its {len(common.rows):,} images only; {other.folder} has "
                f"{len(other_scores.images.ids):,}"
            )
        for column, key in enumerate(other_scores.keys):
            if key in columns and key in scores.keys:
                raise UserError(
                    f"{evaluation.folder}: {owners[key].folder} and {other.folder} both contain the baseline of {key}: "
                    "give one of them"
                )
            columns[key], owners[key] = other_scores.values[common.others, column], other
    if not columns:
        raise UserError(
            f"the baseline {name!r} does not match {evaluation.folder}: {'; '.join(reasons)}; evaluate the baseline "
            "on the same data set"
        )
    missing = [key for key in scores.keys if key not in columns]
    needed = [key for key in missing if benchmark(key)] if any(map(benchmark, scores.keys)) else missing
    what = f"the baseline {name!r} lacks {list_names([str(key) for key in needed or missing])}"
    if needed:
        raise UserError(
            f"{evaluation.folder}: {what}, so means cannot be normalised: evaluate the baseline on the same data set"
        )
    if missing:
        warn(f"{evaluation.folder}: {what}, so these are not normalised")
    found = {key: columns[key] for key in scores.keys if key in columns}
    return BaselineValues(owners[next(iter(found))], found)


def _mismatch(
    evaluation: Evaluation, scores: Scores[Key], other: Evaluation, other_scores: Scores[Key], common: Match
) -> str:
    """Return why the baseline cannot be used: another profile, missing images or other labels; empty if it can."""
    profile, other_profile = evaluation.table.data_set.profile, other.table.data_set.profile
    if profile != other_profile:
        return f"{other.folder} has the profile {other_profile!r} instead of {profile!r}"
    if len(common.rows) < len(scores.images.ids):
        return f"{other.folder} {common.missing(scores.images)}"
    return label_conflict(evaluation, scores.images, other, other_scores.images, common) or ""
