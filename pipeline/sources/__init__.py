"""Where clean images come from: one file per layout, one row per kind here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pipeline.errors import UserError
from pipeline.sources.base import Source, SourceImage
from pipeline.sources.imagefolder import ImageFolder

KINDS: Mapping[str, Callable[[Path], Source]] = {"imagefolder": ImageFolder}
"""Source kind -> its reader."""

__all__ = ["KINDS", "Source", "SourceImage", "open_source"]


def open_source(kind: str, location: str) -> Source:
    """The source of this kind at ``location``. Raises UserError if there is none."""
    if kind not in KINDS:
        raise UserError(f"source kind {kind!r} is unknown; allowed: {', '.join(KINDS)}")
    path = Path(location)
    if not path.exists():
        raise UserError(f"the source {location} does not exist; give the folder that holds the class folders")
    return KINDS[kind](path)
