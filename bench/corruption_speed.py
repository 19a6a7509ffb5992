"""Time of every corruption and severity: robustshards, published packages, and JPEG encoding of the output."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

import corruptions
from bench.peers import Corrupt, works
from bench.timing import LEAST_CALLS, medians
from corruptions.catalogue import SEVERITIES
from corruptions.literals import Name, Profile, Severity
from pipeline.images.encoders import Jpeg

Image = NDArray[np.uint8]
OURS, ENCODING = "robustshards", "JPEG encoding"


@dataclass(frozen=True)
class Row:
    """Median milliseconds of a corruption, averaged over the severities.

    ``fastest`` is the mean over the severities of the fastest package's time. ``peer`` is the package that is fastest
    on average.
    """

    name: str
    milliseconds: Mapping[str, float]
    fastest: float
    peer: str

    @property
    def ratio(self) -> float:
        """Return the time of the fastest package divided by that of robustshards."""
        return self.fastest / self.milliseconds[OURS]


def measure(
    image: Image,
    profile: Profile,
    peers: Mapping[str, Corrupt],
    seconds: float,
    severities: Sequence[Severity] = SEVERITIES,
    least: int = LEAST_CALLS,
) -> list[Row]:
    """Return a row for each of the 19 corruptions.

    Each call has three turns per severity, of ``seconds`` or of ``least`` calls.
    """
    return [_row(image, name, profile, peers, seconds, severities, least) for name in corruptions.names("all")]


def mean_ratio(rows: list[Row]) -> float:
    """Return the mean time of the fastest packages divided by the mean time of robustshards."""
    return sum(row.fastest for row in rows) / sum(row.milliseconds[OURS] for row in rows)


def _row(
    image: Image,
    name: Name,
    profile: Profile,
    peers: Mapping[str, Corrupt],
    seconds: float,
    severities: Sequence[Severity],
    least: int,
) -> Row:
    able = {peer: corrupt for peer, corrupt in peers.items() if works(corrupt, image, name, SEVERITIES[-1])}
    times = []
    for severity in severities:
        output = corruptions.corrupt(image, name, severity, profile=profile)
        calls: dict[str, Callable[[], object]] = {
            OURS: partial(_ours, image, name, severity, profile, iter(range(1 << 62))),
            ENCODING: partial(Jpeg().encode, output),
        }
        calls |= {peer: partial(corrupt, image, name, severity) for peer, corrupt in able.items()}
        times.append(medians(calls, seconds, least))
    means = {who: float(np.mean([each[who] for each in times])) for who in times[0]}
    fastest = [min(each[peer] for peer in able) for each in times]
    return Row(name, means, float(np.mean(fastest)), min(able, key=lambda peer: means[peer]))


def _ours(image: Image, name: Name, severity: Severity, profile: Profile, seeds: Iterator[int]) -> Image:
    """Corrupt an image with a new seed at each call, as in a build."""
    return corruptions.corrupt(image, name, severity, profile=profile, seed=next(seeds))
