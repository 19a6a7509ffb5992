"""The report on images of no class, told apart from clean ones by the model's confidence."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.evaluate.report.estimates import Estimate


@dataclass(frozen=True)
class _Anomalies:
    """One entry of ``Summary.anomalies``, in the form of the other summaries."""

    model: str
    aupr: Estimate
    data_set: str = ""
