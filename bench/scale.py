"""``make scale``: build 10 million samples without images, and simulate builds on clusters. Writes docs/scale.md.

The first part is a real build with another worker, which makes no images. The second part uses the real division into
work items and the real scheduler. The exit code is 1 if the driver needs more than 1 GB, if resuming makes other shards
than the removed ones, or if simulated workers are idle for too long.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow.parquet as pq

import manifests
from bench import images, scheduling, worker_times
from bench.driver import PLANNED, WORKERS, Drive
from bench.report import table
from pipeline.builder.doctor import processor
from pipeline.datasets.paths import MANIFEST_FILE

FOLDER = Path("build/scale")
PAGE = Path("docs/scale.md")

IMAGES, SHARD_SIZE = 133_334, 1000
"""With 75 outputs per image: 10 million samples in 10,050 shards."""

CLASSES = 1000
DRIVER_MEGABYTES = 1000
REMOVED = 0.01

PLANNED_IMAGES = (5_000, 50_000)


def write_empty_source(folder: Path, images: int) -> Path:
    """Create an ImageFolder of empty files with ImageNet's file names, in up to 1,000 classes, and return it."""
    for label in range(min(CLASSES, images)):
        (folder / f"n{label:08d}").mkdir(parents=True, exist_ok=True)
    for index in range(images):
        (folder / f"n{index % CLASSES:08d}" / f"ILSVRC2012_val_{index:08d}.JPEG").touch()
    return folder


