"""The public function that renders, evaluates and reports in one call."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.builder.settings import RecipeSettings, RenderSettings
from pipeline.datasets.base import DataSet
from pipeline.errors import UnfinishedError, UserError
from pipeline.evaluate.predict.request import EvaluationRequest
from pipeline.recipes.library import clean_companion
from pipeline.recipes.schema import Recipe
from pipeline.transforms import clean
from robustshards._calls import Location, described_by, optional_location
from robustshards._progress import progress_bar
from robustshards.evaluating import check_parameters, evaluate
from robustshards.rendering import render
from robustshards.reporting import Evaluation, Report, report

if TYPE_CHECKING:
    import torch

    AnyModel = Location | torch.nn.Module


@dataclass(frozen=True, eq=False, repr=False)
class Benchmark:
    """The evaluations of one or more models on several data sets, and the report on them.

    A notebook shows the report with its plots, and ``print`` the key figures.

    Attributes:
        evaluations: One evaluation per model and data set, the data sets of the first model first. Those on clean
            images come first.
        report: The figures of all of them.
    """

    evaluations: Sequence[Evaluation]
    report: Report

    def figures(self) -> dict[str, dict[str, dict[str, float]]]:
        """Return the metrics of whole data sets by model, data set and name.

        Those of ImageNet-P are of the lowest difficulty. ``report.table()`` has all metrics with their intervals.
        """
        return self.report.data.figures()

    def summary(self) -> str:
        """Return the key figures as plain text."""
        return str(self.report)

    def __repr__(self) -> str:
        """Return the title, and the numbers of models and data sets."""
        return repr(self.report).replace("Report", "Benchmark", 1)

    def __str__(self) -> str:
        """Return what ``summary`` returns."""
        return self.summary()

    def _repr_html_(self) -> str:
        """Return the report for a notebook."""
        return self.report._repr_html_()


@described_by(EvaluationRequest, RenderSettings)
def benchmark(
    model: AnyModel | Mapping[str, AnyModel],
    source: Location,
    recipes: Location | Recipe | Iterable[Location | Recipe] = ("imagenet-c", "imagenet-p"),
    out: Location | None = None,
    *,
    limit: int | None = None,
    ids: Location | None = None,
    source_kind: str | None = None,
    classes: Location | Sequence[str] | None = None,
    seed: int | None = None,
    frost_folder: Location | None = None,
    check: bool = False,
    pixels: bool = False,
    cache: Location | None = None,
    title: str = "Robustness report",
    progress: bool = True,
    **options: Any,
) -> Benchmark:
    """Render data sets from clean images, evaluate one or more models on them, and report.

    No shards are written. The clean images are evaluated, too, for the clean error and the metrics relative to it: once
    for each profile of the recipes, prepared as for the first of them.

    Args:
        model: A model as for ``evaluate``, or a mapping from names for the report to models.
        source: Path, URL or glob pattern of the clean images, as for ``render``.
        recipes: Names of shipped recipes, paths of .toml files, or recipes. For a part of one:
            ``rs.recipes.load("imagenet-c").changed(transforms={"only": ["fog"], "levels": [1, 3]})``.
        out: Folder or URL for the rendered data sets (``data/RECIPE``), the predictions (``results/MODEL/RECIPE``) and
            the report (``report``). A repeated call computes only what is missing. Default: nothing is kept except
            the caches.
        classes: Class names, as in ``build``.
        check: Decode every image first, so that damaged ones are left out. Otherwise they are an error.
        title: Title of the report.
        progress: Show a progress bar for each step, on standard error or in the notebook.
        options: Further arguments of ``evaluate``, for all models: ``device``, ``precision``, ``batch_size``,
            ``loaders``, ``ordered`` and so on. With ``ordered``, a model starts each data set unchanged.

    Returns:
        The evaluations and the report on them.

    Raises:
        UserError: If an argument is invalid, or ``out`` holds something else.
        UnfinishedError: If images cannot be read or made. Finished predictions in ``out`` are kept.
        UnreachableError: If an object store does not respond.
        OSError: If a file cannot be read or written.
    """
    given = locals()
    bound = inspect.signature(evaluate).bind(model, source, **options)
    check_parameters(bound.arguments.get("parameters", {}))
    folder = optional_location(out, "out")
    models = _named(model, options)
    listed = [recipes] if isinstance(recipes, str | os.PathLike | Recipe) else recipes
    chosen = [RecipeSettings.of(given, recipe=each).changed_recipe() for each in listed]
    data_sets: list[DataSet] = []
    for recipe in _with_clean(chosen):
        with progress_bar(progress, f"reading the images for {recipe.name}"):
            data_sets.append(
                render(
                    recipe, source, _inside(folder, "data", recipe.name), ids=ids, frost_folder=frost_folder,
                    check=check, pixels=pixels, cache=cache,
                )
            )  # fmt: skip
    evaluations = []
    for directory, (name, each) in models.items():
        for data in data_sets:
            place = _inside(folder, "results", directory, data.name)
            named = {**options, "progress": progress, "name": name}
            evaluations.append(_complete(evaluate(each, data, place, **named)))
    return Benchmark(evaluations, report(evaluations, out=_inside(folder, "report"), title=title))


def _named(model: Any, options: Mapping[str, Any]) -> dict[str, tuple[str | None, Any]]:
    """Return the models and their names in the report, by the names of their folders.

    Raises:
        UserError: If there are no models, their names are given twice, or two names give the same folder.
    """
    if not isinstance(model, Mapping):
        name = options.get("name")
        default = os.fspath(model) if isinstance(model, str | os.PathLike) else type(model).__name__
        return {_folder_name(name or default): (name, model)}
    if not model or "name" in options:
        raise UserError(f"invalid models {list(model)} with name={options.get('name')!r}: pass a mapping of names only")
    folders: dict[str, tuple[str | None, Any]] = {}
    for name, each in model.items():
        folder = _folder_name(str(name))
        if folder in folders:
            raise UserError(
                f"the models {folders[folder][0]!r} and {name!r} would share the folder {folder}: rename one"
            )
        folders[folder] = str(name), each
    return folders


def _folder_name(name: str) -> str:
    """Return the name of a model with only letters, digits, underscores and hyphens."""
    return re.sub(r"[^\w-]+", "-", name)


def _with_clean(recipes: Sequence[Recipe]) -> list[Recipe]:
    """Return the recipes after a clean companion for each profile that has none among them.

    Raises:
        UserError: If there are no recipes, or two have the same name.
    """
    names = [recipe.name for recipe in recipes]
    if not names or len(set(names)) < len(names):
        raise UserError(f"invalid recipes {names}: pass at least one, each with a name of its own")
    covered = {recipe.profile for recipe in recipes if recipe.transforms.family == clean.FAMILY.name}
    companions: dict[str, Recipe] = {}
    for recipe in sorted(recipes, key=lambda each: each.family.sequences):  # encoders of images before those of videos
        if recipe.profile not in covered:
            companions.setdefault(recipe.profile, clean_companion(recipe))
    return [*companions.values(), *recipes]


def _inside(folder: str | None, *names: str) -> str | None:
    """Return a path in a folder; None if the folder is None."""
    return None if folder is None else "/".join((folder.rstrip("/"), *names))


def _complete(evaluation: Evaluation) -> Evaluation:
    """Return a complete evaluation. Raise UnfinishedError with the reason if predictions are missing."""
    if not evaluation.complete:
        name, reason = (*evaluation.lost, *evaluation.done.broken)[0]
        table = evaluation.table
        raise UnfinishedError(
            f"the evaluation of {table.model.name!r} on {table.data_set.name!r} is not finished: {name}: {reason}"
        )
    return evaluation
