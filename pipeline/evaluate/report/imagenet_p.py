"""The report on ImageNet-P and its editions: summary, figures, tables and plots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import perturbations
from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.bootstrap import Bootstrap, Estimate
from pipeline.evaluate.report.baseline import warn_of_other_images
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.estimates import column_mean
from pipeline.evaluate.report.family import Benchmark, Figure, Models, ReportFamily, ReportLayout, Table
from pipeline.evaluate.report.formats import COUNT, PLAIN
from pipeline.evaluate.report.scores import Evaluation
from pipeline.evaluate.report.sequences import SequenceBaseline, SequenceScores, sequence_baselines, sequence_scores
from pipeline.evaluate.report.tables import Content, by_transform
from pipeline.transforms.imagenet_p import FAMILY

Floats = NDArray[np.float64]

# Summary


@dataclass(frozen=True)
class PerturbationRow:
    """One perturbation at one difficulty: flip probability, top-5 distance, and their ratios to a baseline's."""

    name: str
    group: str
    benchmark: bool
    difficulty: int
    flip_probability: Estimate
    flip_rate: Estimate | None
    top5_distance: Estimate
    top5_ratio: Estimate | None


@dataclass(frozen=True)
class PerturbationSummary:
    """ImageNet-P and its editions, of one model at one difficulty.

    Means are over the benchmark's perturbations that the data set has; ``complete`` tells whether that is all ten.
    ``mean_flip_probability`` is unnormalised; ``nmfp`` is minus that.
    """

    model: str
    data_set: str
    sequences: int
    failed: int
    difficulty: int
    baseline: str | None
    complete: bool
    rows: Sequence[PerturbationRow]
    mean_flip_probability: Estimate | None
    mean_flip_rate: Estimate | None
    mean_top5_distance: Estimate | None
    mean_top5_ratio: Estimate | None
    manifest_sha256: str = ""
    source_ids_sha256: str = ""
    nmfp: Estimate | None = None


# Figures


def summarise_perturbations(each: Evaluation, context: ReportContext) -> list[PerturbationSummary]:
    """Return the figures of ImageNet-P and its editions, for each difficulty."""
    scores = sequence_scores(each)
    baselines = sequence_baselines(each, scores, context)
    return [
        _summary(each, difficulty, wanted, baselines.get(difficulty, SequenceBaseline()), context)
        for difficulty, wanted in scores.items()
    ]


def _summary(
    each: Evaluation, difficulty: int, scores: SequenceScores, baseline: SequenceBaseline, context: ReportContext
) -> PerturbationSummary:
    names = scores.flips.keys
    flips, moves = context.bootstrap(scores.flips.values), context.bootstrap(scores.moves.values)
    flip_divisors, move_divisors = _above_zero(names, baseline.flips), _above_zero(names, baseline.moves)
    rows = [
        _row(name, place, difficulty, flips, moves, flip_divisors.get(name), move_divisors.get(name))
        for place, name in enumerate(names)
    ]
    any_benchmark = any(row.benchmark for row in rows)
    counted = {row.name: place for place, row in enumerate(rows) if row.benchmark or not any_benchmark}
    normalised = bool(flip_divisors or move_divisors)
    about = context.about(each, scores.flips.images)
    if normalised and not context.own:
        warn_of_other_images(each, len(scores.flips.images.ids), context.warn)
    return PerturbationSummary(
        about.model,
        about.data_set,
        len(scores.flips.images.ids),
        about.failed,
        difficulty,
        baseline.name if normalised else None,
        tuple(row.name for row in rows if row.benchmark) == tuple(perturbations.names("benchmark")),
        rows,
        flips.estimate(lambda means: metrics.mean_over_transforms(_columns(means, counted))),
        flips.estimate(lambda means: metrics.mean_flip_rate(_columns(means, counted), flip_divisors))
        if counted.keys() <= flip_divisors.keys()
        else None,
        moves.estimate(lambda means: metrics.mean_over_transforms(_columns(means, counted))),
        moves.estimate(lambda means: metrics.mean_top5_distance(_columns(means, counted), move_divisors))
        if counted.keys() <= move_divisors.keys()
        else None,
        about.manifest_sha256,
        about.source_ids_sha256,
        flips.estimate(lambda means: metrics.negative_mean_flip_probability(_columns(means, counted))),
    )


def _columns(means: Floats, places: Mapping[str, int]) -> dict[str, Floats]:
    """Return the figure of each perturbation, (...), from means (..., columns)."""
    return {name: means[..., place] for name, place in places.items()}


