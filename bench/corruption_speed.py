"""Every corruption and severity: ours, the peers, and the JPEG encoding of the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import corruptions
from bench.peers import Corrupt, works
from bench.timing import medians
from pipeline.encoders import jpeg

Image = NDArray[np.uint8]
SEVERITIES = (1, 2, 3, 4, 5)
OURS, ENCODING = "robustshards", "JPEG encoding"


@dataclass(frozen=True)
class Row:
    """Mean over the severities of median milliseconds, by who; ``fastest`` is the mean of each severity's fastest peer."""

    name: str
    milliseconds: Mapping[str, float]
    fastest: float

    @property
    def ratio(self) -> float:
        """How many times faster than the fastest peer."""
        return self.fastest / self.milliseconds[OURS]


def measure(image: Image, profile: str, peers: Mapping[str, Corrupt], seconds: float) -> list[Row]:
    """One row per corruption, all 19; ``seconds`` is spent on each severity."""
    return [_row(image, name, profile, peers, seconds) for name in corruptions.names("all")]


def _row(image: Image, name: str, profile: str, peers: Mapping[str, Corrupt], seconds: float) -> Row:
    encode = jpeg(85, True).encode
    able = {peer: corrupt for peer, corrupt in peers.items() if works(corrupt, image, name, 3)}
    times = []
    for severity in SEVERITIES:
        seeds = iter(range(1 << 62))
        output = corruptions.corrupt(image, name, severity, profile=profile)
        calls = {
            OURS: lambda severity=severity: corruptions.corrupt(
                image, name, severity, profile=profile, seed=next(seeds)
            ),
            ENCODING: lambda output=output: encode(output),
        }
        for peer, corrupt in able.items():
            calls[peer] = lambda corrupt=corrupt, severity=severity: corrupt(image, name, severity)
        times.append(medians(calls, seconds))
    means = {who: float(np.mean([each[who] for each in times])) for who in times[0]}
    fastest = [min(each[peer] for peer in able) for each in times]
    return Row(name, means, float(np.mean(fastest)))
