"""The report on low-pass filtered images: frequency bias and the curve ACC-LPB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from corruptions.catalogue import PROFILE_SIDES
from pipeline.errors import UserError
from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.arrays import Floats
from pipeline.evaluate.report.context import Context
from pipeline.evaluate.report.join import condition_scores
from pipeline.evaluate.report.load import Evaluation, Flags
from pipeline.evaluate.report.measures import FamilyReport, Measure, Metric, Pivot, Results
from pipeline.evaluate.report.real_labels import has_imagenet_labels
from pipeline.evaluate.report.subject import Grid, Subject, means_of, measures_of
from pipeline.evaluate.report.views import INTERVAL, NumberFormat
from pipeline.recipes.levels import shown_levels
from pipeline.transforms.low_pass import FAMILY

UNIT = "cycles per image"
CYCLES = NumberFormat(1, 1, unit=UNIT)
"""Bandwidths in cycles per image, with the digits that papers print."""

F_BIAS = Metric("f_bias", 0, UNIT, CYCLES)
SETTLED = Metric("f_bias (settled)", 0, UNIT, CYCLES)
AREA = Metric("area above the curve", 0, UNIT, CYCLES)
UNFILTERED = Metric("accuracy on unfiltered images", 1)
ACCURACY = Metric("accuracy", 1)
CURVE = Metric("normalised accuracy (ACC-LPB)", 0, "ratio to unfiltered images")


def measure(evaluation: Evaluation, context: Context) -> Iterator[Results]:
    """Yield the results of an evaluation on low-pass filtered images. Bandwidths are in cycles per image.

    Raises:
        UserError: If the data set has no unfiltered images.
    """
    subject = Subject(evaluation, context, condition_scores(evaluation))
    scores, grid = subject.scores, subject.grid
    order = sorted(range(len(scores.keys)), key=lambda column: scores.keys[column].level)
    bandwidths = [scores.keys[column].level for column in order]
    _require_unfiltered(evaluation, bandwidths)
    correct = scores.values[:, order] == 0
    if not correct[:, -1].any():
        context.warn(
            f"{evaluation.folder}: no frequency bias, because no image is classified correctly without a filter"
        )
    data_set = evaluation.table.data_set
    published = has_imagenet_labels(evaluation) and data_set.profile == "imagenet"
    results = subject.results(
        REPORT,
        [
            *(_of_correct(correct, grid, bandwidths, context) if correct[:, -1].any() else ()),
            *means_of([UNFILTERED], correct[:, -1:], context.resamples),
            *grid.estimate(ACCURACY, lambda means: 1 - means.cells[..., 0, :], "level"),
        ],
        counts={
            "images": (grid.images, 0),
            "images that are correct unfiltered": (int(correct[:, -1].sum()), 0),
        },
        published="low-pass" if published else "",
        clean_accuracy=float(correct[:, -1].mean()),
        details={"bandwidths": bandwidths},
    )
    # The title names the grid, so that models with other grids are in another section.
    yield results.titled(f"{results.data_set}, bandwidths {shown_levels(bandwidths)}")


def _require_unfiltered(evaluation: Evaluation, bandwidths: Sequence[int]) -> None:
    """Raise UserError if no bandwidth leaves the images unfiltered. Images of unknown size are not checked."""
    recorded, side = evaluation.table.data_set.pass_all, PROFILE_SIDES.get(evaluation.table.data_set.profile)
    needed = FAMILY.least_pass_all(side, side) if recorded is None and side else recorded
    if needed is not None and bandwidths[-1] < needed:
        raise UserError(
            f"{evaluation.folder} has no unfiltered images, which frequency bias is relative to: its bandwidths are "
            f"{shown_levels(bandwidths)}, so build and evaluate the level that passes all frequencies too ({needed} or "
            "more)"
        )


def _of_correct(correct: Flags, grid: Grid, bandwidths: Sequence[int], context: Context) -> Iterator[Measure]:
    """Yield the figures that are relative to the images that are classified correctly unfiltered."""
    for metric, settled in ((F_BIAS, False), (SETTLED, True)):
        cutoffs = metrics.cutoff_bandwidths(correct, bandwidths, settled=settled)
        yield from means_of([metric], cutoffs[:, None], context.resamples)
    accuracies, drawn = 1 - grid.means.cells[0], 1 - grid.draws.cells[:, 0]
    drawn = drawn[drawn[:, -1] > 0]  # draws in which no image is correct unfiltered have no quotients
    area = np.asarray([metrics.area_above_curve(accuracies, bandwidths)])
    yield from measures_of(AREA, area, np.asarray(metrics.area_above_curve(drawn, bandwidths))[:, None], grid.images)
    curve: Floats = metrics.normalised_accuracies(accuracies)
    found = measures_of(CURVE, curve, metrics.normalised_accuracies(drawn), grid.images)
    for bandwidth, each in zip(bandwidths, found, strict=True):
        yield replace(each, level=bandwidth, draws=None)


REPORT = FamilyReport(
    family=FAMILY.name,
    key="low_pass",
    measure=measure,
    metrics=(F_BIAS, SETTLED, AREA, UNFILTERED, ACCURACY, CURVE),
    leads=(F_BIAS.name,),
    note=f"Frequency biases and area in cycles per image, accuracy in percent, {INTERVAL}. A smaller f_bias means that "
    "the model does with lower frequencies. The title names the bandwidths of the data set: the distances between them "
    "make f_bias too large, by up to half a distance on average.",
    level="bandwidth",
    tables=(
        Pivot(
            "normalised accuracy by bandwidth (ACC-LPB)",
            [CURVE.name],
            f"Top-1 accuracy in percent of the accuracy on unfiltered images, {INTERVAL}. Bandwidths are in cycles per "
            "image; the last one leaves images unfiltered.",
            rows="level",
            plot="lines",
        ),
    ),
    glossary={
        "Frequency bias (f_bias), ACC-LPB": "Images are low-pass filtered with increasing bandwidths. f_bias is the "
        "mean, over the images that are classified correctly unfiltered, of the smallest bandwidth at which an image "
        "is classified correctly, in cycles per image. Settled: of the smallest bandwidth from which on it always is. "
        "ACC-LPB is the accuracy a_i at each bandwidth b_i, divided by that on unfiltered images, a_n. The area above "
        "this curve is a sum of steps, b_1 + sum over i < n of (1 - a_i / a_n) (b_(i+1) - b_i). It equals f_bias if no "
        "image is misclassified again at a larger bandwidth. The shape of the filter was not published.",
    },
    sources=("Liu et al., arXiv 2302.14301 (ARES-Bench)",),
)
