"""Speed of making the images of a stream of CCC."""

import statistics
from pathlib import Path
from time import process_time

import numpy as np
from numpy.typing import NDArray

from bench.images import repeated
from bench.loader_speed import ROUNDS
from bench.report import section, table
from corruptions import ccc
from pipeline.render.ccc import CCCImages, ccc_images

STREAM = ccc.StreamKey(baseline=20, speed=100, seed=1)

LENGTH = 4000
"""Number of steps of the stream."""

STEPS = range(0, LENGTH, 50)
"""Steps that are measured."""


def measure(photographs: Path, scratch: Path) -> str:
    """Return the section of images with and without JPEG, measured in turns: medians of the rounds."""
    source = repeated(photographs, scratch / "ccc-source", STREAM.speed)
    ways = {"as published": _images(source, True), "pixels, without JPEG": _images(source, False)}
    for made in ways.values():  # decode the photographs, make the filters, and compile
        _rate(made)
    rounds = [[_rate(made) for made in ways.values()] for _ in range(ROUNDS)]
    medians = map(statistics.median, zip(*rounds, strict=True))
    rows = [(name, f"{value:,.0f}") for name, value in zip(ways, medians, strict=True)]
    note = (
        f"{len(STEPS)} steps of a walk with a matrix made by a formula, {STREAM.speed} images of each, decoded "
        "photographs remembered."
    )
    return section(
        "### Pairs of corruptions (CCC)", table(("one process, one thread", "images per CPU second"), rows), note
    )


def _images(photographs: Path, encode: bool) -> CCCImages:
    return ccc_images(str(photographs), _accuracies(), STREAM, LENGTH * STREAM.speed, encode=encode)


def _accuracies() -> dict[str, NDArray[np.float64]]:
    """Return matrices in which accuracy falls with both severities, in percent."""
    first, second = np.mgrid[: ccc.GRID, : ccc.GRID]
    falling = 80 * np.exp(-(first + second) / 14)
    return dict.fromkeys(ccc.pair_keys(ccc.names(STREAM.baseline)).values(), falling)


def _rate(made: CCCImages) -> float:
    start = process_time()
    for step in STEPS:
        for number in range(step * STREAM.speed, (step + 1) * STREAM.speed):
            made.render(made.at(number))
    return len(STEPS) * STREAM.speed / (process_time() - start)
