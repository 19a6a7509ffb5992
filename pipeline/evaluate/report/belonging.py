"""Which evaluations belong together: of one model, over the same photographs, prepared alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from pipeline.errors import UserError
from pipeline.evaluate.report.scores import Clean, Evaluation, Images, Rows, named
from pipeline.text import printable

Warn = Callable[[str], None]
"""Takes what a reader of the report must know."""

NOT_IDENTITY = {"name", "spec", "weights"}
"""Fields of ``[model]`` that do not tell one model from another: what it is called, and where its files were."""

SETTINGS = (("input", "size"), ("input", "mean"), ("input", "std"), ("run", "precision"))
"""Settings under which a model's predictions are other ones, not only in their last digits."""

DIGEST_LETTERS = 8
"""Letters of a manifest's digest that tell two data sets of one name apart."""


def identity(each: Evaluation) -> dict[str, Any]:
    """Return what tells a model from another of the same name: digests and classes."""
    return each.table.model.model_dump(mode="json", exclude=NOT_IDENTITY)


def check_models(evaluations: Iterable[Evaluation]) -> None:
    """Raises UserError where two models have one name: figures of one would be taken for the other's."""
    first: dict[str, Evaluation] = {}
    for each in evaluations:
        other = first.setdefault(each.table.model.name, each)
        if identity(each) != identity(other):
            differ = [field for field, value in identity(each).items() if identity(other).get(field) != value]
            raise UserError(
                f"{other.folder} and {each.folder} are evaluations of different models ({', '.join(differ)} differ), "
                f"both called {each.model!r}: evaluate one of them with another --name"
            )


def check_once(evaluations: Sequence[Evaluation]) -> None:
    """Raises UserError where a folder is given twice, or a data set was evaluated twice by one model."""
    first: dict[Any, Evaluation] = {}
    for each in evaluations:
        about = each.table.data_set
        other = first.setdefault((each.table.model.name, about.family, about.name, about.manifest_sha256), each)
        if other is each:
            continue
        if each.place == other.place:
            raise UserError(f"the evaluation {each.folder} is given twice: give it once")
        differ = settings_that_differ(each, other)
        how = f" with other settings ({differ})" if differ else ""
        raise UserError(
            f"{other.folder} and {each.folder} are evaluations of the same data set by the same model, "
            f"{each.model!r}{how}: give one of them, or evaluate one with another --name"
        )


def settings_that_differ(first: Evaluation, second: Evaluation) -> str:
    """Return the settings in which two evaluations differ, with both values; empty where there is none."""
    pairs = (
        (f"{table}.{field}", getattr(getattr(first.table, table), field), getattr(getattr(second.table, table), field))
        for table, field in SETTINGS
    )
    return ", ".join(f"{name} {one} and {other}" for name, one, other in pairs if one != other)


def shown_names(evaluations: Sequence[Evaluation], warn: Warn) -> dict[str, str]:
    """Return what the data set of each evaluation is called, by the evaluation's place.

    Where one model was evaluated on two data sets of one name, digests of their manifests tell them apart.
    """
    found = {each.place: each.table.data_set.name for each in evaluations}
    for same in _by_data_set_name(evaluations):
        models = [each.table.model.name for each in same]
        if len(set(models)) < len(models):
            for each in same:
                found[each.place] += f" ({printable(each.table.data_set.manifest_sha256[:DIGEST_LETTERS])})"
            shown = "; ".join(f"{each.folder}: {printable(found[each.place])}" for each in same)
            warn(f"different data sets have one name, so digests of their manifests are added: {shown}")
    return found


def compare_models(evaluations: Sequence[Evaluation], images: Mapping[str, Images], warn: Warn) -> None:
    """Warn where models stand side by side on data sets of one name that are not the same."""
    for same in _by_data_set_name(evaluations):
        if len({each.table.data_set.manifest_sha256 for each in same}) < 2:
            continue
        if len({each.table.model.name for each in same}) < len(same):
            continue  # shown apart
        name = printable(same[0].table.data_set.name)
        whole = [frozenset(images[each.place].ids) for each in same]
        counts = "; ".join(f"{each.model} {len(ids):,} ({each.folder})" for each, ids in zip(same, whole, strict=True))
        if len(set(whole)) > 1:
            common = len(frozenset.intersection(*whole))
            warn(f"the models were not evaluated on the same images of {name}: {counts}; {common:,} are common to all")
        else:
            warn(
                f"the models were evaluated on different builds of {name}: the images have the same names, but the "
                f"manifests differ: {counts}"
            )


@dataclass(frozen=True)
class CleanError:
    """The clean error over those images of a data set that are at ``rows``."""

    value: float
    rows: Rows


