"""The report on ImageNet-P and its editions: summary, metrics, tables and plots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import perturbations
from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.bootstrap import Bootstrap, Estimate
from pipeline.evaluate.report.baseline import warn_of_image_count
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.estimates import column_mean
from pipeline.evaluate.report.family import Benchmark, Figure, Models, ReportFamily, ReportLayout, Table
from pipeline.evaluate.report.formats import COUNT, PLAIN
from pipeline.evaluate.report.scores import Evaluation
from pipeline.evaluate.report.sequences import SequenceBaseline, SequenceScores, sequence_baselines, sequence_scores
from pipeline.evaluate.report.tables import TransformTable, by_transform
from pipeline.transforms.imagenet_p import FAMILY

Floats = NDArray[np.float64]

# Summary


@dataclass(frozen=True)
class PerturbationRow:
    """Flip probability and top-5 distance under one perturbation, and both normalised by the baseline."""

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
    """Stability of one model's predictions on ImageNet-P or one of its editions, at one difficulty.

    Means are over the benchmark's perturbations in the data set; if it has none of them, over all its perturbations.

    Attributes:
        model: Name of the model.
        data_set: Name of the data set.
        sequences: Number of sequences.
        failed: Number of failed samples.
        difficulty: Distance between the compared frames; for noise, the level that the sequences were built at.
        baseline: Name of the baseline; None if metrics are not normalised.
        complete: Whether the data set has all ten perturbations of the benchmark.
        rows: Metrics by perturbation.
        mean_flip_probability: Mean flip probability, unnormalised.
        mean_flip_rate: mFR.
        mean_top5_distance: Mean top-5 distance, unnormalised, 0..15.
        mean_top5_ratio: mT5D.
        manifest_sha256: Digest of the data set's manifest.
        source_ids_sha256: Digest of the sorted source ids of the sequences.
        nmfp: Negated mean flip probability.
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


# Metrics


def summarise_perturbations(evaluation: Evaluation, context: ReportContext) -> list[PerturbationSummary]:
    """Return the summaries of an evaluation on ImageNet-P or one of its editions, one per difficulty."""
    scores = sequence_scores(evaluation)
    baselines = sequence_baselines(evaluation, scores, context)
    return [
        _summary(evaluation, difficulty, wanted, baselines.get(difficulty, SequenceBaseline()), context)
        for difficulty, wanted in scores.items()
    ]


def _summary(
    evaluation: Evaluation, difficulty: int, scores: SequenceScores, baseline: SequenceBaseline, context: ReportContext
) -> PerturbationSummary:
    names = scores.flips.keys
    flips, distances = context.bootstrap(scores.flips.values), context.bootstrap(scores.distances.values)
    flip_divisors, distance_divisors = _above_zero(names, baseline.flips), _above_zero(names, baseline.distances)
    rows = [
        _row(name, column, difficulty, flips, distances, flip_divisors.get(name), distance_divisors.get(name))
        for column, name in enumerate(names)
    ]
    any_benchmark = any(row.benchmark for row in rows)
    counted = {row.name: column for column, row in enumerate(rows) if row.benchmark or not any_benchmark}
    normalised = bool(flip_divisors or distance_divisors)
    about = context.about(evaluation, scores.flips.images)
    if normalised and not context.evaluated_baseline:
        warn_of_image_count(evaluation, len(scores.flips.images.ids), context.warn)
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
        distances.estimate(lambda means: metrics.mean_over_transforms(_columns(means, counted))),
        distances.estimate(lambda means: metrics.mean_top5_distance(_columns(means, counted), distance_divisors))
        if counted.keys() <= distance_divisors.keys()
        else None,
        about.manifest_sha256,
        about.source_ids_sha256,
        flips.estimate(lambda means: metrics.negative_mean_flip_probability(_columns(means, counted))),
    )


def _columns(means: Floats, columns: Mapping[str, int]) -> dict[str, Floats]:
    """Return the metric of each perturbation, (...), from column means (..., columns)."""
    return {name: means[..., column] for name, column in columns.items()}


