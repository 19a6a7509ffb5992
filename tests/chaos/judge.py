"""Checks of a data set after a trial."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet

from tests.factories.data_sets import data_digests

_SHOWN = 5
_LASTING = ("source_sha256", "label", "class_name", "frames", "height", "width", "payload_sha256", "pixel_sha256")
"""Columns of a sample that do not depend on other samples of its shard."""

Rows = dict[str, dict[str, Any]]


def differences(made: Path, reference: Path) -> Iterator[str]:
    """Yield the differences between the files of a data set and those of the undisturbed build."""
    actual, expected = data_digests(made), data_digests(reference)
    common = actual.keys() & expected.keys()
    yield from _problem("missing files", sorted(expected.keys() - actual.keys()))
    yield from _problem("unexpected files", sorted(actual.keys() - expected.keys()))
    yield from _problem("files with other bytes", sorted(name for name in common if actual[name] != expected[name]))


def failed_samples(made: Path) -> int:
    """Return the number of samples that are recorded as failed."""
    return sum(row["status"] != "ok" for row in _rows(made).values())


def sample_problems(made: Path, reference: Path, touched: Collection[str], certain: bool) -> Iterator[str]:
    """Yield problems with the samples of a data set.

    Args:
        made: Folder of the data set.
        reference: Folder of the undisturbed build.
        touched: Ids of images whose samples may have failed.
        certain: Whether all samples of the touched images must have failed.
    """
    actual, expected = _rows(made), _rows(reference)
    others = {key for key, row in expected.items() if row["source_id"] not in touched}
    failed = {key for key, row in actual.items() if row["status"] != "ok"}
    yield from _problem("missing samples", sorted(others - actual.keys()))
    yield from _problem("unexpected samples", sorted(actual.keys() - expected.keys()))
    yield from _problem("samples that failed without cause", sorted(others & failed))
    valid = sorted((actual.keys() & expected.keys()) - failed)
    yield from _problem(
        "samples with other content",
        [key for key in valid if any(actual[key][c] != expected[key][c] for c in _LASTING)],
    )
    if certain:
        yield from _problem("samples not recorded as failed", [key for key in valid if key not in others])


def _rows(folder: Path) -> Rows:
    columns = ["key", "source_id", "status", *_LASTING]
    rows = pyarrow.parquet.read_table(folder / "manifest.parquet", columns=columns).to_pylist()
    return {row["key"]: row for row in rows}


def _problem(what: str, names: list[str]) -> Iterator[str]:
    if names:
        yield f"{len(names)} {what}: {', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''}"
