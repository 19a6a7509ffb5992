"""Time of every candidate of ImageNet-Syn2Nat: robustshards, and albumentations where a transform means the same."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from math import sqrt
from types import ModuleType
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

import corruptions
from bench.peers import ALBUMENTATIONS
from bench.report import section, table
from bench.timing import Call, medians, with_seeds

Image = NDArray[np.uint8]
OURS, PEER = "robustshards", ALBUMENTATIONS[0]

SAME: Mapping[str, Callable[[Any], Any]] = {
    "Affines": lambda a: a.Affine(scale=(0.6, 0.8), border_mode=cv2.BORDER_REFLECT_101, p=1),
    "Blur": lambda a: a.Blur(blur_limit=(5, 9), p=1),
    "Border": lambda a: a.Sequential([a.CenterCrop(130, 130, p=1), a.PadIfNeeded(224, 224, p=1)], p=1),
    "ChannelDropout": lambda a: a.ChannelDropout(p=1),
    "CoarseDropout": lambda a: a.CoarseDropout(
        num_holes_range=(16, 48), hole_height_range=(8, 8), hole_width_range=(8, 8), p=1
    ),
    "ColorJitter": lambda a: a.ColorJitter((0.3, 1.7), (0.3, 1.7), (0.3, 1.7), (-0.5, 0.5), p=1),
    "Downscale": lambda a: a.Downscale(scale_range=(0.45, 0.45), p=1),
    "Emboss": lambda a: a.Emboss(alpha=(1, 1), strength=(0.2, 0.7), p=1),
    "Flip": lambda a: a.OneOf(
        [a.HorizontalFlip(p=1), a.VerticalFlip(p=1), a.Sequential([a.HorizontalFlip(p=1), a.VerticalFlip(p=1)], p=1)],
        p=1,
    ),
    "GaussianBlur": lambda a: a.GaussianBlur(blur_limit=(9, 13), sigma_limit=(1.7, 2.3), p=1),
    "GaussNoise": lambda a: a.GaussNoise(std_range=(sqrt(500) / 255, sqrt(1000) / 255), p=1),
    "HueSaturationValue": lambda a: a.HueSaturationValue(100, 150, 100, p=1),
    "ImageCompression": lambda a: a.ImageCompression(quality_range=(5, 15), p=1),
    "InvertImg": lambda a: a.InvertImg(p=1),
    "JpegCompression": lambda a: a.ImageCompression(quality_range=(5, 15), p=1),
    "MedianBlur": lambda a: a.MedianBlur(blur_limit=(5, 11), p=1),
    "MultiplicativeNoise": lambda a: a.MultiplicativeNoise(multiplier=(0.7, 1.3), elementwise=True, p=1),
    "Posterize": lambda a: a.Posterize(num_bits=2, p=1),
    "RandomBrightness": lambda a: a.RandomBrightnessContrast(0.9, (0, 0), p=1),
    "RandomContrast": lambda a: a.RandomBrightnessContrast((0, 0), 1.5, p=1),
    "RandomGamma": lambda a: a.RandomGamma(gamma_limit=(300, 1000), p=1),
    "RandomGridShuffle": lambda a: a.RandomGridShuffle(grid=(4, 4), p=1),
    "RandomSnow": lambda a: a.RandomSnow(p=1),
    "RGBShift": lambda a: a.RGBShift(200, 200, 200, p=1),
    "Sharpen": lambda a: a.Sharpen(alpha=(0.3, 0.6), lightness=(0.6, 1.0), p=1),
    "Solarize": lambda a: a.Solarize(threshold_range=(200 / 255, 200 / 255), p=1),
    "ToSepia": lambda a: a.ToSepia(p=1),
}
"""Candidate -> function of the module albumentations that makes the transform with the same meaning. Other candidates
are something else there, under the same name or none."""

NEARLY = frozenset({"Affines", "ColorJitter", "GaussianBlur", "GaussNoise"})
"""Candidates whose transform has slightly different pixels or a smaller range of draws."""


NOTE = (
    f"Draws are included. ≈ marks transforms of {PEER} with slightly different pixels or a smaller range of draws. "
    "Those with another meaning are not measured."
)


class CandidateTime(NamedTuple):
    """Median milliseconds of one candidate. ``peer`` is None if no transform of albumentations means the same."""

    name: str
    ours: float
    peer: float | None


def measure(image: Image, albumentations: ModuleType, seconds: float) -> str:
    """Return the section of the 40 candidates, with means over all of them and over the benchmark.

    Each call has three turns of ``seconds``.
    """
    cv2.setNumThreads(1)
    rows = []
    for name in corruptions.names("candidates"):
        calls: dict[str, Call] = {OURS: with_seeds(corruptions.corrupt, image, name)}
        if name in SAME:
            calls[PEER] = partial(SAME[name](albumentations), image=image)
        times = medians(calls, seconds)
        rows.append(CandidateTime(name, times[OURS], times.get(PEER)))
    both = [row for row in rows if row.peer is not None]
    ours, theirs = sum(row.ours for row in both), sum(row.peer or 0 for row in both)
    cells = [
        *map(_cells, rows),
        (f"**mean of {len(rows)}**", f"{_mean(rows, corruptions.names('candidates')):.3f}", "-", "-"),
        ("**mean of the benchmark's 18**", f"{_mean(rows, corruptions.names('syn2nat')):.3f}", "-", "-"),
        (
            f"**mean of the {len(both)} that both have**",
            *(f"{ours / len(both):.3f}", f"{theirs / len(both):.3f}", f"**{theirs / ours:.1f}**"),
        ),
    ]
    head = ("candidate", OURS, PEER, f"{PEER.partition('=')[0]} / {OURS}")
    return section("### Candidates of ImageNet-Syn2Nat, 224 x 224", table(head, cells), NOTE)


def _cells(row: CandidateTime) -> tuple[str, ...]:
    if row.peer is None:
        return row.name, f"{row.ours:.3f}", "-", "-"
    return row.name, f"{row.ours:.3f}", f"{'≈ ' * (row.name in NEARLY)}{row.peer:.3f}", f"{row.peer / row.ours:.1f}"


def _mean(rows: Sequence[CandidateTime], names: Collection[str]) -> float:
    return float(np.mean([row.ours for row in rows if row.name in names]))
