"""Exports by the command, and rows of the exported data sets."""

from pathlib import Path

import manifests
from manifests import Row
from tests.conftest import Run


def rows_of(data: Path) -> list[Row]:
    """Return the rows of a data set's manifest."""
    return list(manifests.read_rows(data / "manifest.parquet"))


def exported(robustshards: Run, data: Path, to: str, out: Path, *more: object) -> dict[str, int]:
    """Export a data set by the command, and return the counts that it prints."""
    facts: dict[str, int] = robustshards.facts("export", data, "--to", to, "--out", out, *more)
    return facts
