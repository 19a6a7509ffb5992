"""What a report shows: the papers' figures, each with its confidence interval over images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.evaluate.metrics.bootstrap import Estimate


@dataclass(frozen=True)
class Summary:
    """Everything that a report shows.

    Attributes:
        families: Key of a family's layout -> the summaries of its evaluations, in the order of a report. The keys of
            the project's families are ``corruptions``, ``perturbations``, ``system_noise`` and ``clean``.
        anomalies: Model -> area under the precision-recall curve of the anomalies.
        warnings: What readers must know.
    """

    families: Mapping[str, Sequence[Any]]
    anomalies: Mapping[str, Estimate]
    warnings: Sequence[str]

    def facts(self) -> dict[str, Any]:
        """Return everything as built-in types, for JSON."""
        facts = asdict(self)
        families: dict[str, Any] = facts.pop("families")
        return {**families, **facts}
