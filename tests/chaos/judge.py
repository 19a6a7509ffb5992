"""Checks of a data set after a trial."""

from collections.abc import Collection, Iterator
from pathlib import Path

from manifests import OK
from tests.factories.data_sets import data_digests, rows_of

_SHOWN = 5


def differences(made: Path, reference: Path) -> Iterator[str]:
    """Yield the differences between the files of a data set and those of the undisturbed build."""
    actual, expected = data_digests(made), data_digests(reference)
    common = actual.keys() & expected.keys()
    yield from _problem("missing files", expected.keys() - actual.keys())
    yield from _problem("unexpected files", actual.keys() - expected.keys())
    yield from _problem("files with other bytes", [name for name in common if actual[name] != expected[name]])


def failures(made: Path, touched: Collection[str], certain: bool) -> tuple[int, list[str]]:
    """Return the number of failed samples, and problems with them.

    Args:
        made: Folder of the data set.
        touched: Ids of images whose samples may have failed.
        certain: Whether all samples of the touched images must have failed.
    """
    rows = rows_of(made)
    failed = {row.key for row in rows if row.status != OK}
    of_touched = {row.key for row in rows if row.source_id in touched}
    problems = [*_problem("samples that failed without cause", failed - of_touched)]
    if certain:
        problems += _problem("samples not recorded as failed", of_touched - failed)
    return len(failed), problems


def _problem(what: str, names: Collection[str]) -> Iterator[str]:
    if names:
        yield f"{len(names)} {what}: {', '.join(sorted(names)[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''}"