def _row(
    name: str,
    place: int,
    difficulty: int,
    flips: Bootstrap,
    moves: Bootstrap,
    flip_divisor: float | None,
    move_divisor: float | None,
) -> PerturbationRow:
    kind = perturbations.get(name)
    return PerturbationRow(
        name,
        kind.group,
        kind.benchmark,
        difficulty,
        column_mean(flips, place),
        flips.estimate(lambda means: metrics.flip_rate(means[..., place], flip_divisor)) if flip_divisor else None,
        column_mean(moves, place),
        moves.estimate(lambda means: metrics.top5_ratio(means[..., place], move_divisor)) if move_divisor else None,
    )


def _above_zero(names: Sequence[str], reference: Mapping[str, float]) -> dict[str, float]:
    """Return the baseline's figures that can divide others."""
    return {name: reference[name] for name in names if reference.get(name, 0) > 0}


# Tables and plots

MFR = Figure("mFR", lambda summary: summary.mean_flip_rate, normalised=True, over=lambda row: row.flip_rate)
MEAN_FLIPS = Figure(
    "mean flip probability (unnormalised)",
    lambda summary: summary.mean_flip_probability,
    over=lambda row: row.flip_probability,
)
FIGURES = (
    MFR,
    MEAN_FLIPS,
    Figure("NmFP", lambda summary: summary.nmfp, over=lambda row: row.flip_probability),
    Figure("mT5D", lambda summary: summary.mean_top5_ratio, normalised=True, over=lambda row: row.top5_ratio),
    Figure(
        "mean top-5 distance (unnormalised)",
        lambda summary: summary.mean_top5_distance,
        PLAIN,
        over=lambda row: row.top5_distance,
    ),
)
ROW_FIGURES = (
    Figure("flip probability", lambda row: row.flip_probability),
    Figure("flip rate", lambda row: row.flip_rate, normalised=True),
    Figure("top-5 distance", lambda row: row.top5_distance, PLAIN),
    Figure("T5D", lambda row: row.top5_ratio, normalised=True),
)
CONTENTS = (
    Content(
        "flip probability",
        "How often the prediction changes between frames: percent, with the 95 % interval over sequences. Lower is "
        "better.",
        ROW_FIGURES[:1],
        bars="flip probability",
    ),
    Content(
        "flip rate (FR)",
        "Percent of the baseline's flip probability, with the 95 % interval over sequences. Lower is better, 100 is "
        "the baseline.",
        ROW_FIGURES[1:2],
        bars="flip rate",
    ),
    Content(
        "top-5 distance",
        "How far the first five classes move between frames: 0 to 15; T5D in percent of the baseline's. Lower is "
        "better.",
        ROW_FIGURES[2:],
    ),
)


def _tables(
    layout: ReportLayout[PerturbationSummary], section: str, models: Models[PerturbationSummary]
) -> Iterator[Table]:
    for content in CONTENTS:
        yield by_transform(layout, section, content, models, "perturbation")


def _title(summary: PerturbationSummary) -> str:
    return summary.data_set + (f", difficulty {summary.difficulty}" if summary.difficulty != 1 else "")


REPORT = ReportFamily(
    FAMILY.name,
    summarise_perturbations,
    ReportLayout[PerturbationSummary](
        key="perturbations",
        figures=FIGURES,
        leads=(MFR, MEAN_FLIPS),
        note="Percent but for top-5 distances, which run from 0 to 15; in brackets the 95 % interval over sequences. "
        "Lower is better, but for NmFP, which is minus the mean flip probability.",
        normalised_note="mFR and mT5D are in percent of the baseline's.",
        counts=(
            Figure("sequences", lambda summary: summary.sequences, COUNT),
            Figure("failed", lambda summary: summary.failed, COUNT),
        ),
        benchmark=Benchmark(len(perturbations.names("benchmark")), "perturbations", lambda summary: summary.complete),
        tables=_tables,
        title=_title,
        rows=lambda summary: summary.rows,
        row_figures=ROW_FIGURES,
        level=lambda summary: summary.difficulty,
        baseline=lambda summary: summary.baseline,
        glossary=(
            (
                "Flip probability, flip rate",
                "How often the predicted class changes from frame to frame (for noise: from the first frame), and that "
                "divided by the baseline's; mFR is the mean over the ten perturbations of the benchmark.",
            ),
        ),
        sources=("Hendrycks and Dietterich, ICLR 2019 (ImageNet-C, ImageNet-P)",),
    ),
)
