"""Data sets that were built or exported: their rows, payloads and digests, and damage to them."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import manifests
from manifests import Row
from pipeline.datasets.paths import FACT_PLAN
from tests.factories.commands import Run

SHARD = "shards/contrast/3/contrast-3-000000.tar"
"""Path of a shard."""


def rows_of(data: Path) -> list[Row]:
    """Return the rows of a data set's manifest."""
    return list(manifests.read_rows(data / "manifest.parquet"))


def payload(data: Path, row: Row) -> bytes:
    """Return the bytes at the place that a row names."""
    return (data / row.shard).read_bytes()[row.offset or 0 :][: row.size]


def data_digests(folder: Path) -> dict[str, str]:
    """Return path -> SHA-256 of the shards, manifest parts, merged manifest and recipe. Run records are excluded."""
    files = [*folder.rglob("*.tar"), *folder.rglob("*.parquet"), folder / "recipe.toml"]
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(files)}


def exported(robustshards: Run, data: Path, to: str, out: Path, *more: object) -> dict[str, int]:
    """Export a data set by the command, and return the counts that it prints."""
    facts: dict[str, int] = robustshards.facts("export", data, "--to", to, "--out", out, *more)
    return facts


def rewrite(folder: Path, change: Callable[[list[Row]], list[Row]]) -> None:
    """Write the merged manifest again with changed rows."""
    path = folder / "manifest.parquet"
    manifests.write_part(change(rows_of(folder)), {FACT_PLAN: manifests.read_facts(path)[FACT_PLAN]}, path)


def change_row(folder: Path, **change: object) -> None:
    """Change the first row of the merged manifest."""
    rewrite(folder, lambda rows: [rows[0]._replace(**change), *rows[1:]])
