"""Checks that evaluations can be combined: same model, labels, images and preparation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, groupby, product
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from corruptions.registry import unknown
from pipeline.errors import UserError
from pipeline.evaluate.report.join import Match, label_conflict, match
from pipeline.evaluate.report.scores import Evaluation, Images, Rows, Untransformed
from pipeline.evaluate.report.tested import Tested
from pipeline.evaluate.results.folder import DESCRIPTIVE, DISPLAY_NAME, MAX_NAME_LENGTH, is_display_name
from pipeline.text import printable

T = TypeVar("T", bound=Tested[Any])

Warn = Callable[[str], None]
"""A function that adds a warning to the report."""

NOT_IDENTITY = {"name", "spec", "weights", *DESCRIPTIVE}
"""Fields of ``[model]`` that may differ between evaluations of one model: names, locations of files, descriptions."""

SETTINGS = (
    ("input", "size"),
    ("input", "mean"),
    ("input", "std"),
    ("input", "steps"),
    ("input", "resize"),
    ("run", "precision"),
)
"""Settings that change predictions by more than rounding errors."""

DIGEST_LENGTH = 8
"""Number of digits of a manifest's digest that are appended to ambiguous data set names."""


def identity(evaluation: Tested[Any]) -> dict[str, Any]:
    """Return the fields that identify the evaluated model: digests and the number of classes."""
    return evaluation.table.model.model_dump(mode="json", exclude=NOT_IDENTITY)


def manifests_of_content(evaluations: Iterable[Evaluation]) -> dict[str, str]:
    """Return content -> manifest of the built data sets of evaluations: digests, for :func:`as_built`."""
    tables = (each.table.data_set for each in evaluations)
    built = (table for table in tables if not table.is_rendered)
    return {table.content_sha256: table.manifest_sha256 for table in built if table.content_sha256}


def as_built(evaluation: Evaluation, manifests: Mapping[str, str]) -> Evaluation:
    """Return an evaluation on a rendered data set as one on the built data set with its content, if there is one."""
    data_set = evaluation.table.data_set
    if not data_set.is_rendered or data_set.manifest_sha256 not in manifests:
        return evaluation
    built = data_set.model_copy(update={"manifest_sha256": manifests[data_set.manifest_sha256]})
    return replace(evaluation, table=evaluation.table.model_copy(update={"data_set": built}))


def model_names(tested: Sequence[Tested[Any]], rename: Mapping[str, str], warn: Warn) -> dict[str, str]:
    """Return the display name of each evaluated model, by location of the evaluation.

    The same weights and code under several names are one model, which has the user's name or else the first one. Names
    are kept apart if the models were evaluated with different settings.

    Args:
        tested: All evaluations and searches.
        rename: Recorded name -> name to display.
        warn: Receives a warning for each model with several names.

    Raises:
        UserError: If a name to replace is unknown, or a new one is invalid.
    """
    recorded = {each.location: each.table.model.name for each in tested}
    for old, new in rename.items():
        if old not in recorded.values():
            raise UserError(unknown("model", old, evaluated=list(dict.fromkeys(recorded.values()))))
        if not is_display_name(new):
            raise UserError(f"invalid name {new[:MAX_NAME_LENGTH]!a}: use {DISPLAY_NAME}")
    names = {location: rename.get(name, name) for location, name in recorded.items()}
    models: dict[str, list[Tested[Any]]] = {}
    for each in sorted(tested, key=lambda each: recorded[each.location] not in rename):
        models.setdefault(str(identity(each)), []).append(each)
    for of_model in models.values():
        for one, other in combinations(of_model, 2):
            first, second = names[one.location], names[other.location]
            own, alike = ([each for each in of_model if names[each.location] == name] for name in (first, second))
            if first == second or any(_are_apart(*pair) for pair in product(own, alike)):
                continue
            warn(
                f"{printable(first)!r} and {printable(second)!r} have the same weights and the same code, so they are "
                f"one model, {printable(first)!r}; the option --rename of report sets its name"
            )
            names |= {each.location: first for each in alike}
    return names


def _are_apart(one: Tested[Any], other: Tested[Any]) -> bool:
    """Return whether tests of one model under two names differ on purpose, as in a comparison of precisions."""
    first, second = one.table, other.table
    same_images = type(first) is type(second) and first.data_set.manifest_sha256 == second.data_set.manifest_sha256
    return bool(differing_settings(one, other)) or (same_images and first.run != second.run)


def renamed(tested: T, names: Mapping[str, str]) -> T:
    """Return an evaluation or a search with the display name of its model."""
    model = tested.table.model.model_copy(update={"name": names[tested.location]})
    return replace(tested, table=tested.table.model_copy(update={"model": model}))


def check_model_names(evaluations: Iterable[Tested[Any]]) -> None:
    """Check that no two models share a name.

    Raises:
        UserError: If two different models have the same name.
    """
    first: dict[str, Tested[Any]] = {}
    for evaluation in evaluations:
        other = first.setdefault(evaluation.table.model.name, evaluation)
        if identity(evaluation) != identity(other):
            differ = [field for field, value in identity(evaluation).items() if identity(other).get(field) != value]
            raise UserError(
                f"{other.folder} and {evaluation.folder} are evaluations of different models ({', '.join(differ)} "
                f"differ), but both models are named {evaluation.model!r}: evaluate one of them again with another "
                "--name, or do not rename it"
            )


