"""Digests of what a build wrote, for comparisons between builds."""

from __future__ import annotations

import hashlib
from pathlib import Path


def data_digests(folder: Path) -> dict[str, str]:
    """sha256 of every shard, manifest part and of the merged manifest and recipe, by path; runs are left out."""
    files = [*folder.rglob("*.tar"), *folder.rglob("*.parquet"), folder / "recipe.toml"]
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(files)}
