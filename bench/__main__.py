"""``make bench``: run all benchmarks and write docs/benchmark.md and docs/benchmark.png."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from pipeline.recipes import library

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_variable] = "1"  # must be set before NumPy and numba are imported

from bench import (
    build_speed,
    c_bar_speed,
    candidate_speed,
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
    sections = list[str]()

    def add(section: str) -> None:
        print(section, end="\n\n", flush=True)
        sections.append(section)

    rows = corruption_speed.measure(clean, "imagenet", packages, options.seconds)
    add(corruption_speed.corruption_table("224 x 224", rows, list(packages)))
    small = corruption_speed.measure(prepare(clean, [("square", 32)]), "cifar", packages, options.seconds / 3)
    add(corruption_speed.corruption_table("32 x 32", small, list(packages)))
    for height, width in ((480, 640), (1024, 2048)):
        add(corruption_speed.detection(clean, height, width, packages))
    add(candidate_speed.measure(clean, peers.load_albumentations(FOLDER / "albumentations"), options.seconds))
    for data_set, side, profile in (("ImageNet-C-bar", 224, "imagenet"), ("CIFAR-10-C-bar", 32, "cifar")):
        image = prepare(clean, [("square", side)])
        add(c_bar_speed.measure(image, f"{data_set}, {side} x {side}", profile, options.seconds / 3))
    add(single_speed.measure(clean, options.seconds / 3))
    add(laion_c_speed.measure(clean, options.seconds / 3))
    add(low_pass_speed.measure(clean, options.seconds))
    if options.compare:
        print("\n".join(slower((DOCS / "benchmark.md").read_text(), "\n\n".join(sections))) or "nothing is slower")
        return
    add(style_speed.measure(clean, options.seconds))
    add(resize_speed.measure(options.seconds))
    fastest = {row.name: row.peer for row in rows}
    builds = build_speed.measure(photographs, scratch)
    add(build_speed.build_section(builds, build_speed.measure_plain(photographs, scratch, packages, fastest)))
    add(cifar_speed.measure(photographs, scratch, packages, {row.name: row.peer for row in small}))
    add(sequence_speed.measure(photographs, scratch))
    add(scaling.measure(photographs, scratch, builds[-1].build))
    add(start_speed.imports())
    add(start_speed.engines(photographs, scratch))
    add(loader_speed.measure(photographs, scratch))
    add(rendered_speed.measure(photographs, scratch, packages, fastest))
    shutil.rmtree(scratch)
    corruption_speed.plot(rows, DOCS / "benchmark.png")
    (DOCS / "benchmark.md").write_text(report.page(["![Corruptions](benchmark.png)", *sections]))


if __name__ == "__main__":
    # glibc reads its variables only when a process starts; PYTHONPATH lets workers import the workers of this package
    environment = {**WORKER_ENVIRONMENT, "PYTHONPATH": str(Path(__file__).parents[1])}
    if not environment.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, "-m", "bench", *sys.argv[1:]], {**os.environ, **environment})
    main()
