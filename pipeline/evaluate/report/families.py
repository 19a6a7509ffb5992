"""The registry of reports: built-in ones, and those of installed packages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pipeline.errors import UserError
from pipeline.evaluate.report import (
    adversarial,
    anomalies,
    budgets,
    clean,
    imagenet_c,
    imagenet_c_bar,
    imagenet_p,
    imagenet_s,
    low_pass,
    natural_robustness,
    shifts,
    syn2nat,
    transfer,
)
from pipeline.evaluate.report.default import default_report
from pipeline.evaluate.report.family import ReportFamily, ReportLayout
from pipeline.evaluate.report.scores import role_of
from pipeline.tasks.schema import Role, Task
from pipeline.transforms.registry import FAMILIES

ENTRY_POINTS = "robustshards.reports"
"""Entry point group for the reports of installed packages; the name of an entry point is that of its family."""

REPORTS: Sequence[ReportFamily[Any]] = (
    imagenet_c.REPORT,
    imagenet_p.REPORT,
    imagenet_s.REPORT,
    syn2nat.REPORT,
    imagenet_c_bar.REPORT,
    low_pass.REPORT,
    adversarial.REPORT,
    clean.REPORT,
)
"""Built-in reports; families that are not listed use the default report."""

ROLE_REPORTS: Mapping[Role, ReportFamily[Any]] = {
    "shift": shifts.REPORT,
    "anomalous": anomalies.REPORT,
    "clean": clean.REPORT,
}
"""Reports on images without a transform, by their role, in the order of sections in a report."""

JOINT_LAYOUTS: Sequence[ReportLayout[Any]] = (natural_robustness.LAYOUT, transfer.LAYOUT, budgets.LAYOUT)
"""Figures of several data sets, and those that are not of predictions, in the order of sections in a report."""

_KEY = re.compile(r"[a-z0-9][a-z0-9_]*")
_RESERVED = frozenset(
    {
        *(report.layout.key for report in ROLE_REPORTS.values()),
        *(layout.key for layout in JOINT_LAYOUTS),
        *("comparison", "generator", "models", "published", "warnings"),
    }
)
"""Keys of ``report.json`` that do not belong to a family."""


def report_on(family: str, task: Task | None) -> ReportFamily[Any]:
    """Return the report on a data set: by the role of its images, or by the family of their transforms.

    Raises:
        UserError: If the installed report is invalid, or a family of sequences has no report of its own.
    """
    role = role_of(family, task)
    return ROLE_REPORTS[role] if role else report_of(family)


def report_of(family: str) -> ReportFamily[Any]:
    """Return the report on a family: built-in, installed, or the default one for families of images.

    Raises:
        UserError: If the installed report is invalid, or a family of sequences has no report of its own.
    """
    if own := next((report for report in REPORTS if report.name == family), None):
        return own
    if points := entry_points(group=ENTRY_POINTS, name=family):
        return _installed(next(iter(points)), family)
    if FAMILIES[family].sequences:
        raise UserError(
            f"the family {family!r} has no report, and the default report does not support sequences: install a "
            f"package with an entry point {family!r} in the group {ENTRY_POINTS!r}"
        )
    return default_report(FAMILIES[family])


def layouts() -> dict[str, ReportLayout[Any]]:
    """Return the layout of every report by its key, in the order of sections in a report.

    Families of transforms come first, then images without a transform by their role, then figures of several data
    sets. Families of sequences without a report are omitted.

    Raises:
        UserError: If an installed report is invalid, or a key is invalid or used by two reports.
    """
    by_key: dict[str, ReportLayout[Any]] = {}
    for name in FAMILIES:
        if name == clean.REPORT.name or not has_report(name):
            continue
        layout = report_of(name).layout
        if layout.key in by_key:
            raise UserError(
                f"two reports have the key {layout.key!r}: use another key in the report on the family {name!r}"
            )
        if not _KEY.fullmatch(layout.key) or layout.key in _RESERVED:
            raise UserError(
                f"the report on {name!r} has the invalid key {layout.key!r}: use lower case letters, digits and "
                f"underscores; {', '.join(sorted(_RESERVED))} are reserved"
            )
        by_key[layout.key] = layout
    by_role = {report.layout.key: report.layout for report in ROLE_REPORTS.values()}
    return by_key | by_role | {layout.key: layout for layout in JOINT_LAYOUTS}


def has_report(family: str) -> bool:
    """Return whether a family has a report of its own or can use the default report."""
    own = {report.name for report in REPORTS} | entry_points(group=ENTRY_POINTS).names
    return family in own or not FAMILIES[family].sequences


def _installed(point: EntryPoint, family: str) -> ReportFamily[Any]:
    """Load the report of an installed package. Raise UserError if it is invalid."""
    package = point.dist.name if point.dist else "unknown"
    where = f"the report {point.name!r} ({point.value}) of the installed package {package!r}"
    try:
        report = point.load()
    except Exception as error:  # third-party code can raise any exception
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"{where} cannot be loaded: {reason}; fix or uninstall the package") from error
    if not isinstance(report, ReportFamily):
        raise UserError(f"{where} is a {type(report).__name__}: it must be a {ReportFamily.__name__}")
    if report.name != family:
        raise UserError(f"{where} is for the family {report.name!r}: rename the entry point to {report.name!r}")
    return report
