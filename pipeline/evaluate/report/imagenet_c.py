"""The report on ImageNet-C and its editions: summary, figures, tables and plots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import corruptions
from pipeline.evaluate import metrics
from pipeline.evaluate.metrics import alexnet
from pipeline.evaluate.metrics.bootstrap import Bootstrap, Estimate
from pipeline.evaluate.report.baseline import warn_of_other_images
from pipeline.evaluate.report.belonging import CleanError
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.error_baseline import ErrorBaseline, error_baseline
from pipeline.evaluate.report.estimates import accuracy, column_mean
from pipeline.evaluate.report.family import (
    Benchmark,
    Column,
    Figure,
    LevelFigure,
    Models,
    ReportFamily,
    ReportLayout,
    Table,
)
from pipeline.evaluate.report.formats import Cell, Number
from pipeline.evaluate.report.plots import Curves, Plot, PlotKind
from pipeline.evaluate.report.scores import Evaluation, error_scores
from pipeline.evaluate.report.tables import (
    Content,
    LevelContent,
    by_level,
    by_transform,
    coverage,
    part_notes,
)
from pipeline.transforms.imagenet_c import FAMILY

Floats = NDArray[np.float64]
Places = Mapping[str, Mapping[int, int]]
"""Corruption -> severity -> column of the scores."""


# Summary


@dataclass(frozen=True)
class CorruptionRow:
    """One corruption: top-1 error by severity, their mean, and what a baseline makes of them."""

    name: str
    group: str
    benchmark: bool
    errors: Mapping[int, Estimate]
    mean_error: Estimate
    corruption_error: Estimate | None
    relative_corruption_error: float | None


@dataclass(frozen=True)
class CorruptionSummary:
    """ImageNet-C and its editions, of one model.

    The means are over the benchmark's corruptions that the data set has, or, of others' own, over all; ``complete``
    tells whether that is all 15 at all five severities. ``mean_error`` is the mean corruption error (unnormalised),
    ``robustness`` is 1 - mCE. ``curve``: severity -> mean accuracy.
    """

    model: str
    data_set: str
    images: int
    failed: int
    baseline: str | None
    complete: bool
    rows: Sequence[CorruptionRow]
    curve: Mapping[int, Estimate]
    mean_error: Estimate | None
    mean_corruption_error: Estimate | None
    relative_mean_corruption_error: float | None
    clean_error: float | None
    residual_robustness: float | None
    manifest_sha256: str = ""
    source_ids_sha256: str = ""
    robustness: Estimate | None = None


# Figures


def summarise_corruptions(each: Evaluation, context: ReportContext) -> list[CorruptionSummary]:
    """Return the figures of ImageNet-C and its editions."""
    scores = error_scores(each)
    clean = context.clean_error(each, scores.images)
    baseline = error_baseline(each, scores, clean, context)
    about = context.about(each, scores.images)
    places: dict[str, dict[int, int]] = {}
    for place, condition in enumerate(scores.keys):
        places.setdefault(condition.transform, {})[condition.level] = place
    found = context.bootstrap(scores.values)
    over = scores.values[clean.rows].mean(axis=0) if clean else None
    rows = [_row(name, levels, found, over, clean, baseline) for name, levels in places.items()]
    benchmark = {name: places[name] for name in places if name in set(corruptions.names("benchmark"))}
    counted = benchmark or places
    divisors = _divisors(counted, baseline)
    normalised = any(row.corruption_error is not None for row in rows)
    if baseline and normalised and not context.own:
        warn_of_other_images(each, len(scores.images.ids), context.warn)
    return [
        CorruptionSummary(
            model=about.model,
            data_set=about.data_set,
            images=len(scores.images.ids),
            failed=about.failed,
            baseline=baseline.name if baseline and normalised else None,
            complete=_is_complete(benchmark),
            rows=rows,
            curve=_curve(counted, found),
            mean_error=found.estimate(lambda means: metrics.unnormalised_mean_error(_errors(means, counted))),
            mean_corruption_error=found.estimate(
                lambda means: metrics.mean_corruption_error(_errors(means, counted), divisors)
            )
            if divisors
            else None,
            relative_mean_corruption_error=_mean([r.relative_corruption_error for r in rows if r.name in counted]),
            clean_error=clean.value if clean else None,
            residual_robustness=_residual_robustness(clean, over, counted),
            manifest_sha256=about.manifest_sha256,
            source_ids_sha256=about.source_ids_sha256,
            robustness=found.estimate(lambda means: metrics.corruption_robustness(_errors(means, counted), divisors))
            if divisors
            else None,
        )
    ]


def _errors(means: Floats, places: Places) -> dict[str, Floats]:
    """Return the errors of each corruption, (..., severities), from means (..., columns)."""
    return {name: means[..., list(levels.values())] for name, levels in places.items()}


def _row(
    name: str,
    levels: Mapping[int, int],
    found: Bootstrap,
    over: Floats | None,
    clean: CleanError | None,
    baseline: ErrorBaseline | None,
) -> CorruptionRow:
    """Return the figures of one corruption; ``over``: errors over the images of which the clean error is known."""
    places = list(levels.values())
    published, benchmark = corruptions.names("all"), corruptions.names("benchmark")
    divisor = _divisor(name, levels, baseline)
    return CorruptionRow(
        name,
        corruptions.get(name).group if name in published else "",
        name in benchmark,
        {level: column_mean(found, place) for level, place in levels.items()},
        found.estimate(lambda means: metrics.mean_error(means[..., places])),
        found.estimate(lambda means: metrics.corruption_error(means[..., places], divisor)) if divisor else None,
        _relative(name, list(levels), over[places], clean, baseline)
        if divisor and clean is not None and over is not None
        else None,
    )


def _divisor(name: str, levels: Mapping[int, int], baseline: ErrorBaseline | None) -> Sequence[float] | None:
    """Return the baseline's errors, where all are known and there is any."""
    errors = baseline.errors(name, list(levels)) if baseline else None
    return errors if errors and sum(errors) > 0 else None


