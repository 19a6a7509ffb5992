"""Time of every corruption and severity: robustshards, published packages, and JPEG encoding of the output."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import matplotlib as mpl
import numpy as np
import PIL.Image
from numpy.typing import NDArray

import corruptions
from bench.images import jpeg_by_opencv
from bench.peers import DETECTION, Corrupt, works
from bench.report import section, table
from bench.timing import Call, medians, with_seeds
from corruptions.catalogue import SEVERITIES
from corruptions.literals import Name, Profile, Severity

mpl.use("Agg")
from matplotlib import pyplot as plt

Image = NDArray[np.uint8]
OURS, ENCODING = "robustshards", "JPEG encoding"


@dataclass(frozen=True)
class Row:
    """Median milliseconds of a corruption, averaged over the severities.

    ``fastest`` is the mean over the severities of the fastest package's time.
    """

    name: str
    milliseconds: Mapping[str, float]
    fastest: float

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
) -> list[Row]:
    """Return a row for each of the 19 corruptions.

    Each call has three turns of ``seconds`` per severity.
    """
    return [_row(image, name, profile, peers, seconds, severities) for name in corruptions.names("all")]


def mean_ratio(rows: Sequence[Row]) -> float:
    """Return the mean time of the fastest packages divided by the mean time of robustshards."""
    return sum(row.fastest for row in rows) / sum(row.milliseconds[OURS] for row in rows)


def _row(
    image: Image,
    name: Name,
    profile: Profile,
    peers: Mapping[str, Corrupt],
    seconds: float,
    severities: Sequence[Severity],
) -> Row:
    able = {peer: corrupt for peer, corrupt in peers.items() if works(corrupt, image, name, SEVERITIES[-1])}
    times = []
    for severity in severities:
        output = corruptions.corrupt(image, name, severity, profile=profile)
        calls: dict[str, Call] = {
            OURS: with_seeds(corruptions.corrupt, image, name, severity, profile=profile),
            ENCODING: partial(jpeg_by_opencv, output),
        }
        calls |= {peer: partial(corrupt, image, name, severity) for peer, corrupt in able.items()}
        times.append(medians(calls, seconds))
    means = {who: float(np.mean([each[who] for each in times])) for who in times[0]}
    fastest = [min(each[peer] for peer in able) for each in times]
    return Row(name, means, float(np.mean(fastest)))


def corruption_table(title: str, rows: Sequence[Row], peers: Sequence[str]) -> str:
    """Return the section of one image size: milliseconds, means over five severities."""
    cells = [_cells(row.name, row.milliseconds, f"{row.ratio:.1f}", peers) for row in rows]
    common = [who for who in (OURS, *peers, ENCODING) if all(who in row.milliseconds for row in rows)]
    means = {who: sum(row.milliseconds[who] for row in rows) / len(rows) for who in common}
    cells.append(_cells("**mean**", means, f"**{mean_ratio(rows):.1f}**", peers))
    head = ("corruption", "robustshards", *peers, "fastest package / robustshards", "JPEG encoding of the output")
    return section(f"### {title}", table(head, cells))


def detection(image: Image, height: int, width: int, packages: Mapping[str, Corrupt]) -> str:
    """Return the section of an image enlarged to a size for object detection, beside the package that supports it."""
    native = np.asarray(PIL.Image.fromarray(image).resize((width, height), PIL.Image.Resampling.BICUBIC))
    peers = {DETECTION: packages[DETECTION]}
    rows = measure(native, "detection", peers, 0, severities=[3])
    return corruption_table(f"Object detection, {height} x {width}, severity 3", rows, list(peers))


def _cells(name: str, times: Mapping[str, float], ratio: str, peers: Sequence[str]) -> tuple[str, ...]:
    ours, *others, encoding = (f"{times[who]:.3f}" if who in times else "-" for who in (OURS, *peers, ENCODING))
    return name, ours, *others, ratio, encoding


def plot(rows: Sequence[Row], path: Path) -> None:
    """Plot robustshards, the fastest package and JPEG encoding as bars on a logarithmic axis."""
    figure, axes = plt.subplots(figsize=(9, 7), layout="constrained")
    positions = range(len(rows))
    series = [
        ("fastest published package", [row.fastest for row in rows], "#c9c9c9"),
        ("JPEG encoding of the output", [row.milliseconds[ENCODING] for row in rows], "#8fb8de"),
        ("robustshards", [row.milliseconds[OURS] for row in rows], "#d1495b"),
    ]
    for index, (label, values, colour) in enumerate(series):
        axes.barh(
            [position + (1 - index) * 0.27 for position in positions], values, height=0.27, label=label, color=colour
        )
    axes.set_yticks(list(positions), [f"{row.name}  {row.ratio:.0f} x" for row in rows])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("milliseconds per 224 x 224 image, mean of five severities, one thread")
    axes.set_title(f"Corruptions: {mean_ratio(rows):.0f} times as fast as the fastest published package per corruption")
    axes.legend(loc="lower right")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)
