"""The contents of a report: the papers' metrics, with confidence intervals over images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Summary:
    """The contents of a report.

    Attributes:
        families: Summaries of the evaluations of each family, by key of its layout, in the order of the report. The
            built-in keys are ``corruptions``, ``perturbations``, ``system_noise``, ``shifts``, ``anomalies`` and
            ``clean``.
        warnings: Warnings for the reader.
    """

    families: Mapping[str, Sequence[Any]]
    warnings: Sequence[str]

    def facts(self) -> dict[str, Any]:
        """Return the contents as built-in types that can be written as JSON."""
        facts = asdict(self)
        families: dict[str, Any] = facts.pop("families")
        return {**families, **facts}
