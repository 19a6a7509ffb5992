"""The report on smallest budgets: accuracy against the budget of an attack, for several models."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from pipeline.errors import UserError
from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.arrays import Floats
from pipeline.evaluate.report.families.attacks import NORMS
from pipeline.evaluate.report.join import digest_of_ids
from pipeline.evaluate.report.load import BudgetSearch
from pipeline.evaluate.report.measures import FamilyReport, Measure, Metric, Pivot, Results, Section, TransformNames
from pipeline.evaluate.report.subject import means_of, measures_of
from pipeline.evaluate.report.views import INTERVAL, PLAIN, Axis, Panel, Plot, Point
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

INTERVALS = 64  # number of equal parts of a curve, from 0 to the largest budget
TICKS = (0, 0.25, 0.5, 0.75, 1)  # ticks of the axis of budgets, as fractions of the largest budget
MAX_RESAMPLES = 1000  # maximum number of draws of medians: each draw sorts all images
MEDIAN = Metric("median budget", 1, "displayed budget", PLAIN, of_clean=True)
AREA = Metric("area under the curve", 1, "displayed budget", PLAIN, of_clean=True)
CLEAN_ACCURACY = Metric("clean accuracy", 1, of_clean=True)
ACCURACY = Metric("accuracy at the budget", 1, of_clean=True)


def measure_searches(searches: Iterable[BudgetSearch], resamples: int) -> list[Results]:
    """Return the results of searches for the smallest budgets.

    Raises:
        UserError: If two searches try the same attack on the same model and images, or a file is damaged.
    """
    found: dict[tuple[str, str, str], tuple[Results, str]] = {}
    for search in searches:
        results = _results(search, resamples)
        key = results.model, results.section, results.manifest_sha256
        if key in found:
            raise UserError(
                f"{found[key][1]} and {search.folder} are searches for the same budgets of {search.model!r} "
                f"({results.section}): give one of them"
            )
        found[key] = results, search.folder
    return [results for results, _ in found.values()]


def _results(search: BudgetSearch, resamples: int) -> Results:
    """Return the results of a search."""
    tried, images, data_set = search.table.search, search.images, search.table.data_set
    points = np.linspace(0, tried.largest, INTERVALS + 1)
    listed = [*(each for each in TABLE_BUDGETS[tried.norm] if each < tried.largest), tried.largest]
    survived = metrics.survived_by_image(images.smallest, np.array([*points, *listed]))
    accuracies = means_of([ACCURACY] * survived.shape[1], survived, resamples)
    displayed, largest = images.smallest * SCALES[tried.norm], tried.largest * SCALES[tried.norm]
    # The area under a step function is the mean of the places of its steps, see ``area_under_accuracy``.
    area = means_of([AREA], np.minimum(displayed, largest)[:, None], resamples)
    names = {budget_text(tried.norm, budget): budget for budget in listed}
    title = f"{printable(data_set.name)}, {tried.attack} up to {budget_text(tried.norm, tried.largest)}"
    return Results(
        REPORT,
        title,
        title,
        search.table.model.name,
        measures=[
            *_median(displayed[images.right_before], largest, resamples),
            *area,
            replace(accuracies[0], metric=CLEAN_ACCURACY.name),
            *(
                replace(each, transform=name, draws=None)
                for name, each in zip(names, accuracies[len(points) :], strict=True)
            ),
        ],
        counts={
            "images": (len(images.ids), 0),
            "right without an attack": (int(images.right_before.sum()), 0),
            "failed": (images.failed, 0),
        },
        transforms={name: TransformNames(NORMS[tried.norm]) for name in names},
        clean_images=search.encoded,
        clean_accuracy=accuracies[0].value,
        manifest_sha256=data_set.manifest_sha256,
        pixel_root=data_set.pixel_root or "",
        source_ids_sha256=digest_of_ids(sorted(images.ids)),
        order_sha256=digest_of_ids(images.ids),
        details={
            "attack": tried.attack,
            "norm": tried.norm,
            "largest": tried.largest,
            "steps": tried.steps,
            "budgets": names,
            "curve": [[each.value, each.low, each.high] for each in accuracies[: len(points)]],
        },
    )


def _median(smallest: Floats, largest: float, resamples: int) -> Iterable[Measure]:
    """Return the median budget of images that are right without an attack; nothing if it is infinite or undefined.

    Ends of the interval that are infinite become the largest budget.
    """
    if not smallest.size or not np.isfinite(metrics.median_budget(smallest)):
        return []
    capped = np.minimum(smallest, largest)
    drawn = metrics.draws_of_groups(
        lambda groups: metrics.median_budget(groups[0]), [capped], resamples=min(resamples, MAX_RESAMPLES)
    )
    return measures_of(MEDIAN, np.array([metrics.median_budget(capped)]), drawn[:, None], len(smallest))


def _curves(section: Section) -> Plot:
    """Return the plot of accuracy against budget, with marks at the budgets of the table."""
    facts = next(iter(section.models.values())).details
    norm, largest = facts["norm"], facts["largest"]
    ticks = {share * largest: budget_text(norm, share * largest) for share in TICKS}
    points = []
    for model, results in section.models.items():
        marked = {measure.transform: measure for measure in results.measures if measure.transform}
        budgets = results.details["budgets"]
        curve = list(zip(np.linspace(0, largest, INTERVALS + 1).tolist(), results.details["curve"], strict=True))
        every = sorted([*curve, *((budgets[name], [m.value, m.low, m.high]) for name, m in marked.items())])
        at = set(budgets.values())
        points += [Point(model, place, value, low, high, marked=place in at) for place, (value, low, high) in every]
    axis = Axis(f"budget ({NORMS[norm]})", PLAIN, ticks=ticks)
    return Plot("lines", [Panel(section.title, points, axis, Axis("accuracy"))])


REPORT = FamilyReport(
    family="budgets",
    key="budgets",
    metrics=(MEDIAN, AREA, CLEAN_ACCURACY, ACCURACY),
    leads=(AREA.name,),
    note=f"Accuracy in percent; the others in units of the budget, for L∞ in levels of 255; {INTERVAL}. Higher is "
    "better. The median is over the images that are right without an attack; it is missing if no attack was found for "
    "half of them. The area is that under the curve, up to the largest budget.",
    transform="budget",
    tables=(
        Pivot(
            "accuracy against budget",
            [ACCURACY.name],
            f"Percent of all images that are classified correctly at each budget of the attack, {INTERVAL}. If an "
            "attack with a small norm was found for an image, its prediction counts as wrong at every larger budget.",
            plot=_curves,
        ),
    ),
    glossary={
        "Budget": "The largest norm of a perturbation of the whole image, for pixel values 0 to 1. The smallest budget "
        "of an image is the smallest norm at which the attack was found to succeed; a stronger attack may succeed at a "
        "smaller one."
    },
)
