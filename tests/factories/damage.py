"""Damage to a finished data set: changed rows of its manifest."""

from collections.abc import Callable
from pathlib import Path

import manifests
from manifests import Row
from pipeline.datasets.paths import FACT_PLAN

SHARD = "shards/contrast/3/contrast-3-000000.tar"
"""Path of a shard."""


def rewrite(folder: Path, change: Callable[[list[Row]], list[Row]]) -> None:
    """Write the merged manifest again with changed rows."""
    path = folder / "manifest.parquet"
    rows = change(list(manifests.read_rows(path)))
    manifests.write_part(rows, {FACT_PLAN: manifests.read_facts(path)[FACT_PLAN]}, path)


def change_row(folder: Path, **change: object) -> None:
    """Change the first row of the merged manifest."""
    rewrite(folder, lambda rows: [rows[0]._replace(**change), *rows[1:]])
