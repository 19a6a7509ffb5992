"""The contents of a report: the papers' metrics, with confidence intervals over images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.evaluate.report.models import ReportModel
from pipeline.evaluate.report.ranking import Comparison


@dataclass(frozen=True)
class PublishedFigure:
    """A figure of a reference model as a paper prints it.

    Attributes:
        model: Name as printed, and a mark.
        data_set: Title of the section of the report that it is compared in.
        family: Key of the layout of this section.
        transform: Name of the transform; empty for figures of a whole data set.
        figure: Name of the figure.
        value: Fraction.
        source: Paper that prints it.
        baseline: Name of the baseline; empty if the value is not normalised.
    """

    model: str
    data_set: str
    family: str
    transform: str
    figure: str
    value: float
    source: str
    baseline: str


@dataclass(frozen=True)
class Summary:
    """The contents of a report.

    Attributes:
        families: Summaries of the evaluations of each family, by key of its layout, in the order of the report. The
            built-in keys are ``corruptions``, ``perturbations``, ``system_noise``, ``syn2nat``, ``adversarial``,
            ``shifts``, ``anomalies``, ``clean``, ``natural_robustness``, ``transfer`` and ``budgets``.
        warnings: Warnings for the reader.
        published: Published figures of reference models on the same data sets.
        models: Notes and sizes of the models.
        comparison: Ranks of the models; None if there is one model.
    """

    families: Mapping[str, Sequence[Any]]
    warnings: Sequence[str]
    published: Sequence[PublishedFigure] = ()
    models: Sequence[ReportModel] = ()
    comparison: Comparison | None = None

    def facts(self) -> dict[str, Any]:
        """Return the contents as built-in types that can be written as JSON."""
        facts = asdict(self)
        families: dict[str, Any] = facts.pop("families")
        return {**families, **facts}
