"""``make bench``: run all benchmarks and write docs/benchmark.md and docs/benchmark.png."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from pipeline.recipes import library

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_variable] = "1"  # must be set before NumPy and numba are imported

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from bench import (
    build_speed,
    c_bar_speed,
    candidate_speed,
    cifar_speed,
    corruption_speed,
    executor_speed,
    images,
    import_speed,
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
)
from bench.compare import slower
from pipeline.execution.processes import WORKER_ENVIRONMENT
from pipeline.images.resizers import prepare

FOLDER = Path("build/bench")
DOCS = Path("docs")


def main() -> None:
    """Run the benchmarks, print the tables, and write the page."""
    arguments = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    arguments.add_argument(
        "--seconds", type=float, default=0.03, help="Seconds per call and round (three rounds per severity)."
    )
    arguments.add_argument(
        "--compare",
        action="store_true",
        help="Measure only corruptions, say which are slower than on the committed page, and write nothing.",
    )
    options = arguments.parse_args()
    scratch = FOLDER / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    photographs = images.photographs(FOLDER / "photographs").resolve()
    packages = peers.load(FOLDER / "peers")

    (clean,) = images.clean_images(photographs, library.load("imagenet-c"), 1)
    rows, small, sections = _corruptions(clean, packages, options.seconds)
    if options.compare:
        print("\n".join(slower((DOCS / "benchmark.md").read_text(), "\n\n".join(sections))) or "nothing is slower")
        return
    sections.append(_printed(resize_speed.table(resize_speed.measure(options.seconds))))
    fastest = {row.name: row.peer for row in rows}
    builds = build_speed.measure(photographs, scratch)
    plain = build_speed.measure_plain(photographs, scratch, packages, fastest)
    sections.append("### The build\n\n" + _printed(report.build_table(builds, plain)))
    cifar = cifar_speed.measure(photographs, scratch, packages, {row.name: row.peer for row in small})
    sections.append("### CIFAR-10-C\n\n" + _printed(report.cifar_table(cifar)))
    sequences = sequence_speed.measure(photographs, scratch)
    table = report.sequence_table(sequences, list(sequence_speed.presets(photographs)))
    sections.append("### Perturbation sequences, 224 x 224, from photograph to shard\n\n" + _printed(table))
    rates = scaling.scaling(photographs, scratch)
    driver = scaling.overhead(photographs, scratch)
    memory = scaling.worker_megabytes(photographs, scratch)
    costs = report.scaling_table(rates, driver, builds[-1].build, memory, scaling.start_seconds(photographs))
    sections.append("### Workers, driver, memory, start\n\n" + _printed(costs))
    sections.append(_printed(import_speed.table(import_speed.measure())))
    engines = executor_speed.table(executor_speed.measure(photographs, scratch))
    sections.append("### The two engines on a small build\n\n" + _printed(engines))
    loader = report.loader_table(loader_speed.measure(photographs, scratch))
    sections.append("### The evaluator's loader\n\n" + _printed(loader))
    rendered = rendered_speed.measure(photographs, scratch, packages, fastest)
    sections.append(_printed(rendered_speed.table(rendered)))
    shutil.rmtree(scratch)
    report.plot(rows, DOCS / "benchmark.png")
    (DOCS / "benchmark.md").write_text(report.page(["![Corruptions](benchmark.png)", *sections]))


def _corruptions(
    clean: NDArray[np.uint8], packages: Mapping[str, peers.Corrupt], seconds: float
) -> tuple[list[corruption_speed.Row], list[corruption_speed.Row], list[str]]:
    """Return the rows of ImageNet-C and of CIFAR-10-C, and a table for each family of corruptions."""
    rows = corruption_speed.measure(clean, "imagenet", packages, seconds)
    sections = [_printed(report.corruption_table("224 x 224", rows, list(packages)))]
    small = corruption_speed.measure(prepare(clean, [("square", 32)]), "cifar", packages, seconds / 3)
    sections.append(_printed(report.corruption_table("32 x 32", small, list(packages))))
    detection = {name: packages[name] for name in [peers.DETECTION]}
    for height, width in ((480, 640), (1024, 2048)):
        native = np.asarray(Image.fromarray(clean).resize((width, height), Image.Resampling.BICUBIC))
        large = corruption_speed.measure(native, "detection", detection, 0, severities=[3], least=1)
        title = f"Object detection, {height} x {width}, severity 3"
        sections.append(_printed(report.corruption_table(title, large, list(detection))))
    albumentations = peers.load_albumentations(FOLDER / "albumentations")
    candidates = candidate_speed.measure(clean, albumentations, seconds)
    sections.append(_printed(candidate_speed.table(candidates)))
    for data_set, side, profile in (("ImageNet-C-bar", 224, "imagenet"), ("CIFAR-10-C-bar", 32, "cifar")):
        times = c_bar_speed.measure(prepare(clean, [("square", side)]), profile, seconds / 3)
        sections.append(_printed(c_bar_speed.table(f"{data_set}, {side} x {side}", times)))
    sections.append(_printed(single_speed.table(single_speed.measure(clean, seconds / 3))))
    distortions = laion_c_speed.measure(clean, seconds / 3)
    sections.append(_printed(c_bar_speed.table("LAION-C, 224 x 224", distortions, laion_c_speed.NOTE)))
    sections.append(_printed(low_pass_speed.table(low_pass_speed.measure(clean, seconds))))
    return rows, small, sections


def _printed(section: str) -> str:
    print(section, end="\n\n", flush=True)
    return section


if __name__ == "__main__":
    # glibc reads its variables only when a process starts; PYTHONPATH lets workers import the workers of this package
    environment = {**WORKER_ENVIRONMENT, "PYTHONPATH": str(Path(__file__).parents[1])}
    if not environment.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, "-m", "bench", *sys.argv[1:]], {**os.environ, **environment})
    main()
