"""Time of every corruption of ImageNet-C-bar and CIFAR-10-C-bar: robustshards, and the published arithmetic."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import corruptions
from bench.published_c_bar import ARITHMETIC
from bench.report import section, table
from bench.timing import Call, medians, with_seeds
from corruptions import c_bar
from corruptions.catalogue import SEVERITIES

Image = NDArray[np.uint8]
OURS, PUBLISHED = "robustshards", "NumPy and SciPy"

NOTE = (
    f"Milliseconds, means over five severities, draws included. {PUBLISHED} is the published arithmetic on whole "
    "arrays (`bench/published_c_bar.py`), which gives the pixels of the authors' generator. That generator loops over "
    "pixels in Python and is not measured here."
)


class Times(NamedTuple):
    """Median milliseconds of one corruption, averaged over the severities."""

    name: str
    ours: float
    published: float


def times_of(
    name: str, calls: Callable[[Any], tuple[Call, Call]], seconds: float, severities: Iterable[Any] = SEVERITIES
) -> Times:
    """Return the times of a corruption. ``calls`` returns our call and the published one at a severity."""
    found = [medians(dict(enumerate(calls(each))), seconds) for each in severities]
    return Times(name, *(float(np.mean([each[which] for each in found])) for which in found[0]))


def measure(image: Image, title: str, profile: Any, seconds: float) -> str:
    """Return the section of the ten corruptions of a profile. Each call has three turns of ``seconds`` per severity."""

    def calls(name: Any, severity: Any) -> tuple[Call, Call]:
        level, rng = c_bar.CORRUPTIONS[name].parameters(profile, severity), np.random.RandomState(severity)
        ours = with_seeds(corruptions.corrupt, image, name, severity, profile=profile)
        return ours, partial(ARITHMETIC[name], image, level, rng)

    return times_section(
        title, [times_of(name, partial(calls, name), seconds) for name in c_bar.PUBLISHED[profile]], NOTE
    )


def times_section(title: str, rows: Sequence[Times], note: str) -> str:
    """Return the section of one data set, with means over its corruptions."""
    mean = Times("**mean**", *(sum(each) / len(rows) for each in zip(*(row[1:] for row in rows), strict=True)))
    cells = ((name, f"{ours:.3f}", f"{other:.2f}", f"{other / ours:.0f}") for name, ours, other in (*rows, mean))
    return section(f"### {title}", table(("corruption", OURS, PUBLISHED, f"{PUBLISHED} / {OURS}"), cells), note)
