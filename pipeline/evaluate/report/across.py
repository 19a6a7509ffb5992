"""What compares models and data sets: paired differences, ranks, natural robustness, and published figures."""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import combinations

import numpy as np

from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.bootstrap import intervals
from pipeline.evaluate.report.families import NATURAL_ROBUSTNESS
from pipeline.evaluate.report.families.imagenet_c import ALEXNET, ROBUSTNESS
from pipeline.evaluate.report.families.natural import IMAGENET, REAL_ACCURACY
from pipeline.evaluate.report.load import LOSSY
from pipeline.evaluate.report.measures import FamilyReport, Measure, Metric, Results, Section
from pipeline.evaluate.report.views import Column, Table
from pipeline.text import counted
from pipeline.transforms.registry import FAMILIES

# Models on one data set


@dataclass(frozen=True)
class Ranking:
    """The models of a data set, ranked by a metric.

    Models that differ by no more than chance explains share ranks. Models that cannot be compared have none.
    """

    section: Section
    metric: Metric
    values: Mapping[str, Measure]  # by model
    ranks: Mapping[str, tuple[int, int]]  # first and last rank that a model may have, by model, from 1

    def difference(self, one: str, other: str) -> Measure | None:
        """Return the difference of two models that can be compared; None for others."""
        return difference(self.section, self.metric, one, other) if {one, other} <= self.ranks.keys() else None


def leading_metric(section: Section) -> Metric | None:
    """Return the candidate for the headline that most models have; None if no model has one."""
    counts = {
        name: sum(each.whole(name) is not None for each in section.models.values()) for name in section.report.leads
    }
    best = max(counts, key=counts.__getitem__, default=None)
    return section.report.metric(best) if best is not None and counts[best] else None


def comparable_models(section: Section, metric: Metric) -> list[str]:
    """Return the models, as many as possible, whose values of a metric can be compared.

    These have the same images, the same baseline, the same part of the benchmark, and all or none of them have clean
    images that were compressed with loss. Metrics relative to clean images are on equally many of these.
    """
    conditions = {
        model: (
            each.source_ids_sha256,
            each.baseline if metric.normalised else "",
            measure.covers,
            missing_images(each),
            metric.of_clean and each.clean_images.endswith(LOSSY),
            measure.images if metric.of_clean and metric.unit in {"ratio", "difference"} else 0,
        )
        for model, each in section.models.items()
        if (measure := each.whole(metric.name))
    }
    most = Counter(conditions.values()).most_common(1)
    return [model for model, each in conditions.items() if each == most[0][0]]


def missing_images(results: Results) -> str:
    """Return how many images of the complete data set there are; empty if all, or if it is unknown."""
    return ", ".join(
        f"{number:,} of {total:,} {name}" for name, (number, total) in results.counts.items() if number < total
    )


def difference(section: Section, metric: Metric, one: str, other: str) -> Measure | None:
    """Return the difference of a metric of two models on the same images, with the interval of the paired bootstrap.

    None if their draws were not kept, or have other images, because the order of images differs. The draws have the
    same images, so what is hard for both models cancels.
    """
    first, second = section.models[one], section.models[other]
    left, right = first.whole(metric.name), second.whole(metric.name)
    if left is None or right is None or first.order_sha256 != second.order_sha256:
        return None
    if left.draws is None or right.draws is None or len(left.draws) != len(right.draws):
        return None
    drawn = left.draws - right.draws
    low, high = intervals(drawn)
    return Measure(metric.name, left.value - right.value, float(low), float(high), images=left.images, draws=drawn)


def ranking(section: Section, metric: Metric | None) -> Ranking | None:
    """Return the ranking of a section; None if fewer than two models can be compared."""
    if metric is None or not metric.better:
        return None
    values = {model: found for model, each in section.models.items() if (found := each.whole(metric.name))}
    models = comparable_models(section, metric)
    if len(models) < 2:
        return None
    above = dict.fromkeys(models, 0)
    below = dict(above)
    for one, other in combinations(models, 2):
        found = difference(section, metric, one, other)
        if found and (found.low > 0 or found.high < 0):
            better, worse = (one, other) if metric.better * found.low > 0 else (other, one)
            above[worse] += 1
            below[better] += 1
    ranks = {model: (1 + above[model], len(models) - below[model]) for model in models}
    return Ranking(section, metric, values, ranks)


# Several data sets

LEAST_FIGURES = 5
"""Minimum number of the ten figures for a model to be listed, so that reports on other data sets are not cluttered."""

AVERAGE = Metric("natural robustness (average of ten)", 1, "ratio", of_clean=True)