def check_duplicates(evaluations: Sequence[Evaluation]) -> None:
    """Check that each pair of model and data set occurs once.

    Raises:
        UserError: If a folder is given twice, or a model was evaluated twice on one data set.
    """
    first: dict[Any, Evaluation] = {}
    for evaluation in evaluations:
        data_set = evaluation.table.data_set
        task = evaluation.table.task.digest if evaluation.table.task else ""
        key = (evaluation.table.model.name, data_set.family, data_set.name, data_set.manifest_sha256, task)
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


def differing_settings(first: Tested[Any], second: Tested[Any]) -> str:
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


def display_names(evaluations: Sequence[Evaluation], warn: Warn) -> dict[str, str]:
    """Return the name of each evaluation's data set in the report, by location of the evaluation.

    If one model was evaluated on two data sets of the same name, part of the manifest's digest is appended to each.
    """
    names = {each.location: _name(each) for each in evaluations}
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
        name = printable(_name(same[0]))
        sets = [images[each.location] for each in same]
        known = all(each.digests.all() for each in sets)
        ids = [frozenset(zip(each.ids, each.digests.tolist() if known else each.ids, strict=True)) for each in sets]
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
    """The clean errors of the images of a data set at ``rows``, those that have a clean version.

    Attributes:
        errors: Whether the clean version of each is misclassified, (len(rows),).
        rows: Rows of these images.
        encoded: How the clean images are stored.
    """

    errors: NDArray[np.bool_]
    rows: Rows
    encoded: str

    @property
    def value(self) -> float:
        """The clean error."""
        return float(self.errors.mean())


def check_clean(candidates: Iterable[Untransformed], chosen: Collection[str]) -> None:
    """Check that no two evaluations on clean images can both give the clean error of the same images.

    Args:
        candidates: Evaluations on clean images.
        chosen: Locations of the evaluations to use if several are possible.

    Raises:
        UserError: If two evaluations of one model contain the same images with the same labels and the same profile,
            and not exactly one of them is chosen.
    """
    for one, other in combinations(candidates, 2):
        first, second = one.evaluation, other.evaluation
        if first.table.model.name != second.table.model.name or unfit(first, second):
            continue
        common = match(one.images, other.images)
        if len(common.rows) and not label_conflict(first, one.images, second, other.images, common):
            _only(f"versions of the same {len(common.rows):,} images by {first.model!r}", [one, other], chosen)


def clean_error(
    evaluation: Evaluation,
    images: Images,
    candidates: Sequence[Untransformed],
    chosen: Collection[str],
    warn: Warn,
) -> CleanError | None:
    """Return the error of a model on the clean versions of some images.

    Args:
        evaluation: Evaluation on transformed images.
        images: Images of the evaluation.
        candidates: Evaluations of the same model on clean images.
        chosen: Locations of the evaluations to use if several fit.
        warn: Receives a warning if images are missing, or if no candidate fits.

    Returns:
        The error and the images that it covers; None if no candidate has clean versions of the images.

    Raises:
        UserError: If several candidates fit, or if images with the same id have different labels.
    """
    fits: dict[str, tuple[Untransformed, Match]] = {}
    reasons: list[str] = []
    conflicts: list[str] = []
    for clean in candidates:
        common = match(images, clean.images)
        if not len(common.rows):
            reason = common.difference or "has no images in common with this evaluation"
            reasons.append(f"{clean.evaluation.folder} {reason}")
        elif reason := unfit(evaluation, clean.evaluation):
            reasons.append(f"{clean.evaluation.folder} {reason}")
        elif conflict := label_conflict(evaluation, images, clean.evaluation, clean.images, common):
            conflicts.append(conflict)
        else:
            fits[clean.evaluation.location] = (clean, common)
    if not fits:
        if conflicts:
            raise UserError(conflicts[0])
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


def unfit(evaluation: Evaluation, clean: Evaluation) -> str:
    """Return why another evaluation of a model cannot be compared image by image; empty if it can."""
    profile, clean_profile = evaluation.table.data_set.profile, clean.table.data_set.profile
    if evaluation.groups_digest != clean.groups_digest:
        return "has other labels: the groups of classes of its task differ"
    if profile and clean_profile and profile != clean_profile:
        return f"has the profile {clean_profile!r} instead of {profile!r}"
    return ""


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


def _name(evaluation: Evaluation) -> str:
    """Return the name of an evaluation's data set: of its task, except for images that other data sets have as well."""
    name, task = evaluation.table.data_set.name, evaluation.table.task
    if task is None or task.name == name:
        return name
    return task.name if evaluation.role in {"shift", "anomalous"} else f"{name} ({task.name})"


def _by_data_set_name(evaluations: Iterable[Evaluation]) -> Iterator[list[Evaluation]]:
    """Yield groups of two or more evaluations whose data sets have the same family, role and name.

    Adversarial images are left out: each attacked model has images of its own, in data sets of one name.
    """

    def key(evaluation: Evaluation) -> tuple[str, str, str]:
        return evaluation.table.data_set.family, evaluation.role or "", _name(evaluation)

    compared = [each for each in evaluations if each.table.attack is None]
    for _, group in groupby(sorted(compared, key=key), key=key):
        if len(same := list(group)) > 1:
            yield same
