"""Checks that evaluations can be combined: names of models and data sets, duplicates, images of one name."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, combinations, groupby, product
from typing import TypeVar

from corruptions.registry import unknown
from pipeline.errors import UserError
from pipeline.evaluate.report.join import Images, Warn, differing_settings
from pipeline.evaluate.report.load import Evaluation, Tested
from pipeline.evaluate.results.folder import DESCRIPTIVE
from pipeline.settings import NAME
from pipeline.tasks.library import load, shipped
from pipeline.text import printable

T = TypeVar("T", bound=Tested)

NOT_IDENTITY = {"name", "spec", "weights", *DESCRIPTIVE}
"""Fields of ``[model]`` that may differ between evaluations of one model: names, locations of files, descriptions."""

DIGEST_LENGTH = 8  # number of digits of a manifest's digest that are appended to ambiguous data set names


def identity(evaluation: Tested) -> Mapping[str, object]:
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


def model_names(tested: Sequence[Tested], rename: Mapping[str, str], warn: Warn) -> dict[str, str]:
    """Return the display name of each evaluated model, by location of the evaluation.

    The same weights and code under several names are one model, which has the user's name or else the first one. Names
    are kept apart if the models were evaluated with different settings. ``rename`` is recorded name -> name to display.

    Raises:
        UserError: If a name to replace is unknown, or a new one is invalid.
    """
    recorded = {each.location: each.table.model.name for each in tested}
    for old, new in rename.items():
        if old not in recorded.values():
            raise UserError(unknown("model", old, evaluated=list(dict.fromkeys(recorded.values()))))
        NAME.checked(new, "name")
    names = {location: rename.get(name, name) for location, name in recorded.items()}
    models: dict[str, list[Tested]] = {}
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


def _are_apart(one: Tested, other: Tested) -> bool:
    """Return whether tests of one model under two names differ on purpose, as in a comparison of precisions."""
    first, second = one.table, other.table
    same_images = type(first) is type(second) and first.data_set.manifest_sha256 == second.data_set.manifest_sha256
    return bool(differing_settings(one, other)) or (same_images and first.run != second.run)


def renamed(tested: T, names: Mapping[str, str], temporary: Collection[str] = ()) -> T:
    """Return an evaluation or a search with the display name of its model, and without the name of a temporary folder.

    Messages then call the folder by what is in it.
    """
    model = tested.table.model.model_copy(update={"name": names[tested.location]})
    tested = replace(tested, table=tested.table.model_copy(update={"model": model}))
    inside = f"{tested.model} on {printable(tested.table.data_set.name)}"
    return replace(tested, folder=inside) if tested.location in temporary else tested


def check_model_names(evaluations: Iterable[Tested]) -> None:
    """Check that no two models share a name.

    Raises:
        UserError: If two different models have the same name.
    """
    first: dict[str, Tested] = {}
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
    first: dict[tuple[str, ...], Evaluation] = {}
    for evaluation in evaluations:
        data_set = evaluation.table.data_set
        task = evaluation.table.task.digest if evaluation.table.task else ""
        order = evaluation.table.stream.order_sha256 if evaluation.table.stream else ""
        key = (evaluation.table.model.name, data_set.family, data_set.name, data_set.manifest_sha256, task, order)
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


def display_names(evaluations: Sequence[Evaluation], warn: Warn) -> dict[str, str]:
    """Return the name of each evaluation's data set in the report, by location of the evaluation.

    If one model was evaluated on two data sets of the same name, part of the manifest's digest is appended to each.
    """
    names = {each.location: _name(each) for each in evaluations}
    for same in _by_data_set_name(evaluations):
        sets = {(each.table.model.name, each.table.data_set.manifest_sha256) for each in same}
        if len({model for model, _ in sets}) < len(sets):
            for each in same:
                names[each.location] += f" ({printable(each.table.data_set.manifest_sha256[:DIGEST_LENGTH])})"
            shown = "; ".join(f"{each.folder}: {printable(names[each.location])}" for each in same)
            warn(f"different data sets have the same name, so the digest of the manifest is appended: {shown}")
    return names


def warn_of_different_images(evaluations: Sequence[Evaluation], images: Mapping[str, Images], warn: Warn) -> None:
    """Warn if models are shown side by side although their data sets only have the same name.

    ``images`` are those of each evaluation, by its location.
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


def check_baseline(evaluations: Sequence[Evaluation]) -> None:
    """Raise UserError if evaluations of the baseline are of several models, or two are on the same data set."""
    names = sorted({each.model for each in evaluations})
    if len(names) > 1:
        raise UserError(
            f"the baseline evaluations are of {len(names)} models ({', '.join(names)}): give evaluations of one model"
        )
    check_duplicates(evaluations)


def mistaken_for(evaluation: Evaluation, labels: Iterable[int]) -> tuple[str, ...]:
    """Return the shipped tasks whose images these may be: those with the same classes, if the images have no task."""
    table = evaluation.table
    if table.task is not None:
        return ()
    return _tasks_by_classes().get((table.model.classes, frozenset(labels)), ())


@cache
def _tasks_by_classes() -> Mapping[tuple[int, frozenset[int]], tuple[str, ...]]:
    """Return the tasks that have part of the classes, other than clean ones, by number of outputs and classes."""
    tasks: dict[tuple[int, frozenset[int]], tuple[str, ...]] = {}
    for loaded in map(load, shipped()):
        task = loaded.task
        classes = frozenset(chain.from_iterable(task.groups)) or frozenset(loaded.folders.values())
        if task.role != "clean" and len(classes) < task.outputs:
            key = (task.outputs, classes)
            tasks[key] = (*tasks.get(key, ()), task.name)
    return tasks
