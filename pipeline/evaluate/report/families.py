"""The registry of reports: those of the project, and those that installed packages add."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pipeline.errors import UserError
from pipeline.evaluate.report import anomalies, clean, imagenet_c, imagenet_p, imagenet_s
from pipeline.evaluate.report.default import default_report
from pipeline.evaluate.report.family import ReportFamily, ReportLayout
from pipeline.transforms.registry import FAMILIES

ENTRY_POINTS = "robustshards.reports"
"""Entry points of installed packages that are reports, each called like its family."""

REPORTS: Sequence[ReportFamily[Any]] = (imagenet_c.REPORT, imagenet_p.REPORT, imagenet_s.REPORT, clean.REPORT)
"""The project's reports: one row per family that the default report does not serve."""

_KEY = re.compile(r"[a-z0-9][a-z0-9_]*")
_RESERVED = frozenset({anomalies.LAYOUT.key, "generator", "warnings"})
"""Keys of ``report.json`` that are of no family."""


def report_of(family: str) -> ReportFamily[Any]:
    """Return the report on a family: its own, or the default one if its transforms give images.

    Raises:
        UserError: The family has no report and gives sequences, which the default report does not serve, or its report
            is invalid.
    """
    if own := next((report for report in REPORTS if report.name == family), None):
        return own
    if points := entry_points(group=ENTRY_POINTS, name=family):
        return _installed(next(iter(points)), family)
    if FAMILIES[family].sequences:
        raise UserError(
            f"the family {family!r} has no report, and the default one is not for sequences: install a package with an "
            f"entry point {family!r} in the group {ENTRY_POINTS!r}"
        )
    return default_report(FAMILIES[family])


def layouts() -> dict[str, ReportLayout[Any]]:
    """Return key -> layout of every report, in the order of a report.

    Raises:
        UserError: As ``report_of``, and where a key is invalid or of two reports. A family without a report is left
            out.
    """
    found: dict[str, ReportLayout[Any]] = {}
    for name in FAMILIES:
        if not has_report(name):
            continue
        layout = report_of(name).layout
        if layout.key in found:
            raise UserError(f"two reports have the key {layout.key!r}: the later one, of {name!r}, needs another key")
        if not _KEY.fullmatch(layout.key) or layout.key in _RESERVED:
            raise UserError(
                f"the report on {name!r} has the invalid key {layout.key!r}: use lower case letters, digits and "
                f"underscores, and none of {', '.join(sorted(_RESERVED))}"
            )
        found[layout.key] = layout
    return found


def has_report(family: str) -> bool:
    """Return whether a family has a report of its own, or the default one serves it."""
    own = {report.name for report in REPORTS} | entry_points(group=ENTRY_POINTS).names
    return family in own or not FAMILIES[family].sequences


def _installed(point: EntryPoint, family: str) -> ReportFamily[Any]:
    """Load the report of an installed package."""
    package = point.dist.name if point.dist else "unknown"
    where = f"the report {point.name!r} ({point.value}) of the installed package {package!r}"
    try:
        report = point.load()
    except Exception as error:  # importing the code of others raises anything
        what = f"{type(error).__name__}: {error}"
        raise UserError(f"{where} cannot be loaded: {what}; repair or uninstall that package") from error
    if not isinstance(report, ReportFamily):
        raise UserError(f"{where} is a {type(report).__name__}: it must be a {ReportFamily.__name__}")
    if report.name != family:
        raise UserError(f"{where} is on the family {report.name!r}: name the entry point like its family")
    return report
