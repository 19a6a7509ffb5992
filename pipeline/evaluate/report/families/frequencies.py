"""The reports on spatial frequencies: low-pass filtered images, and images plus one frequency."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from corruptions.catalogue import PROFILE_SIDES
from corruptions.fourier import Frequency, frequency
from pipeline.errors import UserError
from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.arrays import Floats
from pipeline.evaluate.report.context import Context
from pipeline.evaluate.report.join import condition_scores
from pipeline.evaluate.report.load import Evaluation, Flags
from pipeline.evaluate.report.measures import FamilyReport, Measure, Metric, Pivot, Results, Section
from pipeline.evaluate.report.real_labels import has_imagenet_labels
from pipeline.evaluate.report.subject import Grid, Means, Subject, means_of, measures_of
from pipeline.evaluate.report.views import (
    COUNT,
    INTERVAL,
    PERCENT,
    Axis,
    Cell,
    Column,
    Number,
    NumberFormat,
    Panel,
    Plot,
    Point,
    Table,
)
from pipeline.recipes.levels import shown_levels
from pipeline.transforms import fourier, low_pass

# Low-pass filtered images: frequency bias, and the curve ACC-LPB

UNIT = "cycles per image"
CYCLES = NumberFormat(1, 1, unit=UNIT)  # bandwidths in cycles per image, with the digits that papers print
F_BIAS = Metric("f_bias", 0, UNIT, CYCLES)
SETTLED = Metric("f_bias (settled)", 0, UNIT, CYCLES)
AREA = Metric("area above the curve", 0, UNIT, CYCLES)
UNFILTERED = Metric("accuracy on unfiltered images", 1)
ACCURACY = Metric("accuracy", 1)
CURVE = Metric("normalised accuracy (ACC-LPB)", 0, "ratio to unfiltered images")


def measure_low_pass(evaluation: Evaluation, context: Context) -> Iterator[Results]:
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
        LOW_PASS,
        [
            *(_of_correct(correct, grid, bandwidths, context) if correct[:, -1].any() else ()),
            *means_of([UNFILTERED], correct[:, -1:], context.resamples),
            *grid.estimate(ACCURACY, lambda means: 1 - means.cells[..., 0, :], "level"),
        ],
        counts={"images": (grid.images, 0), "images that are correct unfiltered": (int(correct[:, -1].sum()), 0)},
        published="low-pass" if published else "",
        clean_accuracy=float(correct[:, -1].mean()),
        details={"bandwidths": bandwidths},
    )
    # The title names the grid, so that models with other grids are in another section.
    yield results.titled(f"{results.data_set}, bandwidths {shown_levels(bandwidths)}")


def _require_unfiltered(evaluation: Evaluation, bandwidths: Sequence[int]) -> None:
    """Raise UserError if no bandwidth leaves the images unfiltered. Images of unknown size are not checked."""
    recorded, side = evaluation.table.data_set.pass_all, PROFILE_SIDES.get(evaluation.table.data_set.profile)
    needed = low_pass.FAMILY.least_pass_all(side, side) if recorded is None and side else recorded
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


LOW_PASS = FamilyReport(
    family=low_pass.FAMILY.name,
    key="low_pass",
    measure=measure_low_pass,
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
        "image is misclassified again at a larger bandwidth. The shape of the filter was not published."
    },
    sources=("Liu et al., arXiv 2302.14301 (ARES-Bench)",),
)


# Images plus one spatial frequency: heat maps, and the error by radius

BANDS: Mapping[str, tuple[int, float]] = {"0 to 8": (0, 8), "9 to 20": (9, 20), "above 20": (21, math.inf)}
"""Name -> smallest and largest radius in cycles per image."""

MEAN = Metric("mean error of the map", -1)
OF_BAND = {name: Metric(f"mean error at radius {name}", -1) for name in BANDS}
CLEAN_ERROR = Metric("clean error", -1, of_clean=True)
BY_RADIUS = Metric("error by radius", -1)
ERROR = Metric("error", -1)


def measure_fourier(evaluation: Evaluation, context: Context) -> Iterator[Results]:
    """Yield the results of an evaluation on images plus one spatial frequency. Means are over the cells of the map."""
    subject = Subject(evaluation, context, condition_scores(evaluation))
    grid = subject.grid
    frequencies = [frequency(level) for level in grid.levels]
    radii = np.array([round(math.hypot(*each)) for each in frequencies])
    cells = np.array([1 if each == (0, 0) else 2 for each in frequencies])  # (-p, -q) has the value of (p, q)

    def mean(among: np.ndarray, means: Means) -> Floats:
        return np.asarray(means.cells[..., 0, among] @ cells[among] / cells[among].sum())

    measures = list(grid.estimate(MEAN, partial(mean, radii >= 0)))
    for name, (least, largest) in BANDS.items():
        if (among := (radii >= least) & (radii <= largest)).any():
            measures += grid.estimate(OF_BAND[name], partial(mean, among))
    if subject.paired:
        measures += subject.paired.estimate(CLEAN_ERROR, lambda means: means.others[..., 0], covers="")
    for ring in np.unique(radii).tolist():
        found = grid.estimate(BY_RADIUS, partial(mean, radii == ring))
        measures += [replace(each, level=ring, draws=None) for each in found]
    measures += grid.estimate(ERROR, lambda means: means.cells[..., 0, :], "level")
    results = subject.results(FOURIER, measures, details={"frequencies": len(frequencies)})
    # The title names the map, so that models with other frequencies are in another section.
    largest = max(max(each.p, abs(each.q)) for each in frequencies)
    yield results.titled(f"{results.data_set}, {len(frequencies):,} frequencies up to {largest}")


def _heat_maps(section: Section) -> Iterator[Table]:
    """Yield the table of the ends of each map, with the maps."""
    panels, rows, lines = [], list[list[Cell]](), list[tuple[str | int | float, ...]]()
    axes = Axis("cycles per image across", COUNT), Axis("error")
    for model, results in section.models.items():
        errors = {frequency(each.level or 0): each for each in results.measures if each.metric == ERROR.name}
        clean = results.whole(CLEAN_ERROR.name)
        ends: list[Cell] = []
        for at in (of(errors, key=lambda each: errors[each].value) for of in (min, max)):
            ends += [Number(errors[at].value, errors[at].low, errors[at].high), f"({at.p}, {at.q})"]
        rows.append([model, Number(clean.value if clean else math.nan), *ends])
        beside = f"clean error {PERCENT.text(clean.value)} %" if clean else ""
        panels.append(Panel(model, _mirrored({at: each.value for at, each in errors.items()}), *axes, beside))
        lines += [(model, *at, each.value, each.images) for at, each in errors.items()]
    columns = [Column("model", number=False), Column("clean error")]
    for end in ("smallest", "largest"):
        columns += [Column(end), Column("at (p, q)", number=False)]
    note = (
        "Top-1 error in percent on images plus one spatial frequency, with the 95 % confidence interval over images "
        "in brackets. Each cell of a map is a frequency: p cycles per image down, q across, 0 in the middle; (p, q) "
        "and (-p, -q) are the same one. Colours have the same scale in all maps."
    )
    values = [("model", "p", "q", "error", "images"), *lines]
    yield Table(section.title, "heat map of errors", note, columns, rows, Plot("frequency map", panels), values=values)


def _mirrored(errors: Mapping[Frequency, float]) -> list[Point]:
    """Return the cells of a map from the values of half of it; cells without a value are NaN."""
    step = math.gcd(*(each for at in errors for each in at)) or 1
    largest = max(max(at.p, abs(at.q)) for at in errors)
    axis = range(-largest, largest + 1, step)
    cells = {Frequency(-p, -q): error for (p, q), error in errors.items()} | dict(errors)
    return [Point(str(p), float(q), cells.get(Frequency(p, q), math.nan)) for p in axis for q in axis]


FOURIER = FamilyReport(
    family=fourier.FAMILY.name,
    key="fourier",
    measure=measure_fourier,
    metrics=(MEAN, *OF_BAND.values(), CLEAN_ERROR, BY_RADIUS, ERROR),
    leads=(MEAN.name,),
    note="Top-1 error in percent, averaged over the frequencies of the map, with the 95 % confidence interval over "
    "images in brackets. Lower is better. The title names the frequencies. The three bands of radii are those of this "
    "project.",
    tables=(
        Pivot(
            "error by radius",
            [BY_RADIUS.name],
            "Top-1 error in percent, averaged over the frequencies whose distance from (0, 0), rounded to an integer, "
            "is the radius, with the 95 % confidence interval over images in brackets. Lower is better.",
            rows="level",
            head=["radius"],
            plot="lines",
            axis="radius in cycles per image",
        ),
    ),
    more=_heat_maps,
    glossary={
        "Fourier heat map": "The error of a model when a single spatial frequency of a fixed norm is added to every "
        "image, as a picture over all frequencies. Means count each cell of the picture once. Networks trained as "
        "usual are weak at all but the lowest frequencies; training with Gaussian noise or adversarial images helps at "
        "high frequencies and hurts at low ones."
    },
    sources=("Yin, Gontijo Lopes, Shlens, Cubuk and Gilmer, NeurIPS 2019 (Fourier heat maps)",),
)
