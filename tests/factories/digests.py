"""Digests of the files of a build, to compare builds."""

import hashlib
from pathlib import Path


def data_digests(folder: Path) -> dict[str, str]:
    """Return path -> SHA-256 of the shards, manifest parts, merged manifest and recipe. Run records are excluded."""
    files = [*folder.rglob("*.tar"), *folder.rglob("*.parquet"), folder / "recipe.toml"]
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(files)}
