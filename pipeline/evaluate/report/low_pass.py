"""The report on low-pass filtered images: frequency bias and the curve ACC-LPB of several models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from corruptions.catalogue import PROFILE_SIDES
from pipeline.errors import UserError
from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.bootstrap import Bootstrap, Estimate
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.estimates import column_mean
from pipeline.evaluate.report.family import Column, Figure, LevelFigure, Models, ReportFamily, ReportLayout, Table
from pipeline.evaluate.report.formats import COUNT, Cell, Number, NumberFormat
from pipeline.evaluate.report.plots import Curves, Plot, PlotKind
from pipeline.evaluate.report.scores import Evaluation, error_scores
from pipeline.recipes.levels import shown_levels
from pipeline.transforms.low_pass import FAMILY

CYCLES = NumberFormat(1, 1, unit="cycles per image")
"""Bandwidths in cycles per image, with the digits that papers print."""


@dataclass(frozen=True)
class LowPassSummary:
    """Results of one model on low-pass filtered images. Bandwidths are in cycles per image.

    Attributes:
        model: Name of the model.
        data_set: Name of the data set.
        images: Number of images.
        failed: Number of failed samples.
        bandwidths: Bandwidths of the data set, increasing. The last one leaves images unfiltered.
        correct_images: Number of images that are classified correctly unfiltered.
        frequency_bias: f_bias: mean over these of the smallest bandwidth at which an image is classified correctly.
            This and the next two are None if there is no such image.
        settled_frequency_bias: The same for the smallest bandwidth from which on it is always classified correctly.
        area_above_curve: Area between 1 and the normalised accuracies.
        clean_accuracy: Accuracy on the unfiltered images.
        accuracies: Accuracy by bandwidth.
        normalised_accuracies: Accuracy by bandwidth, divided by that on the unfiltered images: the curve ACC-LPB.
        manifest_sha256: Digest of the data set's manifest.
        source_ids_sha256: Digest of the sorted source ids of the images.
    """

    model: str
    data_set: str
    images: int
    failed: int
    bandwidths: Sequence[int]
    correct_images: int
    frequency_bias: Estimate | None
    settled_frequency_bias: Estimate | None
    area_above_curve: Estimate | None
    clean_accuracy: float
    accuracies: Mapping[int, Estimate]
    normalised_accuracies: Mapping[int, Estimate] = field(default_factory=dict)
    manifest_sha256: str = ""
    source_ids_sha256: str = ""


def summarise_low_pass(evaluation: Evaluation, context: ReportContext) -> list[LowPassSummary]:
    """Return the summary of an evaluation on low-pass filtered images.

    Raises:
        UserError: If the data set has no unfiltered images.
    """
    scores = error_scores(evaluation)
    order = sorted(range(len(scores.keys)), key=lambda column: scores.keys[column].level)
    bandwidths = [scores.keys[column].level for column in order]
    _require_unfiltered(evaluation, bandwidths)
    about = context.about(evaluation, scores.images)
    correct = scores.values[:, order] == 0
    accuracies = context.bootstrap(correct)
    any_correct = bool(correct[:, -1].any())
    if not any_correct:
        context.warn(
            f"{evaluation.folder}: no frequency bias, because no image is classified correctly without a filter"
        )
    return [
        LowPassSummary(
            model=about.model,
            data_set=about.data_set,
            images=len(scores.images.ids),
            failed=about.failed,
            bandwidths=bandwidths,
            correct_images=int(correct[:, -1].sum()),
            frequency_bias=_mean_cutoff(correct, bandwidths, context, settled=False) if any_correct else None,
            settled_frequency_bias=_mean_cutoff(correct, bandwidths, context, settled=True) if any_correct else None,
            area_above_curve=_with_correct(accuracies).estimate(
                lambda means: metrics.area_above_curve(means, bandwidths)
            )
            if any_correct
            else None,
            clean_accuracy=float(correct[:, -1].mean()),
            accuracies={level: column_mean(accuracies, column) for column, level in enumerate(bandwidths)},
            normalised_accuracies=_curve(accuracies, bandwidths) if any_correct else {},
            manifest_sha256=about.manifest_sha256,
            source_ids_sha256=about.source_ids_sha256,
        )
    ]


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


def _mean_cutoff(correct: np.ndarray, bandwidths: Sequence[int], context: ReportContext, *, settled: bool) -> Estimate:
    """Return the mean cutoff over the images that are classified correctly unfiltered."""
    return column_mean(context.bootstrap(metrics.cutoff_bandwidths(correct, bandwidths, settled=settled)[:, None]), 0)


def _with_correct(accuracies: Bootstrap) -> Bootstrap:
    """Return the accuracies without the draws in which no image is correct unfiltered, which have no quotients."""
    draws = accuracies.draws[accuracies.draws[:, -1] > 0]
    return Bootstrap(accuracies.means, draws if len(draws) else accuracies.means[None])


def _curve(accuracies: Bootstrap, bandwidths: Sequence[int]) -> dict[int, Estimate]:
    quotients = _with_correct(accuracies)
    normalised = Bootstrap(
        metrics.normalised_accuracies(quotients.means), metrics.normalised_accuracies(quotients.draws)
    )
    return {level: column_mean(normalised, column) for column, level in enumerate(bandwidths)}


# Tables and plots

LowPassLayout = ReportLayout[LowPassSummary]

CURVE = LevelFigure("normalised accuracy (ACC-LPB)", lambda summary: summary.normalised_accuracies)


def _title(summary: LowPassSummary) -> str:
    """Return the title of the section. It names the grid, so that models with other grids are in another section."""
    return f"{summary.data_set}, bandwidths {shown_levels(summary.bandwidths)}"


def _tables(layout: LowPassLayout, section: str, models: Models[LowPassSummary]) -> Iterator[Table]:
    curves = {model: each.normalised_accuracies for model, each in models.items() if each.normalised_accuracies}
    bandwidths = next(iter(models.values())).bandwidths
    rows: list[Sequence[Cell]] = [
        [str(bandwidth), *(Number(each.normalised_accuracies.get(bandwidth)) for each in models.values())]
        for bandwidth in bandwidths
        if curves
    ]
    note = (
        "Top-1 accuracy in percent of the accuracy on unfiltered images, with the 95 % confidence interval over images "
        f"in brackets. Bandwidths are {shown_levels(bandwidths)} cycles per image; the last one leaves images "
        "unfiltered."
    )
    columns = [Column("bandwidth", number=False), *map(Column, models)]
    plot = Plot(
        PlotKind.DENSE_LINES,
        Curves({"accuracy by bandwidth (ACC-LPB)": curves} if curves else {}, "bandwidth"),
    )
    yield Table(section, "normalised accuracy by bandwidth (ACC-LPB)", note, columns, rows, plot)


F_BIAS = Figure("f_bias", lambda summary: summary.frequency_bias, CYCLES)

REPORT = ReportFamily(
    FAMILY.name,
    summarise_low_pass,
    LowPassLayout(
        key="low_pass",
        figures=(
            F_BIAS,
            Figure("f_bias (settled)", lambda summary: summary.settled_frequency_bias, CYCLES),
            Figure("area above the curve", lambda summary: summary.area_above_curve, CYCLES),
            Figure("accuracy on unfiltered images", lambda summary: summary.clean_accuracy),
        ),
        leads=(F_BIAS,),
        note="Frequency biases and area in cycles per image, accuracy in percent, with the 95 % confidence interval "
        "over images in brackets. A smaller f_bias means that the model does with lower frequencies. The title names "
        "the bandwidths of the data set: the distances between them make f_bias too large, by up to half a distance on "
        "average.",
        counts=(
            Figure("images", lambda summary: summary.images, COUNT),
            Figure("images that are correct unfiltered", lambda summary: summary.correct_images, COUNT),
            Figure("failed", lambda summary: summary.failed, COUNT),
        ),
        tables=_tables,
        title=_title,
        level_figures=(LevelFigure("accuracy", lambda summary: summary.accuracies), CURVE),
        clean_accuracy=lambda summary: summary.clean_accuracy,
        glossary=(
            (
                "Frequency bias (f_bias), ACC-LPB",
                "Images are low-pass filtered with increasing bandwidths. f_bias is the mean, over the images that are "
                "classified correctly unfiltered, of the smallest bandwidth at which an image is classified correctly, "
                "in cycles per image. Settled: of the smallest bandwidth from which on it always is. ACC-LPB is the "
                "accuracy a_i at each bandwidth b_i, divided by that on unfiltered images, a_n. The area above this "
                "curve is a sum of steps, b_1 + sum over i < n of (1 - a_i / a_n) (b_(i+1) - b_i). It equals f_bias if "
                "no image is misclassified again at a larger bandwidth. The shape of the filter was not published.",
            ),
        ),
        sources=("Liu et al., arXiv 2302.14301 (ARES-Bench)",),
    ),
)