def clean_error(each: Evaluation, images: Images, candidates: Sequence[Clean], warn: Warn) -> CleanError | None:
    """Return the error of the same model on clean versions of these images, as far as there are any.

    Raises UserError where two evaluations serve equally well, or labels of the same image differ.
    """
    fits: list[tuple[Clean, Match]] = []
    reasons: list[str] = []
    conflicts: list[str] = []
    for clean in candidates:
        found = match(images, clean.images)
        profiles = [other.table.data_set.profile for other in (each, clean.evaluation)]
        if not len(found.rows):
            reasons.append(f"{clean.evaluation.folder} is of other images")
        elif all(profiles) and profiles[0] != profiles[1]:
            reasons.append(f"{clean.evaluation.folder} has the profile {profiles[1]!r}, not {profiles[0]!r}")
        elif conflict := label_conflict(each, images, clean.evaluation, clean.images, found):
            conflicts.append(conflict)
        else:
            fits.append((clean, found))
    if not fits:
        if conflicts:
            raise UserError(conflicts[0])
        if reasons:
            shown = "; ".join(map(printable, reasons))
            warn(f"{each.folder}: no clean error, so nothing is relative to it: {shown}")
        return None
    most = max(len(found.rows) for _, found in fits)
    best = [(clean, found) for clean, found in fits if len(found.rows) == most]
    least = min(len(clean.images.ids) for clean, _ in best)
    best = [(clean, found) for clean, found in best if len(clean.images.ids) == least]
    if len(best) > 1:
        folders = " and ".join(clean.evaluation.folder for clean, _ in best)
        raise UserError(f"{each.folder}: {folders} both have its clean images: give one of them")
    clean, found = best[0]
    _warn_of_clean(each, images, clean, found, warn)
    return CleanError(float(clean.errors[found.others].mean()), found.rows)


def _warn_of_clean(each: Evaluation, images: Images, clean: Clean, found: Match, warn: Warn) -> None:
    here, there, common = len(images.ids), len(clean.images.ids), len(found.rows)
    folder = clean.evaluation.folder
    if common < here:
        warn(
            f"{each.folder}: {folder} has {common:,} of its {here:,} images; what is relative to the clean error is "
            "over these"
        )
    elif common < there:
        warn(f"{each.folder}: the clean error is over its {here:,} images, of the {there:,} of {folder}")
    if found.by_position:
        warn(f"{each.folder}: its images and those of {folder} are matched by their positions in the arrays")
    if differ := settings_that_differ(each, clean.evaluation):
        warn(f"{each.folder} and its clean images, {folder}, were evaluated with different settings: {differ}")
    if each.table.data_set.profile != clean.evaluation.table.data_set.profile:
        warn(f"{each.folder} and its clean images, {folder}, may be prepared differently: one has no profile")


@dataclass(frozen=True)
class Match:
    """The images that two sets have in common: ``rows`` in the first, in its order, are ``others`` in the second."""

    rows: Rows
    others: Rows
    by_position: bool = False


def match(first: Images, second: Images) -> Match:
    """Match images by source id; of arrays, whose ids are a file's name and a position, also by position and label."""
    if first.ids == second.ids:
        return Match(np.arange(len(first.ids)), np.arange(len(first.ids)))
    found = _match(first.ids, second.places)
    if len(found.rows):
        return found
    here, there = _positions(first), _positions(second)
    if here and there:
        found = _match(here, {place: row for row, place in enumerate(there)})
        labels = first.labels[found.rows]
        if len(set(labels.tolist())) > 1 and np.array_equal(labels, second.labels[found.others]):
            return Match(found.rows, found.others, by_position=True)
    return Match(np.empty(0, np.int64), np.empty(0, np.int64))


def _match(ids: Sequence[Any], places: Mapping[Any, int]) -> Match:
    pairs = [(row, places[id_]) for row, id_ in enumerate(ids) if id_ in places]
    rows, others = np.array(pairs, np.int64).reshape(-1, 2).T
    return Match(rows, others)


def _positions(images: Images) -> list[str]:
    """Return the positions of images in one array file (``test_batch_000123``), or nothing where they are files."""
    parts = [id_.rpartition("_") for id_ in images.ids]
    stems = {stem for stem, _, _ in parts}
    arrays = len(stems) == 1 and "/" not in next(iter(stems))
    return [place for _, _, place in parts] if arrays and all(place.isdecimal() for _, _, place in parts) else []


def label_conflict(each: Evaluation, images: Images, other: Evaluation, others: Images, found: Match) -> str:
    """Return what is wrong where images of the same name have different labels; empty where all agree."""
    ours, theirs = images.labels[found.rows], others.labels[found.others]
    differ = np.flatnonzero(ours != theirs)
    if not differ.size:
        return ""
    first = differ[0]
    return (
        f"the image {printable(images.ids[found.rows[first]])!r} has the label {ours[first]} in {each.folder} and "
        f"{theirs[first]} in {other.folder}, and {differ.size:,} differ in all: they are not of the same photographs"
    )


def lacking(images: Images, found: Match) -> str:
    """Return which images have no match, in words."""
    missing = np.setdiff1d(np.arange(len(images.ids)), found.rows)
    return f"lacks {len(missing):,} of {len(images.ids):,} images: {named([images.ids[row] for row in missing[:4]])}"


def _by_data_set_name(evaluations: Iterable[Evaluation]) -> Iterator[list[Evaluation]]:
    """Evaluations of data sets of one family and name, where there are several."""

    def key(each: Evaluation) -> tuple[str, str]:
        return each.table.data_set.family, each.table.data_set.name

    for _, group in groupby(sorted(evaluations, key=key), key=key):
        if len(same := list(group)) > 1:
            yield same