def natural_robustness(found: Sequence[Results]) -> Iterator[Results]:
    """Yield the mean of ten figures on different data sets, as in ARES-Bench, for each model that has some of them."""
    for model in dict.fromkeys(each.model for each in found if each.natural):
        results = [each for each in found if each.model == model]
        candidates: dict[str, list[tuple[Measure, Results]]] = {}
        for each in results:
            for name, measure in each.natural.items():
                candidates.setdefault(name, []).append((measure, each))
        figures = {
            name: candidates[name][0][0] for name in metrics.NATURAL_FIGURES if len(candidates.get(name, ())) == 1
        }
        if len(figures) < LEAST_FIGURES:
            continue
        missing = [
            name + (f" ({counted(len(candidates[name]), 'evaluation')})" if name in candidates else "")
            for name in metrics.NATURAL_FIGURES
            if name not in figures
        ]
        incomplete = []
        for name in figures:
            number, total = next(iter(candidates[name][0][1].counts.values()))
            incomplete += [f"{name}: {number:,} of {total:,} images"] * (number < total)
        baselines = [each.baseline for each in results if each.baseline and ROBUSTNESS.name in each.natural]
        clean = [each.clean_images for each in results if IMAGENET in each.natural]
        yield Results(
            NATURAL_REPORT,
            "natural robustness",
            "natural robustness",
            model,
            measures=[
                *(() if missing else (_average(list(figures.values())),)),
                *(Measure(name, each.value, each.low, each.high, images=each.images) for name, each in figures.items()),
            ],
            counts={},
            baseline=baselines[0] if baselines else "",
            clean_images=clean[0] if clean else "",
            details={"missing": missing, "incomplete": incomplete},
        )


def _average(figures: Sequence[Measure]) -> Measure:
    """Return the mean of figures; its interval is that of the mean of their draws, where all are known."""
    value = float(metrics.natural_robustness([each.value for each in figures]))
    draws = [each.draws for each in figures if each.draws is not None]
    if len(draws) < len(figures) or len({len(each) for each in draws}) > 1:
        return Measure(AVERAGE.name, value)
    drawn = np.mean(draws, axis=0)
    low, high = intervals(drawn)
    return Measure(AVERAGE.name, value, float(low), float(high), draws=drawn)


def _missing_table(section: Section) -> Iterator[Table]:
    """Yield the table of missing and incomplete figures."""
    rows = [
        [model, ", ".join(each.details["missing"]), ", ".join(each.details["incomplete"])]
        for model, each in section.models.items()
        if each.details["missing"] or each.details["incomplete"]
    ]
    note = (
        "The average is shown if a model has all ten figures, each from one evaluation. Accuracy (ReaL) needs the "
        "evaluation on clean validation images and the file of labels. 1 - mCE needs all 15 corruptions at all "
        "severities, and a baseline."
    )
    if rows:
        columns = [Column(title, number=False) for title in ("model", "missing", "on part of the images")]
        yield Table(section.title, "missing and incomplete figures", note, columns, rows)


NATURAL_REPORT = FamilyReport(
    family=NATURAL_ROBUSTNESS,
    key=NATURAL_ROBUSTNESS,
    metrics=(
        AVERAGE,
        *(
            ROBUSTNESS if name == ROBUSTNESS.name else Metric(name, 1, of_clean=name in {IMAGENET, REAL_ACCURACY.name})
            for name in metrics.NATURAL_FIGURES
        ),
    ),
    leads=(AVERAGE.name,),
    note="Percent. Higher is better. The average is the plain mean of the ten figures below it: accuracies by task, "
    "and 1 - mCE of ImageNet-C.",
    more=_missing_table,
    glossary={
        "Natural robustness (average of ten)": "The plain mean of the accuracies on the ImageNet validation images by "
        "the original and by the reassessed labels (ReaL), on ImageNet-V2 (matched frequency), ObjectNet, ImageNet-A, "
        "-R, -V, Stylized-ImageNet and ImageNet-Sketch, and of 1 - mCE."
    },
    sources=("Liu et al., arXiv 2302.14301 (ARES-Bench)",),
)


# Published figures

FILE = "published.csv"
"""The figures as printed: in percent, or in the unit of their format. ``data_set`` is ``Results.published``."""

MARK = "(published)"


@dataclass(frozen=True)
class PublishedFigure:
    """A figure of a reference model as a paper prints it. It enters no computation."""

    model: str  # as printed, and a mark
    section: str  # title of the section that it is compared in
    family: str  # key of the report of this section
    transform: str  # empty for figures of a whole data set
    metric: str
    value: float  # in the unit of measures
    source: str  # paper that prints it
    baseline: str  # empty if the value is not normalised
    level: int | None = None  # None for all


def published_figures(sections: Iterable[Section]) -> Iterator[PublishedFigure]:
    """Yield the published figures on the data sets of a report, of transforms of its families or evaluated ones."""
    for section in sections:
        results = section.models.values()
        names = {each.published for each in results} - {""}
        if section.report.family == NATURAL_ROBUSTNESS:
            names = {"natural-robustness"}
        transforms = {
            "",
            *(FAMILIES[section.report.family].names if section.report.family in FAMILIES else ()),
            *(name for each in results for name in each.transforms),
        }
        for name in sorted(names):
            for row in _printed():
                metric = next((each for each in section.report.metrics if each.name == row["figure"]), None)
                if metric and row["data_set"] == name and row["transform"] in transforms:
                    yield PublishedFigure(
                        f"{row['model']} {MARK}",
                        section.title,
                        section.report.key,
                        row["transform"],
                        metric.name,
                        float(row["printed"]) / metric.format.scale,
                        row["source"],
                        ALEXNET if metric.normalised else "",
                        int(row["level"]) if row["level"] else None,  # short rows have no level
                    )


@cache
def _printed() -> Sequence[Mapping[str, str]]:
    """Return the rows of the file of published figures."""
    return list(csv.DictReader(io.StringIO(resources.files(__package__).joinpath(FILE).read_text("utf-8"))))
