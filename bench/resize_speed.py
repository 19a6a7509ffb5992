"""Time of our own resize operators of OpenCV's pixels, against ``cv2.resize`` on one thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import cv2
import numpy as np

from bench.timing import medians
from corruptions.preparation import Image, centre_window
from pipeline.images.resizers import OPERATORS

INTERPOLATIONS: Mapping[str, int] = {
    "opencv-bilinear": cv2.INTER_LINEAR,
    "opencv-area": cv2.INTER_AREA,
    "opencv-bicubic": cv2.INTER_CUBIC,
}
"""Operator -> the interpolation of OpenCV whose pixels it computes."""


class Case(NamedTuple):
    """Sizes (height, width) in pixels of a photograph, the resized photograph, and its central crop."""

    photograph: tuple[int, int]
    resized: tuple[int, int]
    crop: tuple[int, int]


CASES = (
    Case((375, 500), (256, 341), (224, 224)),
    Case((375, 500), (256, 256), (224, 224)),
    Case((375, 500), (256, 341), (256, 341)),
    Case((1500, 2000), (256, 341), (224, 224)),
    Case((32, 32), (224, 224), (224, 224)),
)
"""Preparations of ImageNet-C and ImageNet-S, one without a crop, one of a large photograph, and an enlargement."""


class ResizeSpeed(NamedTuple):
    """Median milliseconds of an operator and of OpenCV, which always resizes the complete photograph."""

    operator: str
    case: Case
    ours: float
    opencv: float


def measure(seconds: float) -> Iterator[ResizeSpeed]:
    """Yield the time of each operator in each case. Each call is repeated for ``seconds`` per round."""
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    for case in CASES:
        image = np.random.default_rng(0).integers(0, 256, (*case.photograph, 3), np.uint8)
        for operator in INTERPOLATIONS:
            yield _measured(operator, case, image, seconds)
    cv2.setNumThreads(threads)


def _measured(operator: str, case: Case, image: Image, seconds: float) -> ResizeSpeed:
    (height, width), window = case.resized, centre_window(*case.resized, *case.crop)
    resize, interpolation = OPERATORS[operator].resize, INTERPOLATIONS[operator]
    times = medians(
        {
            "ours": lambda: resize(image, height, width, window),
            "opencv": lambda: cv2.resize(image, (width, height), interpolation=interpolation),
        },
        seconds,
    )
    return ResizeSpeed(operator, case, **times)


def table(speeds: Iterable[ResizeSpeed]) -> str:
    """Return the measurements as a table."""
    lines = [
        "### Resize operators of our own",
        "",
        "| operator | photograph | resized | crop | ms | `cv2.resize`, ms | ratio |",
        "|---|---|---|---|---:|---:|---:|",
    ]
    for operator, case, ours, opencv in speeds:
        sizes = " | ".join(f"{height} x {width}" for height, width in case)
        lines.append(f"| {operator} | {sizes} | {ours:.3f} | {opencv:.3f} | {ours / opencv:.2f} |")
    return "\n".join(lines)
