"""Time of every corruption of ImageNet-C-bar and CIFAR-10-C-bar: robustshards, and the published arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import corruptions
from bench.published_c_bar import ARITHMETIC
from bench.report import markdown_line
from bench.timing import medians
from corruptions import c_bar
from corruptions.catalogue import SEVERITIES
from corruptions.literals import Severity

Image = NDArray[np.uint8]
OURS, PUBLISHED = "robustshards", "NumPy and SciPy"

NOTE = (
    f"Milliseconds, means over five severities, draws included. {PUBLISHED} is the published arithmetic on whole "
    "arrays (`bench/published_c_bar.py`), which gives the pixels of the authors' generator. That generator loops over "
    "pixels in Python and is not measured here."
)


@dataclass(frozen=True)
class BarTime:
    """Median milliseconds of one corruption, averaged over the severities."""

    name: str
    ours: float
    published: float


def measure(image: Image, profile: str, seconds: float) -> list[BarTime]:
    """Return the times of the ten corruptions of a profile. Each call has three turns of ``seconds`` per severity."""
    return [_measured(image, name, profile, seconds) for name in c_bar.PUBLISHED[profile]]


def _measured(image: Image, name: str, profile: str, seconds: float) -> BarTime:
    times = []
    for severity in SEVERITIES:
        level, rng = c_bar.CORRUPTIONS[name].parameters(profile, severity), np.random.RandomState(severity)
        calls = {
            OURS: partial(_ours, image, name, severity, profile, iter(range(1 << 62))),
            PUBLISHED: partial(ARITHMETIC[name], image, level, rng),
        }
        times.append(medians(calls, seconds))
    return BarTime(name, *(float(np.mean([each[who] for each in times])) for who in (OURS, PUBLISHED)))


def _ours(image: Image, name: Any, severity: Severity, profile: Any, seeds: Iterator[int]) -> Image:
    """Corrupt an image with a new seed at each call, as in a build."""
    return corruptions.corrupt(image, name, severity, profile=profile, seed=next(seeds))


def table(title: str, rows: Sequence[BarTime], note: str = NOTE) -> str:
    """Return the table of one data set, with means over its corruptions."""
    ours, published = (sum(each) / len(rows) for each in zip(*((row.ours, row.published) for row in rows), strict=True))
    lines = [
        f"### {title}",
        "",
        markdown_line(("corruption", OURS, PUBLISHED, f"{PUBLISHED} / {OURS}")),
        "|---|---:|---:|---:|",
        *(markdown_line(_cells(row.name, row.ours, row.published)) for row in rows),
        markdown_line(_cells("**mean**", ours, published)),
        "",
        note,
    ]
    return "\n".join(lines)


def _cells(name: str, ours: float, published: float) -> tuple[str, ...]:
    return name, f"{ours:.3f}", f"{published:.2f}", f"{published / ours:.0f}"
