"""Ranks of models by the most important metric of each data set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.evaluate.report.family import Figure
from pipeline.evaluate.report.formats import Number, value_of
from pipeline.evaluate.report.section import Section
from pipeline.evaluate.report.tables import coverage, missing_images
from pipeline.evaluate.report.tested import LOSSY


@dataclass(frozen=True)
class Ranking:
    """The models of a data set, ranked by a metric.

    Attributes:
        data_set: Title of the data set's section.
        family: Key of the section's layout.
        figure: Name of the metric.
        higher_is_better: Whether larger values are better.
        values: Value by model.
        ranks: Rank by model, from 1. Equal values share a rank: 1, 2, 2, 4. Models that cannot be compared have none.
    """

    data_set: str
    family: str
    figure: str
    higher_is_better: bool
    values: Mapping[str, float]
    ranks: Mapping[str, int]


@dataclass(frozen=True)
class Comparison:
    """The comparison of several models.

    Attributes:
        rankings: Ranking of each data set that at least two models can be compared on.
        mean_ranks: Mean rank by model, over the rankings that have all models. Empty if fewer than two have.
    """

    rankings: Sequence[Ranking]
    mean_ranks: Mapping[str, float]


def compare(sections: Sequence[Section]) -> Comparison | None:
    """Return the comparison of the models of a report; None if they have no data set in common."""
    rankings = [ranking for section in sections if (ranking := _ranking(section))]
    models = {model for section in sections for model in section.models}
    complete = [ranking for ranking in rankings if ranking.ranks.keys() == models]
    mean_ranks = {
        model: sum(ranking.ranks[model] for ranking in complete) / len(complete)
        for model in dict.fromkeys(model for section in sections for model in section.models)
        if len(complete) > 1
    }
    return Comparison(rankings, mean_ranks) if rankings else None


def leading_figure(section: Section) -> Figure | None:
    """Return the candidate for the headline that most models have; None if no model has one."""
    counts = {
        index: sum(Number(figure.value(each)).exists for each in section.models.values())
        for index, figure in enumerate(section.layout.leads)
    }
    most = max(counts, key=counts.__getitem__, default=None)
    return section.layout.leads[most] if most is not None and counts[most] else None


def ranks(values: Mapping[str, float], higher_is_better: bool) -> dict[str, int]:
    """Return the rank of each model, best first; equal values share the smallest of their ranks."""
    sign = -1 if higher_is_better else 1
    return {model: 1 + sum(sign * other < sign * value for other in values.values()) for model, value in values.items()}


def comparable_models(section: Section, figure: Figure) -> list[str]:
    """Return the models, as many as possible, whose values of a metric can be compared.

    These have the same images, the same baseline, the same part of the benchmark, and all or none of them have clean
    images that were compressed with loss.
    """
    layout = section.layout
    conditions = {
        model: (
            summary.source_ids_sha256,
            layout.baseline(summary) if figure.normalised else None,
            coverage(layout, summary, figure),
            missing_images(layout, summary),
            layout.clean_images(summary).endswith(LOSSY) if figure.of_clean else None,
        )
        for model, summary in section.models.items()
        if Number(figure.value(summary)).exists
    }
    most = Counter(conditions.values()).most_common(1)
    return [model for model, each in conditions.items() if each == most[0][0]]


def _ranking(section: Section) -> Ranking | None:
    """Return the ranking of a section; None if fewer than two models can be compared."""
    figure = leading_figure(section)
    if figure is None or figure.higher_is_better is None:
        return None
    found = {model: figure.value(summary) for model, summary in section.models.items()}
    values = {model: value_of(value) for model, value in found.items() if value is not None and Number(value).exists}
    comparable = comparable_models(section, figure)
    if len(comparable) < 2:
        return None
    ranked = ranks({model: values[model] for model in comparable}, figure.higher_is_better)
    return Ranking(section.title, section.layout.key, figure.name, figure.higher_is_better, values, ranked)
