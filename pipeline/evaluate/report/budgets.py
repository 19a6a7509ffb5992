"""The report on smallest budgets: accuracy against the budget of an attack, for several models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pipeline.errors import UserError
from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.bootstrap import Bootstrap, Estimate, estimate_of_groups
from pipeline.evaluate.metrics.arrays import Floats
from pipeline.evaluate.report.attacks import NORMS
from pipeline.evaluate.report.budget_searches import BudgetSearch
from pipeline.evaluate.report.estimates import column_mean
from pipeline.evaluate.report.family import Figure, Models, ReportLayout, Table
from pipeline.evaluate.report.formats import COUNT, NumberFormat
from pipeline.evaluate.report.plots import BudgetCurve, BudgetCurves, Plot, PlotKind
from pipeline.evaluate.report.scores import digest_of_ids
from pipeline.evaluate.report.tables import TransformTable, by_transform
from pipeline.recipes.attacks import Norm, budget_text
from pipeline.text import printable

TABLE_BUDGETS: Mapping[Norm, Sequence[float]] = {
    "linf": (0.5 / 255, 1 / 255, 2 / 255, 4 / 255, 8 / 255),
    "l2": (0.5, 1, 2, 4, 8),
    "l1": (100, 200, 400, 800, 1600),
}
"""Budgets of the table, for pixel values 0..1."""

SCALES: Mapping[Norm, float] = {"linf": 255, "l2": 1, "l1": 1}
"""Factors of displayed budgets: those of L∞ are in levels of 255."""

INTERVALS = 64
"""Number of equal parts of a curve, from 0 to the largest budget."""

TICKS = (0, 0.25, 0.5, 0.75, 1)
"""Ticks of the axis of budgets, as fractions of the largest budget."""

MAX_RESAMPLES = 1000
"""Maximum number of draws of medians: each draw sorts all images."""

BUDGET = NumberFormat(1, 2)


@dataclass(frozen=True)
class BudgetRow:
    """The accuracy at one budget; ``name`` is the budget as text."""

    name: str
    budget: float
    accuracy: Estimate
    group: str = ""
    benchmark: bool = True


@dataclass(frozen=True)
class BudgetSummary:
    """The accuracy of one model against the budget of an attack on it.

    Attributes:
        model: Name of the model.
        data_set: Title of the section: images, attack and largest budget.
        attack: Name of the attack.
        norm: Norm of the budgets.
        largest: Largest budget that was tried, for pixel values 0..1.
        steps: Number of times that the bracket was halved; 0 for attacks that minimise the norm.
        images: Number of images.
        right_before: Number of images that are right without an attack.
        failed: Number of further images that could not be attacked.
        accuracy: Accuracy without an attack.
        rows: Accuracy at the budgets of the table, and at the largest one.
        curve: Accuracy from budget 0 to the largest, evenly spaced.
        median: Median of the smallest budgets over the images that are right without an attack, in displayed units: in
            levels of 255 for L∞. None if no attack succeeded on half of them.
        area: Area under the curve, in the same units.
        manifest_sha256: Digest of the data set's manifest.
        source_ids_sha256: Digest of the sorted source ids of the images.
        clean_images: How the images are stored.
    """

    model: str
    data_set: str
    attack: str
    norm: Norm
    largest: float
    steps: int
    images: int
    right_before: int
    failed: int
    accuracy: Estimate
    rows: Sequence[BudgetRow]
    curve: Sequence[Estimate]
    median: Estimate | None
    area: Estimate
    manifest_sha256: str = ""
    source_ids_sha256: str = ""
    clean_images: str = ""


def summarise_budgets(searches: Iterable[BudgetSearch], resamples: int) -> list[BudgetSummary]:
    """Return the summaries of searches.

    Args:
        searches: The searches of a report.
        resamples: Number of bootstrap draws.

    Raises:
        UserError: If two searches try the same attack on the same model and images, or a file is damaged.
    """
    summaries: dict[tuple[str, str, str], BudgetSummary] = {}
    folders: dict[tuple[str, str, str], str] = {}
    for search in searches:
        summary = _summary(search, resamples)
        key = summary.model, summary.data_set, summary.manifest_sha256
        if key in summaries:
            raise UserError(
                f"{folders[key]} and {search.folder} are searches for the same budgets of {search.model!r} "
                f"({summary.data_set}): give one of them"
            )
        summaries[key], folders[key] = summary, search.folder
    return list(summaries.values())


def _summary(search: BudgetSearch, resamples: int) -> BudgetSummary:
    """Return the summary of a search."""
    tried, images, data_set = search.table.search, search.images, search.table.data_set
    points = np.linspace(0, tried.largest, INTERVALS + 1)
    listed = [*(each for each in TABLE_BUDGETS[tried.norm] if each < tried.largest), tried.largest]
    survived = metrics.survived_by_image(images.smallest, np.array([*points, *listed]))
    bootstrap = Bootstrap.of(survived, resamples=resamples)
    accuracies = [column_mean(bootstrap, column) for column in range(survived.shape[1])]
    displayed = images.smallest * SCALES[tried.norm]
    largest = tried.largest * SCALES[tried.norm]
    return BudgetSummary(
        model=search.table.model.name,
        data_set=f"{printable(data_set.name)}, {tried.attack} up to {budget_text(tried.norm, tried.largest)}",
        attack=tried.attack,
        norm=tried.norm,
        largest=tried.largest,
        steps=tried.steps,
        images=len(images.ids),
        right_before=int(images.right_before.sum()),
        failed=images.failed,
        accuracy=accuracies[0],
        rows=[
            BudgetRow(budget_text(tried.norm, budget), budget, accuracy, NORMS[tried.norm])
            for budget, accuracy in zip(listed, accuracies[len(points) :], strict=True)
        ],
        curve=accuracies[: len(points)],
        median=_median(displayed[images.right_before], largest, resamples),
        # The area under a step function is the mean of the places of its steps, see ``area_under_accuracy``.
        area=Bootstrap.of(np.minimum(displayed, largest), resamples=resamples).estimate(lambda mean: mean),
        clean_images=search.encoded,
        manifest_sha256=data_set.manifest_sha256,
        source_ids_sha256=digest_of_ids(images.ids),
    )


def _median(smallest: Floats, largest: float, resamples: int) -> Estimate | None:
    """Return the median budget of images that are right without an attack; None if there are none, or it is infinite.

    Ends of the interval that are infinite become the largest budget.
    """
    if not smallest.size or not np.isfinite(metrics.median_budget(smallest)):
        return None
    capped = np.minimum(smallest, largest)
    return estimate_of_groups(
        lambda groups: metrics.median_budget(groups[0]), [capped], resamples=min(resamples, MAX_RESAMPLES)
    )


def _tables(layout: ReportLayout[BudgetSummary], section: str, models: Models[BudgetSummary]) -> Iterator[Table]:
    """Yield the table of accuracy at budgets, with the plot of the curves."""
    first = next(iter(models.values()))
    curves = BudgetCurves(
        section,
        f"budget ({NORMS[first.norm]})",
        [budget_text(first.norm, share * first.largest) for share in TICKS],
        {
            model: BudgetCurve(
                summary.curve, [(row.name, row.budget / summary.largest, row.accuracy) for row in summary.rows]
            )
            for model, summary in models.items()
        },
    )
    yield replace(by_transform(layout, section, ACCURACY_TABLE, models, "budget"), plot=Plot(PlotKind.BUDGETS, curves))


ACCURACY = Figure("accuracy at the budget", lambda row: row.accuracy, of_clean=True)
ACCURACY_TABLE = TransformTable(
    "accuracy against budget",
    "Percent of all images that are classified correctly at each budget of the attack, with the 95 % confidence "
    "interval over images in brackets. If an attack with a small norm was found for an image, its prediction counts as "
    "wrong at every larger budget.",
    (ACCURACY,),
)

MEDIAN = Figure("median budget", lambda summary: summary.median, BUDGET, higher_is_better=True, of_clean=True)
AREA = Figure("area under the curve", lambda summary: summary.area, BUDGET, higher_is_better=True, of_clean=True)

LAYOUT = ReportLayout[BudgetSummary](
    key="budgets",
    figures=(MEDIAN, AREA, Figure("clean accuracy", lambda summary: summary.accuracy, of_clean=True)),
    leads=(AREA,),
    note="Accuracy in percent; the others in units of the budget, for L∞ in levels of 255; with the 95 % confidence "
    "interval over images in brackets. Higher is better. The median is over the images that are right without an "
    "attack; it is missing if no attack was found for half of them. The area is that under the curve, up to the "
    "largest budget.",
    counts=(
        Figure("images", lambda summary: summary.images, COUNT),
        Figure("right without an attack", lambda summary: summary.right_before, COUNT),
        Figure("failed", lambda summary: summary.failed, COUNT),
    ),
    tables=_tables,
    rows=lambda summary: summary.rows,
    row_figures=(ACCURACY,),
    clean_accuracy=lambda summary: summary.accuracy.value,
    clean_images=lambda summary: summary.clean_images,
    glossary=(
        (
            "Budget",
            "The largest norm of a perturbation of the whole image, for pixel values 0 to 1. The smallest budget of an "
            "image is the smallest norm at which the attack was found to succeed; a stronger attack may succeed at a "
            "smaller one.",
        ),
    ),
)
