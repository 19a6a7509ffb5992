"""What must hold after a trial, and what is wrong where it does not."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet

from tests.factories.digests import data_digests

_SHOWN = 5
_LASTING = ("source_sha256", "label", "class_name", "frames", "height", "width", "payload_sha256", "pixel_sha256")
"""Columns that a sample has whatever becomes of others in its shard."""

Rows = dict[str, dict[str, Any]]


def differences(made: Path, reference: Path) -> Iterator[str]:
    """Where a data set is not, file for file and byte for byte, the one of the undisturbed build."""
    here, wanted = data_digests(made), data_digests(reference)
    yield from _told("lost", sorted(wanted.keys() - here.keys()))
    yield from _told("too many", sorted(here.keys() - wanted.keys()))
    yield from _told("other bytes", sorted(name for name in here.keys() & wanted.keys() if here[name] != wanted[name]))


def failed_samples(made: Path) -> int:
    """How many samples are recorded as failed."""
    return sum(row["status"] != "ok" for row in _rows(made).values())


def unlike(made: Path, reference: Path, touched: Collection[str], certain: bool) -> Iterator[str]:
    """What is wrong with a data set of which samples of the ``touched`` images may have failed, or surely have."""
    here = _rows(made)
    wanted = _rows(reference)
    others = {key for key, row in wanted.items() if row["source_id"] not in touched}
    yield from _told("lost samples", sorted(others - here.keys()))
    yield from _told("samples from nowhere", sorted(here.keys() - wanted.keys()))
    yield from _told("failed without cause", sorted(key for key in others & here.keys() if here[key]["status"] != "ok"))
    sound = [key for key in here.keys() & wanted.keys() if here[key]["status"] == "ok"]
    yield from _told(
        "other content", sorted(key for key in sound if any(here[key][c] != wanted[key][c] for c in _LASTING))
    )
    if certain:
        yield from _told("not recorded as failed", sorted(key for key in sound if key not in others))


def _rows(folder: Path) -> Rows:
    columns = ["key", "source_id", "status", *_LASTING]
    rows = pyarrow.parquet.read_table(folder / "manifest.parquet", columns=columns).to_pylist()
    return {row["key"]: row for row in rows}


def _told(what: str, names: list[str]) -> Iterator[str]:
    if names:
        yield f"{len(names)} {what}: {', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''}"
