"""The summary of one or more evaluations: metrics, normalisation by the baseline, warnings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pipeline.errors import UserError
from pipeline.evaluate.metrics.bootstrap import RESAMPLES
from pipeline.evaluate.report.budget_searches import BudgetSearch, open_budgets
from pipeline.evaluate.report.budgets import LAYOUT as BUDGETS
from pipeline.evaluate.report.budgets import summarise_budgets
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.families import layouts, report_on
from pipeline.evaluate.report.family import ReportLayout
from pipeline.evaluate.report.matching import (
    as_built,
    check_duplicates,
    check_model_names,
    manifests_of_content,
    model_names,
    renamed,
    warn_of_different_images,
)
from pipeline.evaluate.report.models import report_models
from pipeline.evaluate.report.natural_robustness import LAYOUT as NATURAL
from pipeline.evaluate.report.natural_robustness import summarise_natural_robustness
from pipeline.evaluate.report.published import published_figures
from pipeline.evaluate.report.ranking import compare
from pipeline.evaluate.report.real_labels import (
    RealLabels,
    Reason,
    find_real_labels,
    read_real_labels,
    takes_real_labels,
)
from pipeline.evaluate.report.scores import Evaluation, open_evaluation
from pipeline.evaluate.report.sections import sections
from pipeline.evaluate.report.summary import Summary
from pipeline.evaluate.report.transfer import LAYOUT as TRANSFER
from pipeline.evaluate.report.transfer import summarise_transfer
from pipeline.evaluate.results.budgets import is_budgets
from pipeline.storage import open_store


def summarise(
    folders: Sequence[str],
    baselines_from: Sequence[str] = (),
    clean: Sequence[str] = (),
    resamples: int = RESAMPLES,
    *,
    real: str | None = None,
    published: bool = False,
    rename: Mapping[str, str] | None = None,
) -> Summary:
    """Compute the metrics of one or more evaluations.

    An evaluation on clean images provides the clean error of its model for its other evaluations.

    Args:
        folders: Folders or URLs that ``evaluate`` or ``budgets`` wrote, of one or more models.
        baselines_from: Evaluations of the baseline model on the same images. Default: AlexNet's published results for
            models of 1000 classes on images of 224 x 224, otherwise no baseline.
        clean: Evaluations on clean images to use for clean errors if a model has several. Those that are not in
            ``folders`` are added.
        resamples: Number of bootstrap draws.
        real: File of the reassessed labels (ReaL) of the ImageNet validation images. Default: that of the package timm,
            if it is installed.
        published: Whether to add the published figures of reference models.
        rename: Recorded name of a model -> name to display.

    Returns:
        The metrics, and warnings about evaluations that are not fully comparable.

    Raises:
        UserError: If a folder has no evaluation, a family has no report, two models have the same name, a model was
            evaluated twice on one data set, two evaluations could give the same clean error, the baseline has other
            images, ``real`` is invalid or does not fit the images, or a name of ``rename`` is unknown or invalid.
        UnfinishedError: If an evaluation is incomplete.
    """
    baseline = [open_evaluation(folder) for folder in baselines_from]
    evaluations, searches = _open(folders)
    chosen = _chosen(clean)
    warnings: list[str] = []
    names = model_names([*evaluations, *searches, *chosen.values(), *baseline], rename or {}, warnings.append)
    evaluations, baseline = ([renamed(each, names) for each in group] for group in (evaluations, baseline))
    searches = [renamed(each, names) for each in searches]
    chosen = {location: renamed(each, names) for location, each in chosen.items()}
    manifests = manifests_of_content([*evaluations, *baseline, *chosen.values()])
    evaluations, baseline = ([as_built(each, manifests) for each in group] for group in (evaluations, baseline))
    chosen = {location: as_built(each, manifests) for location, each in chosen.items()}
    given = {each.location for each in (*evaluations, *baseline)}
    evaluations += [each for location, each in chosen.items() if location not in given]
    reports = [report_on(each.table.data_set.family, each.table.task) for each in evaluations]
    check_model_names([*evaluations, *searches, *baseline])
    check_duplicates(evaluations)
    context = ReportContext(evaluations, baseline, chosen.keys(), resamples, _real_labels(real, evaluations))
    for warning in warnings:
        context.warn(warning)
    found: list[tuple[Evaluation | None, ReportLayout[Any], Any]] = []
    for evaluation, report in zip(evaluations, reports, strict=True):
        found += [(evaluation, report.layout, each) for each in report.summarise(evaluation, context)]
    found += [(None, NATURAL, each) for each in summarise_natural_robustness(found)]
    found += [(None, TRANSFER, each) for each in summarise_transfer(summary for _, _, summary in found)]
    found += [(None, BUDGETS, each) for each in summarise_budgets(searches, resamples)]
    families: dict[str, list[Any]] = {key: [] for key in layouts()}
    for _, layout, summary in found:
        families[layout.key].append(summary)
    warn_of_different_images(evaluations, context.images, context.warn)
    for evaluation in evaluations:
        _warn_of_samples(evaluation, context)
    figures = published_figures(found) if published else ()
    tested = [*(each.table.model for each in evaluations), *(each.table.model for each in searches)]
    result = Summary(families, context.warnings, figures, report_models(tested))
    return replace(result, comparison=compare(sections(result)))


def _open(folders: Sequence[str]) -> tuple[list[Evaluation], list[BudgetSearch]]:
    """Open folders that ``evaluate`` or ``budgets`` wrote."""
    evaluations: list[Evaluation] = []
    searches: list[BudgetSearch] = []
    for folder in folders:
        store = open_store(folder)
        if is_budgets(store):
            searches.append(open_budgets(folder, store))
        else:
            evaluations.append(open_evaluation(folder))
    return evaluations, searches


def _real_labels(path: str | None, evaluations: Iterable[Evaluation]) -> RealLabels | Reason:
    """Return the reassessed labels in a file or an installed package. Raise UserError if a file has no use."""
    if path is None:
        return find_real_labels()
    if not any(map(takes_real_labels, evaluations)):
        raise UserError(
            f"--real {path} has no effect, because no evaluation is on validation images of ImageNet, clean or with "
            "corruptions: omit it, or add such an evaluation"
        )
    return read_real_labels(path)


def _chosen(folders: Sequence[str]) -> dict[str, Evaluation]:
    """Return evaluations on clean images by their location. Raise UserError if images are not clean."""
    chosen = [open_evaluation(folder) for folder in folders]
    for evaluation in chosen:
        if evaluation.role != "clean":
            images = f"of the role {evaluation.role!r}" if evaluation.role else "with a transform"
            raise UserError(f"{evaluation.folder} has images {images}: choose an evaluation on clean images")
    return {each.location: each for each in chosen}


def _warn_of_samples(evaluation: Evaluation, context: ReportContext) -> None:
    """Warn of samples that failed, or that decoded to other pixels than when they were built."""
    changed, checked = evaluation.changed_samples()
    if changed:
        context.warn(
            f"{evaluation.folder}: {changed:,} of {checked:,} checked samples were decoded to other pixels than when "
            "they were built, because the decoder differs: results may differ too"
        )
    if failed := evaluation.table.data_set.failed:
        context.warn(f"{evaluation.folder}: {failed:,} samples of the data set failed to build and are not included")
