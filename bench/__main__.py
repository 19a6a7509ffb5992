"""``make bench``: run benchmarks and write their sections of docs/benchmark.md, and docs/benchmark.png."""

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from pathlib import Path

from pipeline.recipes import library

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_variable] = "1"  # must be set before NumPy and numba are imported

import numpy as np
from numpy.typing import NDArray

from bench import (
    build_speed,
    c_bar_speed,
    candidate_speed,
    ccc_speed,
    cifar_speed,
    corruption_speed,
    images,
    laion_c_speed,
    loader_speed,
    low_pass_speed,
    peers,
    rendered_speed,
    report,
    resize_speed,
    scaling,
    sequence_speed,
    single_speed,
    start_speed,
    style_speed,
)
from bench.compare import column, slower
from bench.corruption_speed import OURS
from pipeline.execution.processes import WORKER_ENVIRONMENT
from pipeline.images.resizers import prepare

FOLDER = Path("build/bench")
DOCS = Path("docs")
PAGE = DOCS / "benchmark.md"


@dataclass(frozen=True)
class Subject:
    """What the benchmarks measure. Each part is made or measured when a section first needs it."""

    seconds: float
    """Seconds per call and round."""
    scratch: Path = FOLDER / "scratch"

    @cached_property
    def photographs(self) -> Path:
        """The folder of photographs."""
        return images.photographs(FOLDER / "photographs").resolve()

    @cached_property
    def clean(self) -> NDArray[np.uint8]:
        """One of them, prepared for ImageNet-C, uint8 (224, 224, 3)."""
        (clean,) = images.clean_images(self.photographs, library.load("imagenet-c"), 1)
        return clean

    @cached_property
    def packages(self) -> Mapping[str, peers.Corrupt]:
        """The published packages."""
        return peers.load(FOLDER / "peers")

    @cached_property
    def large(self) -> Sequence[corruption_speed.Row]:
        """Times of all corruptions at 224 x 224."""
        return corruption_speed.measure(self.clean, "imagenet", self.packages, self.seconds)

    @cached_property
    def builds(self) -> Sequence[build_speed.BuildSpeed]:
        """Times of builds."""
        return build_speed.measure(self.photographs, self.scratch)

    def fastest(self, section: str) -> dict[str, str]:
        """Return the fastest package of each corruption, by a section of the page. Measuring all takes minutes."""
        text = report.sections(PAGE.read_text())[section]
        times = {package: column(text, package) for package in self.packages}
        return {row[1]: min(times, key=lambda package: times[package].get(row, inf)) for row in column(text, OURS)}

    def square(self, side: int) -> NDArray[np.uint8]:
        """Return the photograph with another side."""
        return prepare(self.clean, [("square", side)])


def corruptions(subject: Subject) -> str:
    """Return the table of corruptions at 224 x 224 below its plot."""
    table = corruption_speed.corruption_table("224 x 224", subject.large, list(subject.packages))
    return report.section("![Corruptions](benchmark.png)", table)


def builds(subject: Subject) -> str:
    """Return the table of builds."""
    fastest = subject.fastest("corruptions")
    peer = build_speed.measure_plain(subject.photographs, subject.scratch, subject.packages, fastest)
    return build_speed.build_section(subject.builds, peer)


def small(subject: Subject) -> str:
    """Return the table of corruptions at 32 x 32."""
    rows = corruption_speed.measure(subject.square(32), "cifar", subject.packages, subject.seconds / 3)
    return corruption_speed.corruption_table("32 x 32", rows, list(subject.packages))


KERNELS: Mapping[str, Callable[[Subject], str]] = {
    "corruptions": corruptions,
    "small": small,
    "detection": lambda it: corruption_speed.detection(it.clean, 480, 640, it.packages),
    "large-detection": lambda it: corruption_speed.detection(it.clean, 1024, 2048, it.packages),
    "candidates": lambda it: candidate_speed.measure(
        it.clean, peers.load_albumentations(FOLDER / "albumentations"), it.seconds
    ),
    "c-bar": lambda it: c_bar_speed.measure(it.clean, "ImageNet-C-bar, 224 x 224", "imagenet", it.seconds / 3),
    "small-c-bar": lambda it: c_bar_speed.measure(it.square(32), "CIFAR-10-C-bar, 32 x 32", "cifar", it.seconds / 3),
    "single": lambda it: single_speed.measure(it.clean, it.seconds / 3),
    "laion-c": lambda it: laion_c_speed.measure(it.clean, it.seconds / 3),
    "low-pass": lambda it: low_pass_speed.measure(it.clean, it.seconds),
}
"""Name of a section about kernels -> the function that measures it."""

SECTIONS: Mapping[str, Callable[[Subject], str]] = {
    **KERNELS,
    "stylised": lambda it: style_speed.measure(it.clean, it.seconds),
    "resize": lambda it: resize_speed.measure(it.seconds),
    "builds": builds,
    "cifar": lambda it: cifar_speed.measure(it.photographs, it.scratch, it.packages, it.fastest("small")),
    "sequences": lambda it: sequence_speed.measure(it.photographs, it.scratch),
    "workers": lambda it: scaling.measure(it.photographs, it.scratch, it.builds[-1].build),
    "imports": lambda it: start_speed.imports(),
    "engines": lambda it: start_speed.engines(it.photographs, it.scratch),
    "loader": lambda it: loader_speed.measure(it.photographs, it.scratch),
    "rendered": lambda it: rendered_speed.measure(it.photographs, it.scratch, it.packages, it.fastest("corruptions")),
    "ccc": lambda it: ccc_speed.measure(it.photographs, it.scratch),
}
"""The same for all sections, in the order of the page."""


def main() -> None:
    """Run the benchmarks, print the tables, and write each section to the page as soon as it is measured."""
    arguments = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    arguments.add_argument(
        "sections", nargs="*", metavar="SECTION", help=f"Sections to measure: {', '.join(SECTIONS)}. Default: all."
    )
    arguments.add_argument(
        "--seconds", type=float, default=0.03, help="Seconds per call and round (three rounds per severity)."
    )
    arguments.add_argument(
        "--compare",
        action="store_true",
        help="Measure only kernels, say which are slower than on the committed page, and write nothing.",
    )
    options = arguments.parse_args()
    if unknown := set(options.sections) - SECTIONS.keys():
        arguments.error(f"unknown section {', '.join(sorted(unknown))}; allowed: {', '.join(SECTIONS)}")
    subject = Subject(options.seconds)
    measured, before = dict[str, str](), PAGE.read_text()
    for name in options.sections or (KERNELS if options.compare else SECTIONS):
        shutil.rmtree(subject.scratch, ignore_errors=True)
        measured[name] = report.measured_here(SECTIONS[name](subject))
        print(measured[name], end="\n\n", flush=True)
        if not options.compare:
            sections = report.sections(before) | measured
            PAGE.write_text(report.page({each: sections[each] for each in SECTIONS if each in sections}))
    if "corruptions" in measured and not options.compare:
        corruption_speed.plot(subject.large, DOCS / "benchmark.png")
    shutil.rmtree(subject.scratch, ignore_errors=True)
    if options.compare:
        print("\n".join(slower(before, "\n\n".join(measured.values()))) or "nothing is slower")


if __name__ == "__main__":
    # glibc reads its variables only when a process starts; PYTHONPATH lets workers import the workers of this package
    environment = {**WORKER_ENVIRONMENT, "PYTHONPATH": str(Path(__file__).parents[1])}
    if not environment.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, "-m", "bench", *sys.argv[1:]], {**os.environ, **environment})
    main()