def _divisors(places: Places, baseline: ErrorBaseline | None) -> dict[str, Sequence[float]]:
    """Return the baseline's errors of all corruptions, or nothing where one of them lacks any."""
    found = {name: _divisor(name, levels, baseline) for name, levels in places.items()}
    return {name: errors for name, errors in found.items() if errors} if None not in found.values() else {}


def _relative(
    name: str, levels: Sequence[int], errors: Floats, clean: CleanError, baseline: ErrorBaseline | None
) -> float | None:
    """Return the relative CE, where both clean errors are known and the baseline loses anything at all."""
    reference = baseline.relative_errors(name, levels) if baseline else None
    if reference is None or baseline is None or baseline.clean_error is None:
        return None
    if sum(reference) <= baseline.clean_error * len(reference):
        return None
    return float(metrics.relative_corruption_error(errors, clean.value, reference, baseline.clean_error))


def _mean(relatives: Sequence[float | None]) -> float | None:
    """Return the relative mCE: the mean of relative CEs, where all are known."""
    known = {str(place): each for place, each in enumerate(relatives) if each is not None}
    return float(metrics.mean_over_transforms(known)) if len(known) == len(relatives) else None


def _curve(counted: Places, found: Bootstrap) -> dict[int, Estimate]:
    """Return severity -> mean accuracy over the corruptions that have it."""
    return {
        level: _accuracy_at(level, counted, found)
        for level in sorted({level for each in counted.values() for level in each})
    }


def _accuracy_at(level: int, counted: Places, found: Bootstrap) -> Estimate:
    places = {name: [levels[level]] for name, levels in counted.items() if level in levels}

    def figure(means: Floats) -> Floats:
        return metrics.robustness_curve({name: 1 - means[..., place] for name, place in places.items()})[..., 0]

    return found.estimate(figure)


def _residual_robustness(clean: CleanError | None, over: Floats | None, counted: Places) -> float | None:
    if clean is None or over is None:
        return None
    return float(
        metrics.residual_robustness(1 - clean.value, 1 - metrics.unnormalised_mean_error(_errors(over, counted)))
    )


def _is_complete(places: Places) -> bool:
    """Return whether these are all corruptions of the benchmark at all severities."""
    return tuple(places) == tuple(corruptions.names("benchmark")) and all(
        set(levels) == set(alexnet.SEVERITIES) for levels in places.values()
    )


# Tables and plots

