"""The natural robustness of a model: the mean of ten of its figures on different data sets, as in ARES-Bench."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.natural import NATURAL_FIGURES
from pipeline.evaluate.report.clean import REAL_ACCURACY, CleanSummary
from pipeline.evaluate.report.family import Column, Figure, Models, ReportLayout, Table
from pipeline.evaluate.report.imagenet_c import ROBUSTNESS, CorruptionSummary
from pipeline.evaluate.report.scores import Evaluation
from pipeline.evaluate.report.shifts import ShiftSummary
from pipeline.text import counted

LEAST_FIGURES = 5
"""Minimum number of the ten figures for a model to be listed, so that reports on other data sets are not cluttered."""

CLEAN = "imagenet"
"""The figure that is the accuracy on clean images."""


@dataclass(frozen=True)
class NaturalRobustnessSummary:
    """The figures of one model whose mean is the natural robustness.

    Attributes:
        model: Name of the model.
        average: Mean of the ten figures; None if one is missing.
        figures: Figures by name, as fractions.
        missing: Names of missing figures, with the reason if there are several evaluations.
        incomplete: Names of the figures that were computed on part of the images, with the numbers of images.
        baseline: Name of the baseline of 1 - mCE; None if it is missing.
        clean_images: How the clean images are stored; empty if they were not evaluated.
        data_set: Title of the section.
        manifest_sha256: Empty, since there are several data sets.
        source_ids_sha256: Empty, since there are several data sets.
    """

    model: str
    average: float | None
    figures: Mapping[str, float]
    missing: Sequence[str]
    incomplete: Sequence[str]
    baseline: str | None
    clean_images: str
    data_set: str = "natural robustness"
    manifest_sha256: str = ""
    source_ids_sha256: str = ""


@dataclass
class _Candidates:
    """The values found for each figure of one model, and the parts of data sets that they were computed on."""

    values: dict[str, list[float]] = field(default_factory=dict)
    incomplete: list[str] = field(default_factory=list)
    baseline: str | None = None
    clean_images: str = ""


def summarise_natural_robustness(
    found: Iterable[tuple[Evaluation | None, ReportLayout[Any], Any]],
) -> list[NaturalRobustnessSummary]:
    """Return the natural robustness of each model that has at least ``LEAST_FIGURES`` of the figures.

    Args:
        found: Evaluation, layout and summary of each data set. Data sets are recognised by the names of their tasks.
    """
    models: dict[str, _Candidates] = {}
    for evaluation, _, summary in found:
        if evaluation is None:
            continue
        candidates = models.setdefault(evaluation.table.model.name, _Candidates())
        for name, value in _figures(evaluation, summary):
            candidates.values.setdefault(name, []).append(value)
            if (complete := getattr(summary, "complete_images", 0)) > summary.images:
                candidates.incomplete.append(f"{name}: {summary.images:,} of {complete:,} images")
        if isinstance(summary, CorruptionSummary):
            candidates.baseline = summary.baseline
        if isinstance(summary, CleanSummary):
            candidates.clean_images = summary.clean_images
    summaries = (_summary(model, candidates) for model, candidates in models.items())
    return [summary for summary in summaries if len(summary.figures) >= LEAST_FIGURES]


def _figures(evaluation: Evaluation, summary: Any) -> Iterator[tuple[str, float]]:
    """Yield the figures that a summary contributes."""
    task = evaluation.table.task
    if isinstance(summary, CleanSummary) and not evaluation.groups_digest:
        yield CLEAN, 1 - summary.error.value
        if summary.real_accuracy:
            yield REAL_ACCURACY.name, summary.real_accuracy.value
    elif isinstance(summary, CorruptionSummary) and summary.complete and summary.robustness:
        yield ROBUSTNESS.name, summary.robustness.value
    elif isinstance(summary, ShiftSummary) and task and task.name in NATURAL_FIGURES:
        yield task.name, summary.accuracy.value


def _summary(model: str, candidates: _Candidates) -> NaturalRobustnessSummary:
    found = candidates.values
    figures = {name: found[name][0] for name in NATURAL_FIGURES if len(found.get(name, ())) == 1}
    several = {
        name: f" ({counted(len(found[name]), 'evaluation')})"
        for name in NATURAL_FIGURES
        if len(found.get(name, ())) > 1
    }
    missing = [name + several.get(name, "") for name in NATURAL_FIGURES if name not in figures]
    average = None if missing else float(metrics.natural_robustness(figures))
    return NaturalRobustnessSummary(
        model, average, figures, missing, candidates.incomplete, candidates.baseline, candidates.clean_images
    )


AVERAGE = Figure(
    "natural robustness (average of ten)",
    lambda summary: summary.average,
    normalised=True,
    higher_is_better=True,
    of_clean=True,
)


def _figure(name: str) -> Figure:
    return Figure(
        name,
        lambda summary: summary.figures.get(name),
        normalised=name == ROBUSTNESS.name,
        of_clean=name in {CLEAN, REAL_ACCURACY.name},
    )


def _tables(
    layout: ReportLayout[NaturalRobustnessSummary], section: str, models: Models[NaturalRobustnessSummary]
) -> Iterator[Table]:
    """Yield the table of missing and incomplete figures."""
    rows = [
        [model, ", ".join(summary.missing), ", ".join(summary.incomplete)]
        for model, summary in models.items()
        if summary.missing or summary.incomplete
    ]
    note = (
        "The average is shown if a model has all ten figures, each from one evaluation. Accuracy (ReaL) needs the "
        "evaluation on clean validation images and the file of labels. 1 - mCE needs all 15 corruptions at all "
        "severities, and a baseline."
    )
    columns = [Column(title, number=False) for title in ("model", "missing", "on part of the images")]
    yield Table(section, "missing and incomplete figures", note, columns, rows)


LAYOUT = ReportLayout[NaturalRobustnessSummary](
    key="natural_robustness",
    figures=(AVERAGE, *map(_figure, NATURAL_FIGURES)),
    leads=(AVERAGE,),
    note="Percent. Higher is better. The average is the plain mean of the ten figures below it: accuracies by task, "
    "and 1 - mCE of ImageNet-C.",
    counts=(),
    tables=_tables,
    baseline=lambda summary: summary.baseline,
    clean_images=lambda summary: summary.clean_images,
    glossary=(
        (
            "Natural robustness (average of ten)",
            "The plain mean of the accuracies on the ImageNet validation images by the original and by the reassessed "
            "labels (ReaL), on ImageNet-V2 (matched frequency), ObjectNet, ImageNet-A, -R, -V, Stylized-ImageNet and "
            "ImageNet-Sketch, and of 1 - mCE.",
        ),
    ),
    sources=("Liu et al., arXiv 2302.14301 (ARES-Bench)",),
)
