"""Time of our own resize operators of OpenCV's pixels, against ``cv2.resize`` on one thread."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import cv2
import numpy as np

from bench.report import section, table
from bench.timing import Call, medians
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


def measure(seconds: float) -> str:
    """Return the section of each operator in each case, and of OpenCV, which always resizes the complete photograph.

    Each call is repeated for ``seconds`` per round.
    """
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    rows = []
    for case in CASES:
        image = np.random.default_rng(0).integers(0, 256, (*case.photograph, 3), np.uint8)
        for operator in INTERPOLATIONS:
            ours, opencv = _times(operator, case, image, seconds)
            sizes = (f"{height} x {width}" for height, width in case)
            rows.append((operator, *sizes, f"{ours:.3f}", f"{opencv:.3f}", f"{ours / opencv:.2f}"))
    cv2.setNumThreads(threads)
    head = ("operator", "photograph", "resized", "crop", "ms", "`cv2.resize`, ms", "ratio")
    return section("### Resize operators of our own", table(head, rows, left=4))


def _times(operator: str, case: Case, image: Image, seconds: float) -> Iterable[float]:
    """Return the median milliseconds of an operator and of OpenCV."""
    (height, width), window = case.resized, centre_window(*case.resized, *case.crop)
    resize, interpolation = OPERATORS[operator].resize, INTERPOLATIONS[operator]
    calls: tuple[Call, ...] = (
        lambda: resize(image, height, width, window),
        lambda: cv2.resize(image, (width, height), interpolation=interpolation),
    )
    return medians(dict(enumerate(calls)), seconds).values()
