"""Exports by the command, and rows of the exported data sets."""

from __future__ import annotations

import json
from pathlib import Path

import manifests
from manifests import Row
from tests.conftest import Run


def rows_of(data: Path) -> list[Row]:
    """Return the rows of a data set's manifest."""
    return list(manifests.read_rows(data / "manifest.parquet"))


def exported(robustshards: Run, data: Path, to: str, out: Path, *more: object) -> dict[str, int]:
    """Export a data set by the command, and return the counts that it prints."""
    done = robustshards("export", data, "--to", to, "--out", out, "--json", *more)
    assert done.returncode == 0, done.stderr
    facts: dict[str, int] = json.loads(done.stdout)
    return facts
