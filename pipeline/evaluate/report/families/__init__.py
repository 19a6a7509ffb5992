"""The registry of reports: built-in ones, and those of installed packages."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from pipeline.errors import UserError
from pipeline.evaluate.report.families import (
    accuracies,
    adversarial,
    budgets,
    detection,
    frequencies,
    imagenet_c,
    imagenet_c_bar,
    imagenet_p,
    natural,
    streams,
)
from pipeline.evaluate.report.load import role_of
from pipeline.evaluate.report.measures import FamilyReport
from pipeline.tasks.schema import Role, Task
from pipeline.transforms.registry import FAMILIES

ENTRY_POINTS = "robustshards.reports"
"""Entry point group for the reports of installed packages; the name of an entry point is that of its family."""

REPORTS: Sequence[FamilyReport] = (
    imagenet_c.REPORT,
    imagenet_p.REPORT,
    accuracies.IMAGENET_S,
    accuracies.SYN2NAT,
    imagenet_c_bar.REPORT,
    frequencies.LOW_PASS,
    accuracies.IMAGENET_3DCC,
    accuracies.IMAGENET_W,
    accuracies.LAION_C,
    frequencies.FOURIER,
    adversarial.REPORT,
)
"""Built-in reports on transforms; families that are not listed use the default report."""

ROLE_REPORTS: Mapping[Role, FamilyReport] = {
    "shift": natural.SHIFT_REPORT,
    "anomalous": natural.ANOMALY_REPORT,
    "clean": natural.CLEAN_REPORT,
}
"""Reports on images without a transform, by their role, in the order of sections in a report."""

NATURAL_ROBUSTNESS = "natural_robustness"  # key of the figures of several data sets
_KEY = re.compile(r"[a-z0-9][a-z0-9_]*")
_OTHERS = (*ROLE_REPORTS.values(), budgets.REPORT, streams.REPORT, detection.REPORT)
_RESERVED = frozenset({*(report.key for report in _OTHERS), NATURAL_ROBUSTNESS, "comparison", "models"})
"""Values of the column ``family`` that do not belong to a family of transforms."""


def report_on(family: str, task: Task | None) -> FamilyReport:
    """Return the report on a data set: by the role of its images, or by the family of their transforms.

    Raises:
        UserError: If the installed report is invalid, or a family of sequences has no report of its own.
    """
    role = role_of(family, task)
    return ROLE_REPORTS[role] if role else report_of(family)


def report_of(family: str) -> FamilyReport:
    """Return the report on a family of transforms: built-in, installed, or the default one for families of images.

    Raises:
        UserError: If the installed report is invalid, or a family of sequences has no report of its own.
    """
    if own := next((report for report in REPORTS if report.family == family), None):
        return own
    if point := _points().get(family):
        return _installed(point, family)
    if FAMILIES[family].sequences:
        raise UserError(
            f"the family {family!r} has no report, and the default report does not support sequences: install a "
            f"package with an entry point {family!r} in the group {ENTRY_POINTS!r}"
        )
    return accuracies.accuracy_report(FAMILIES[family])


def reports() -> dict[str, FamilyReport]:
    """Return every report by its key, in the order of sections: families of transforms, images without one, budgets.

    Families of sequences without a report are omitted.

    Raises:
        UserError: If an installed report is invalid, or a key is invalid or used by two reports.
    """
    by_key: dict[str, FamilyReport] = {}
    own = {report.family for report in REPORTS} | _points().keys()
    for name, family in FAMILIES.items():
        if name == natural.CLEAN_REPORT.family or (family.sequences and name not in own):
            continue
        report = report_of(name)
        if report.key in by_key:
            raise UserError(
                f"two reports have the key {report.key!r}: use another key in the report on the family {name!r}"
            )
        if not _KEY.fullmatch(report.key) or report.key in _RESERVED:
            raise UserError(
                f"the report on {name!r} has the invalid key {report.key!r}: use lower case letters, digits and "
                f"underscores; {', '.join(sorted(_RESERVED))} are reserved"
            )
        by_key[report.key] = report
    return by_key | {report.key: report for report in _OTHERS}


@cache
def _points() -> Mapping[str, EntryPoint]:
    """Return family -> entry point of an installed report."""
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def _installed(point: EntryPoint, family: str) -> FamilyReport:
    """Load the report of an installed package. Raise UserError if it is invalid."""
    package = point.dist.name if point.dist else "unknown"
    where = f"the report {point.name!r} ({point.value}) of the installed package {package!r}"
    try:
        report = point.load()
    except Exception as error:  # third-party code can raise any exception
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"{where} cannot be loaded: {reason}; fix or uninstall the package") from error
    if not isinstance(report, FamilyReport):
        raise UserError(f"{where} is a {type(report).__name__}: it must be a {FamilyReport.__name__}")
    if report.family != family:
        raise UserError(f"{where} is for the family {report.family!r}: rename the entry point to {report.family!r}")
    return report