def _row(
    name: str,
    column: int,
    difficulty: int,
    flips: Bootstrap,
    distances: Bootstrap,
    flip_divisor: float | None,
    distance_divisor: float | None,
) -> PerturbationRow:
    kind = perturbations.get(name)
    return PerturbationRow(
        name,
        kind.group,
        kind.benchmark,
        difficulty,
        column_mean(flips, column),
        flips.estimate(lambda means: metrics.flip_rate(means[..., column], flip_divisor)) if flip_divisor else None,
        column_mean(distances, column),
        distances.estimate(lambda means: metrics.top5_ratio(means[..., column], distance_divisor))
        if distance_divisor
        else None,
    )


def _above_zero(names: Sequence[str], reference: Mapping[str, float]) -> dict[str, float]:
    """Return the baseline's values above zero, which can be divisors."""
    return {name: reference[name] for name in names if reference.get(name, 0) > 0}


# Tables and plots

MFR = Figure(
    "mFR",
    lambda summary: summary.mean_flip_rate,
    normalised=True,
    over=lambda row: row.flip_rate,
    higher_is_better=False,
)
MEAN_FLIPS = Figure(
    "mean flip probability (unnormalised)",
    lambda summary: summary.mean_flip_probability,
    over=lambda row: row.flip_probability,
    higher_is_better=False,
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
TABLES = (
    TransformTable(
        "flip probability",
        "How often the predicted class differs between successive frames (for noise: between the first frame and each "
        "other one), in percent, with the 95 % confidence interval over sequences in brackets. Lower is better.",
        ROW_FIGURES[:1],
        bars="flip probability",
    ),
    TransformTable(
        "flip rate (FR)",
        "Flip probability in percent of the baseline's, with the 95 % confidence interval over sequences in brackets. "
        "Lower is better; 100 equals the baseline.",
        ROW_FIGURES[1:2],
        bars="flip rate",
    ),
    TransformTable(
        "top-5 distance",
        "How much the ranking of the five most probable classes differs between the same frames, from 0 to 15. Lower "
        "is better. T5D, if shown, is in percent of the baseline's top-5 distance.",
        ROW_FIGURES[2:],
    ),
)


def _tables(
    layout: ReportLayout[PerturbationSummary], section: str, models: Models[PerturbationSummary]
) -> Iterator[Table]:
    for definition in TABLES:
        yield by_transform(layout, section, definition, models, "perturbation")


def _title(summary: PerturbationSummary) -> str:
    return summary.data_set + (f", difficulty {summary.difficulty}" if summary.difficulty != 1 else "")


REPORT = ReportFamily(
    FAMILY.name,
    summarise_perturbations,
    ReportLayout[PerturbationSummary](
        key="perturbations",
        figures=FIGURES,
        leads=(MFR, MEAN_FLIPS),
        note="Percent, except top-5 distances, which range from 0 to 15; with the 95 % confidence interval over "
        "sequences in brackets. Lower is better, except for NmFP, the negated mean flip probability.",
        normalised_note="mFR and mT5D are in percent of the baseline's values.",
        counts=(
            Figure("sequences", lambda summary: summary.sequences, COUNT),
            Figure("failed", lambda summary: summary.failed, COUNT),
        ),
        benchmark=Benchmark(len(perturbations.names("benchmark")), "perturbation", lambda summary: summary.complete),
        tables=_tables,
        title=_title,
        rows=lambda summary: summary.rows,
        row_figures=ROW_FIGURES,
        level=lambda summary: summary.difficulty,
        baseline=lambda summary: summary.baseline,
        glossary=(
            (
                "Flip probability, flip rate",
                "Flip probability: how often the predicted class differs between successive frames (for noise: between "
                "the first frame and each other one). Flip rate: the flip probability divided by the baseline's. mFR "
                "is the mean flip rate over the ten perturbations of the benchmark; NmFP is the negated mean flip "
                "probability.",
            ),
            (
                "Top-5 distance, T5D",
                "How much the ranking of the five most probable classes differs between the same frames: 0 if it is "
                "identical, 15 if none of the five classes remains. T5D is the top-5 distance divided by the "
                "baseline's; mT5D is its mean over the ten perturbations of the benchmark.",
            ),
        ),
        sources=("Hendrycks and Dietterich, ICLR 2019 (ImageNet-C, ImageNet-P)",),
    ),
    needs_labels=False,
)