MCE = Figure(
    "mCE", lambda summary: summary.mean_corruption_error, normalised=True, over=lambda row: row.corruption_error
)
MEAN_ERROR = Figure(
    "mean corruption error (unnormalised)", lambda summary: summary.mean_error, over=lambda row: row.mean_error
)
FIGURES = (
    MCE,
    Figure(
        "relative mCE",
        lambda summary: summary.relative_mean_corruption_error,
        normalised=True,
        over=lambda row: row.relative_corruption_error,
    ),
    Figure("1 - mCE", lambda summary: summary.robustness, normalised=True, over=lambda row: row.corruption_error),
    MEAN_ERROR,
    Figure("residual robustness", lambda summary: summary.residual_robustness, over=lambda row: row.mean_error),
    Figure("clean error", lambda summary: summary.clean_error),
)
CURVE = LevelFigure("mean accuracy", lambda summary: summary.curve, over=lambda row: row.mean_error)
ROW_FIGURES = (
    Figure("CE", lambda row: row.corruption_error, normalised=True),
    Figure("relative CE", lambda row: row.relative_corruption_error, normalised=True),
    Figure("mean error (unnormalised)", lambda row: row.mean_error),
)
CE_TABLE = Content(
    "corruption error (CE)",
    "Percent of the baseline's errors, ± half of the 95 % interval. Lower is better, 100 is the baseline.",
    ROW_FIGURES[:2],
    bars="corruption error",
)
MEAN_ERROR_TABLE = Content(
    "mean error over the severities (unnormalised)",
    "Percent, with the 95 % interval over images. Lower is better.",
    ROW_FIGURES[2:],
    bars="mean error",
)

ACCURACY_TABLE = LevelContent(
    "accuracy by corruption and severity",
    "Percent by severity, ± half of the 95 % interval. Higher is better.",
    "corruption",
    "severity",
    lambda row: {severity: accuracy(error) for severity, error in row.errors.items()},
    lambda row: accuracy(row.mean_error),
    alexnet.SEVERITIES,
)

CorruptionLayout = ReportLayout[CorruptionSummary]
CorruptionModels = Models[CorruptionSummary]


def _tables(layout: CorruptionLayout, section: str, models: CorruptionModels) -> Iterator[Table]:
    yield _curve_table(layout, section, models)
    yield by_level(layout, section, ACCURACY_TABLE, models)
    yield by_transform(layout, section, CE_TABLE, models, "corruption")
    if any(all(row.corruption_error is None for row in each.rows) for each in models.values()):
        yield by_transform(layout, section, MEAN_ERROR_TABLE, models, "corruption")


def _curve_table(layout: CorruptionLayout, section: str, models: CorruptionModels) -> Table:
    """Return accuracy with severities downwards, models side by side."""
    partial = {model: bool(coverage(layout, each, CURVE)) for model, each in models.items()}
    severities = sorted({severity for each in models.values() for severity in each.curve})
    rows: list[Sequence[Cell]] = [
        [str(s), *(Number(each.curve.get(s), partial=partial[model]) for model, each in models.items())]
        for s in severities
    ]
    note = "Percent, mean over the corruptions of the benchmark, with the 95 % interval over images. Higher is better."
    note = " ".join((note, *part_notes(layout, models, [CURVE])))
    columns = [Column("severity", number=False), *(Column(model) for model in models)]
    curves = {model: each.curve for model, each in models.items() if each.curve}
    title = "mean over the corruptions of the benchmark"
    plot = Plot(PlotKind.LINES, Curves({title: curves} if curves else {}, "severity", alexnet.SEVERITIES))
    return Table(section, "accuracy by severity", note, columns, rows, plot)


GLOSSARY = (
    (
        "CE, mCE",
        "Corruption error: the errors at all severities, summed, divided by the baseline's. mCE is its mean over the "
        "15 corruptions of the benchmark. Below 100: fewer errors than the baseline.",
    ),
    (
        "Relative CE",
        "The same of what is lost against clean images: a model that is merely better everywhere gains nothing.",
    ),
    (
        "Mean corruption error (unnormalised)",
        "The plain mean of the error rates. It is not mCE, and the two must not be compared.",
    ),
)

REPORT = ReportFamily(
    FAMILY.name,
    summarise_corruptions,
    CorruptionLayout(
        key="corruptions",
        figures=FIGURES,
        leads=(MCE, MEAN_ERROR),
        note="Percent, in brackets the 95 % interval over images. Residual robustness is clean accuracy less mean "
        "accuracy. Lower is better.",
        normalised_note="mCE and relative mCE are in percent of the baseline's. Of 1 - mCE, higher is better.",
        benchmark=Benchmark(len(corruptions.names("benchmark")), "corruptions", lambda summary: summary.complete),
        tables=_tables,
        rows=lambda summary: summary.rows,
        row_figures=ROW_FIGURES,
        level_figures=(CURVE,),
        row_level_figures=(LevelFigure("error", lambda row: row.errors),),
        baseline=lambda summary: summary.baseline,
        glossary=GLOSSARY,
        sources=("Hendrycks and Dietterich, ICLR 2019 (ImageNet-C, ImageNet-P)",),
    ),
)