def run_driver(command_name: str, *arguments: object) -> Drive:
    """Run :mod:`bench.driver` in a new process. PYTHONPATH lets its workers import ``bench``."""
    command = [sys.executable, "-m", "bench.driver", command_name, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return Drive(**json.loads(done.stdout.splitlines()[-1]))


def remove_some(output: Path, share: float) -> set[str]:
    """Remove the tar or the part of some shards. Return the names of these shards."""
    generator = random.Random(0)
    parts = sorted(path.stem for path in output.glob("manifest/*.parquet"))
    removed = generator.sample(parts, round(len(parts) * share))
    for name in removed:
        transform, level, _ = name.rsplit("-", 2)
        tar = output / "shards" / transform / level / f"{name}.tar"
        generator.choice([tar, output / "manifest" / f"{name}.parquet"]).unlink()
    return set(removed)


def part_times(output: Path) -> dict[str, int]:
    """Return the time at which each part was written."""
    return {path.stem: path.stat().st_mtime_ns for path in output.glob("manifest/*.parquet")}


def conditions_of_row_groups(manifest: Path) -> Iterator[tuple[str, int]]:
    """Yield transform and level of each row group.

    Raises:
        ValueError: A row group has rows of several conditions.
    """
    metadata = pq.read_metadata(manifest)
    columns = [manifests.COLUMNS.index(name) for name in ("transform", "level")]
    for group in range(metadata.num_row_groups):
        transform, level = (metadata.row_group(group).column(column).statistics for column in columns)
        if transform.min != transform.max or level.min != level.max:
            raise ValueError(f"row group {group} of {manifest} has rows of several conditions")
        yield transform.min, level.min


def measure(source: Path, output: Path, shard_size: int, *options: str) -> dict[str, Drive]:
    """Build, repeat the build, and build again after some shards were removed. ``options``: options of the driver.

    Raises:
        ValueError: A run made an existing shard again, or did not make a missing one.
    """
    runs = {"first build": run_driver("build", source, output, shard_size, *options)}
    _expect("shards made", runs["first build"].shards, len(before := part_times(output)))
    sha256 = _sha256(output / MANIFEST_FILE)
    _expect("rows", pq.read_metadata(output / MANIFEST_FILE).num_rows, runs["first build"].samples)
    _expect("conditions", len(set(conditions_of_row_groups(output / MANIFEST_FILE))), 75)

    runs["repeated"] = run_driver("build", source, output, shard_size, *options)
    _expect("shards made again", runs["repeated"].shards, 0)

    removed = remove_some(output, REMOVED)
    runs["1 % of the shards removed"] = run_driver("build", source, output, shard_size, *options)
    after = part_times(output)
    _expect("shards made again", {name for name, time in after.items() if before.get(name) != time}, removed)
    _expect("the manifest's sha256", _sha256(output / MANIFEST_FILE), sha256)
    return runs


def _expect(name: str, actual: object, expected: object) -> None:
    if actual != expected:
        raise ValueError(f"{name}: {actual}, expected {expected}")


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def page(runs: Mapping[str, Drive], planned: Mapping[str, tuple[Drive, Drive]]) -> str:
    """Return the first sections of docs/scale.md."""
    stages = ("planning", "finding finished shards", "committing", "merging")
    made = [
        (name, f"{run.shards:,}", *(f"{run.seconds.get(stage, 0):.1f}" for stage in stages), f"{run.megabytes:.0f}")
        for name, run in runs.items()
    ]
    few, many = PLANNED_IMAGES
    plans = []
    for name, (small, large) in planned.items():
        counts = (f"{large.samples:,}", f"{large.shards:,}", f"{large.seconds['planning']:.1f}")
        plans.append((name, *counts, f"{large.megabytes:.0f}", f"{small.megabytes:.0f}"))
    samples = max(run.samples for run in runs.values())
    return PAGE_TEXT.format(
        samples=samples,
        images=IMAGES,
        shard=SHARD_SIZE,
        workers=WORKERS,
        limit=DRIVER_MEGABYTES,
        runs=table(("run", "shards made", *(f"{stage}, s" for stage in stages), "driver's peak memory, MB"), made),
        planned_images=many,
        plans=table(("plan", "outputs", "shards", "s", "peak memory, MB", f"the same for {few:,} images, MB"), plans),
        machine=processor(),
        cpus=os.cpu_count(),
        load=os.getloadavg()[2],
    )


PAGE_TEXT = """# Scale

Written by `make scale`, on {machine}, {cpus} cores, at a load average of {load:.0f}.
The command fails if the driver of a build needs more than {limit:,} MB, or if a resumed build makes anything but the
missing shards.

## {samples:,} samples

{images:,} listed images x 75 outputs, in shards of {shard:,}, by {workers} workers.
This is a real build with another worker, which makes no images: its tars are sparse files of the correct length, and
its manifest parts have complete rows. The table therefore shows the costs of a build besides making images.

{runs}

Before the second run, all shards existed. Before the third run, the tars or the parts of 1 % of the shards were
removed at random: exactly these shards were made again, and the merged manifest had the same bytes.

## Planning {planned_images:,} images

Each plan runs in a new process: listing, planning, and iterating over all shards with their digests.

{plans}
"""


def run_builds() -> tuple[str, float]:
    """Run the builds and plans. Return the page without its last section, and the driver's peak memory in MB."""
    few, many = (write_empty_source(FOLDER / f"images-{count}", count) for count in PLANNED_IMAGES)
    planned = {name: (run_driver("plan", few, name), run_driver("plan", many, name)) for name in PLANNED}
    runs = measure(write_empty_source(FOLDER / "images", IMAGES), FOLDER / "data", SHARD_SIZE)
    return page(runs, planned), max(run.megabytes for run in runs.values())


def run_simulations() -> tuple[str, list[str]]:
    """Run the simulations. Return the last section of the page, and the fractions that are too low."""
    photographs = images.photographs(FOLDER / "photographs").resolve()
    times = worker_times.measure(photographs, FOLDER / "scratch")
    runs = scheduling.simulations(times)
    return scheduling.section(times, runs), list(scheduling.shortfalls(runs))


def main() -> None:
    """Run everything, print the page, and write it."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument(
        "--only-simulation", action="store_true", help="Run only the simulations, and keep the other sections."
    )
    only_simulation = parser.parse_args().only_simulation
    shutil.rmtree(FOLDER, ignore_errors=True)
    before, megabytes = (_first_sections(), 0.0) if only_simulation else run_builds()
    section, shortfalls = run_simulations()
    text = f"{before.rstrip()}\n\n{section}"
    print(text)
    PAGE.write_text(text)
    shutil.rmtree(FOLDER)
    if megabytes > DRIVER_MEGABYTES:
        raise SystemExit(f"the driver used {megabytes:.0f} MB, allowed are {DRIVER_MEGABYTES} MB")
    if shortfalls:
        raise SystemExit("\n".join(shortfalls))


def _first_sections() -> str:
    """Return the current page without the section about the simulation."""
    return PAGE.read_text().split(scheduling.HEADING)[0]


if __name__ == "__main__":
    main()
