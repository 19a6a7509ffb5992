"""Checks that evaluations can be combined: same model, same images, same preparation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from pipeline.errors import UserError
from pipeline.evaluate.report.scores import Clean, Evaluation, Images, Rows, list_names
from pipeline.text import printable

Warn = Callable[[str], None]
"""A function that adds a warning to the report."""

NOT_IDENTITY = {"name", "spec", "weights"}
"""Fields of ``[model]`` that may differ between evaluations of one model: its names and its files' locations."""

SETTINGS = (("input", "size"), ("input", "mean"), ("input", "std"), ("run", "precision"))
"""Settings that change predictions by more than rounding errors."""

DIGEST_LENGTH = 8
"""Number of digits of a manifest's digest that are appended to ambiguous data set names."""


def identity(evaluation: Evaluation) -> dict[str, Any]:
    """Return the fields that identify the evaluated model: digests and the number of classes."""
    return evaluation.table.model.model_dump(mode="json", exclude=NOT_IDENTITY)


def check_model_names(evaluations: Iterable[Evaluation]) -> None:
    """Check that no two models share a name.

    Raises:
        UserError: If two different models have the same name.
    """
    first: dict[str, Evaluation] = {}
    for evaluation in evaluations:
        other = first.setdefault(evaluation.table.model.name, evaluation)
        if identity(evaluation) != identity(other):
            differ = [field for field, value in identity(evaluation).items() if identity(other).get(field) != value]
            raise UserError(
                f"{other.folder} and {evaluation.folder} are evaluations of different models ({', '.join(differ)} "
                f"differ), but both models are named {evaluation.model!r}: evaluate one of them again with another "
                "--name"
            )


def check_duplicates(evaluations: Sequence[Evaluation]) -> None:
    """Check that each pair of model and data set occurs once.

    Raises:
        UserError: If a folder is given twice, or a model was evaluated twice on one data set.
    """
    first: dict[Any, Evaluation] = {}
    for evaluation in evaluations:
        data_set = evaluation.table.data_set
        key = (evaluation.table.model.name, data_set.family, data_set.name, data_set.manifest_sha256)
        other = first.setdefault(key, evaluation)
        if other is evaluation:
            continue
        if evaluation.location == other.location:
            raise UserError(f"the evaluation {evaluation.folder} is given twice: give it once")
        differ = differing_settings(evaluation, other)
        settings = f" with different settings ({differ})" if differ else ""
        raise UserError(
            f"{other.folder} and {evaluation.folder} evaluate the same data set with the same model, "
            f"{evaluation.model!r}{settings}: give one of them, or evaluate one again with another --name"
        )


def differing_settings(first: Evaluation, second: Evaluation) -> str:
    """Return the settings that differ between two evaluations, with both values; empty if all are equal."""
    pairs = (
        (f"{table}.{field}", getattr(getattr(first.table, table), field), getattr(getattr(second.table, table), field))
        for table, field in SETTINGS
    )
    return ", ".join(f"{name} {one} and {other}" for name, one, other in pairs if one != other)


def display_names(evaluations: Sequence[Evaluation], warn: Warn) -> dict[str, str]:
    """Return the name of each evaluation's data set in the report, by location of the evaluation.

    If one model was evaluated on two data sets of the same name, part of the manifest's digest is appended to each.
    """
    names = {each.location: each.table.data_set.name for each in evaluations}
    for same in _by_data_set_name(evaluations):
        models = [each.table.model.name for each in same]
        if len(set(models)) < len(models):
            for each in same:
                names[each.location] += f" ({printable(each.table.data_set.manifest_sha256[:DIGEST_LENGTH])})"
            shown = "; ".join(f"{each.folder}: {printable(names[each.location])}" for each in same)
            warn(f"different data sets have the same name, so the digest of the manifest is appended: {shown}")
    return names


def warn_of_different_images(evaluations: Sequence[Evaluation], images: Mapping[str, Images], warn: Warn) -> None:
    """Warn if models are shown side by side although their data sets only have the same name.

    Args:
        evaluations: All evaluations of the report.
        images: Images of each evaluation, by its location.
        warn: Receives the warnings.
    """
    for same in _by_data_set_name(evaluations):
        if len({each.table.data_set.manifest_sha256 for each in same}) < 2:
            continue
        if len({each.table.model.name for each in same}) < len(same):
            continue  # shown as separate data sets
        name = printable(same[0].table.data_set.name)
        ids = [frozenset(images[each.location].ids) for each in same]
        counts = "; ".join(f"{each.model} {len(own):,} ({each.folder})" for each, own in zip(same, ids, strict=True))
        if len(set(ids)) > 1:
            common = len(frozenset.intersection(*ids))
            warn(
                f"the models were not evaluated on the same images of {name}, so their results are not comparable: "
                f"{counts}; {common:,} images are in all of them"
            )
        else:
            warn(
                f"the models were evaluated on different builds of {name}: the images have the same names, but the "
                f"manifests differ: {counts}"
            )


