"""The report on images plus one spatial frequency: heat maps, and the error by radius."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from corruptions.fourier import Frequency, frequency
from pipeline.evaluate.metrics.arrays import Floats
from pipeline.evaluate.report.context import Context
from pipeline.evaluate.report.join import condition_scores
from pipeline.evaluate.report.load import Evaluation
from pipeline.evaluate.report.measures import FamilyReport, Metric, Pivot, Results, Section
from pipeline.evaluate.report.subject import Means, Subject
from pipeline.evaluate.report.views import COUNT, PERCENT, Axis, Cell, Column, Number, Panel, Plot, Point, Table
from pipeline.transforms.fourier import FAMILY

BANDS: Mapping[str, tuple[int, float]] = {"0 to 8": (0, 8), "9 to 20": (9, 20), "above 20": (21, math.inf)}
"""Name -> smallest and largest radius in cycles per image."""

MEAN = Metric("mean error of the map", -1)
OF_BAND = {name: Metric(f"mean error at radius {name}", -1) for name in BANDS}
CLEAN_ERROR = Metric("clean error", -1, of_clean=True)
BY_RADIUS = Metric("error by radius", -1)
ERROR = Metric("error", -1)

HEAT_MAP = "heat map of errors"


def radius(of: Frequency) -> int:
    """Return the distance from frequency (0, 0) as an integer."""
    return round(math.hypot(*of))


def measure(evaluation: Evaluation, context: Context) -> Iterator[Results]:
    """Yield the results of an evaluation on images plus one spatial frequency. Means are over the cells of the map."""
    subject = Subject(evaluation, context, condition_scores(evaluation))
    grid = subject.grid
    frequencies = [frequency(level) for level in grid.levels]
    radii = np.array([radius(each) for each in frequencies])
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
    results = subject.results(REPORT, measures, details={"frequencies": len(frequencies)})
    # The title names the map, so that models with other frequencies are in another section.
    largest = max(max(each.p, abs(each.q)) for each in frequencies)
    yield results.titled(f"{results.data_set}, {len(frequencies):,} frequencies up to {largest}")


def _heat_maps(section: Section) -> Iterator[Table]:
    """Yield the table of the ends of each map, with the maps."""
    panels, rows, lines = [], list[list[Cell]](), list[tuple[str | int | float, ...]]()
    for model, results in section.models.items():
        errors = {frequency(each.level or 0): each for each in results.measures if each.metric == ERROR.name}
        clean = results.whole(CLEAN_ERROR.name)
        best, worst = (of(errors, key=lambda each: errors[each].value) for of in (min, max))
        shown = [Number(errors[at].value, errors[at].low, errors[at].high) for at in (best, worst)]
        rows.append([model, Number(clean.value if clean else math.nan), shown[0], _text(best), shown[1], _text(worst)])
        beside = f"clean error {PERCENT.text(clean.value)} %" if clean else ""
        panels.append(Panel(model, _mirrored({at: each.value for at, each in errors.items()}), ACROSS, Y, beside))
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
    yield Table(section.title, HEAT_MAP, note, columns, rows, Plot("frequency map", panels), values=values)


ACROSS, Y = Axis("cycles per image across", COUNT), Axis("error")


def _text(at: Frequency) -> str:
    return f"({at.p}, {at.q})"


def _mirrored(errors: Mapping[Frequency, float]) -> list[Point]:
    """Return the cells of a map from the values of half of it; cells without a value are NaN."""
    step = math.gcd(*(each for at in errors for each in at)) or 1
    largest = max(max(at.p, abs(at.q)) for at in errors)
    axis = range(-largest, largest + 1, step)
    cells = {Frequency(-p, -q): error for (p, q), error in errors.items()} | dict(errors)
    return [Point(str(p), float(q), cells.get(Frequency(p, q), math.nan)) for p in axis for q in axis]


REPORT = FamilyReport(
    family=FAMILY.name,
    key="fourier",
    measure=measure,
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
        "high frequencies and hurts at low ones.",
    },
    sources=("Yin, Gontijo Lopes, Shlens, Cubuk and Gilmer, NeurIPS 2019 (Fourier heat maps)",),
)