@dataclass(frozen=True)
class CleanError:
    """The clean error over the images of a data set at ``rows``, those that have a clean version."""

    value: float
    rows: Rows


def clean_error(evaluation: Evaluation, images: Images, candidates: Sequence[Clean], warn: Warn) -> CleanError | None:
    """Return the error of a model on the clean versions of some images.

    Args:
        evaluation: Evaluation on transformed images.
        images: Images of the evaluation.
        candidates: Evaluations of the same model on clean images. The one with the most common images is used.
        warn: Receives a warning if images are missing, or if no candidate fits.

    Returns:
        The error and the images that it covers; None if no candidate has clean versions of the images.

    Raises:
        UserError: If two candidates fit equally well, or if images with the same id have different labels.
    """
    fits: list[tuple[Clean, Match]] = []
    reasons: list[str] = []
    conflicts: list[str] = []
    for clean in candidates:
        common = match(images, clean.images)
        profiles = [other.table.data_set.profile for other in (evaluation, clean.evaluation)]
        if not len(common.rows):
            reasons.append(f"{clean.evaluation.folder} has no images in common with this evaluation")
        elif all(profiles) and profiles[0] != profiles[1]:
            reasons.append(f"{clean.evaluation.folder} has the profile {profiles[1]!r} instead of {profiles[0]!r}")
        elif conflict := label_conflict(evaluation, images, clean.evaluation, clean.images, common):
            conflicts.append(conflict)
        else:
            fits.append((clean, common))
    if not fits:
        if conflicts:
            raise UserError(conflicts[0])
        if reasons:
            shown = "; ".join(map(printable, reasons))
            warn(f"{evaluation.folder}: no clean error, so metrics that need it are omitted: {shown}")
        return None
    most = max(len(common.rows) for _, common in fits)
    best = [(clean, common) for clean, common in fits if len(common.rows) == most]
    least = min(len(clean.images.ids) for clean, _ in best)
    best = [(clean, common) for clean, common in best if len(clean.images.ids) == least]
    if len(best) > 1:
        folders = " and ".join(clean.evaluation.folder for clean, _ in best)
        raise UserError(f"{evaluation.folder}: {folders} both contain its clean images: give one of them")
    clean, common = best[0]
    _warn_of_clean(evaluation, images, clean, common, warn)
    return CleanError(float(clean.top1_errors[common.others].mean()), common.rows)


def _warn_of_clean(evaluation: Evaluation, images: Images, clean: Clean, matched: Match, warn: Warn) -> None:
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
    if matched.by_position:
        warn(f"{folder}: its images and those of {clean_folder} are matched by their positions in the array files")
    if differ := differing_settings(evaluation, clean.evaluation):
        warn(f"{folder} and its clean images, {clean_folder}, were evaluated with different settings: {differ}")
    if evaluation.table.data_set.profile != clean.evaluation.table.data_set.profile:
        warn(f"{folder} and its clean images, {clean_folder}, may be prepared differently: one has no profile")


@dataclass(frozen=True)
class Match:
    """The common images of two sets.

    Attributes:
        rows: Rows in the first set.
        others: Rows of the same images in the second set.
        by_position: Whether images are matched by their position in an array file instead of by id.
    """

    rows: Rows
    others: Rows
    by_position: bool = False


def match(first: Images, second: Images) -> Match:
    """Match images by source id.

    Images of array files have ids that consist of the file name and a position. If no id matches, these are matched by
    position, provided that all labels agree.
    """
    if first.ids == second.ids:
        return Match(np.arange(len(first.ids)), np.arange(len(first.ids)))
    matched = _match(first.ids, second.row_by_id)
    if len(matched.rows):
        return matched
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
    """Return the number and the first ids of the images that have no match."""
    missing = np.setdiff1d(np.arange(len(images.ids)), matched.rows)
    first = list_names([images.ids[row] for row in missing[:4]])
    return f"lacks {len(missing):,} of {len(images.ids):,} images: {first}"


def _by_data_set_name(evaluations: Iterable[Evaluation]) -> Iterator[list[Evaluation]]:
    """Yield groups of two or more evaluations whose data sets have the same family and name."""

    def key(evaluation: Evaluation) -> tuple[str, str]:
        return evaluation.table.data_set.family, evaluation.table.data_set.name

    for _, group in groupby(sorted(evaluations, key=key), key=key):
        if len(same := list(group)) > 1:
            yield same
