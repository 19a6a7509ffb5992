"""``make scale``: 10 million samples without pixels through a whole build, and a build on a simulated cluster.

Writes docs/scale.md. In the first, plan, pool of Ray actors, commits, merge and resuming are the product's own; only
the worker is another. In the second, division and scheduler are the product's own. Exits with 1 where the driver takes
more than 1 GB, where resuming makes other shards than those that were removed, or where simulated workers idle.
"""

from __future__ import annotations

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
from bench.report import markdown_line, processor
from bench.simulated_cluster import Trouble
from pipeline.datasets.paths import MANIFEST_FILE

FOLDER = Path("build/scale")
PAGE = Path("docs/scale.md")

IMAGES, SHARD_SIZE = 133_334, 1000
"""With 75 outputs of each image: 10 million samples in 10,050 shards."""

CLASSES = 1000
DRIVER_MEGABYTES = 1000
REMOVED = 0.01

PLANNED_IMAGES = (5_000, 50_000)


def listed(folder: Path, images: int) -> Path:
    """An ImageFolder of empty files, named as ImageNet's are, in up to 1,000 classes."""
    for label in range(min(CLASSES, images)):
        (folder / f"n{label:08d}").mkdir(parents=True, exist_ok=True)
    for index in range(images):
        (folder / f"n{index % CLASSES:08d}" / f"ILSVRC2012_val_{index:08d}.JPEG").touch()
    return folder


def driven(what: str, *arguments: object) -> Drive:
    """:mod:`bench.driver` in a process of its own; workers find it by the path, not in the current folder."""
    command = [sys.executable, "-m", "bench.driver", what, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return Drive(**json.loads(done.stdout.splitlines()[-1]))


def remove_some(output: Path, share: float) -> set[str]:
    """Take the tar or the part of some shards away; the names of those parts."""
    chosen = random.Random(0)
    parts = sorted(path.stem for path in output.glob("manifest/*.parquet"))
    removed = chosen.sample(parts, round(len(parts) * share))
    for name in removed:
        transform, level, _ = name.rsplit("-", 2)
        tar = output / "shards" / transform / level / f"{name}.tar"
        chosen.choice([tar, output / "manifest" / f"{name}.parquet"]).unlink()
    return set(removed)


def written(output: Path) -> dict[str, int]:
    """Shard -> when its part was written."""
    return {path.stem: path.stat().st_mtime_ns for path in output.glob("manifest/*.parquet")}


def steps_of_row_groups(manifest: Path) -> Iterator[tuple[str, int]]:
    """Transform and level of each row group. Raises ValueError where one holds several."""
    metadata = pq.read_metadata(manifest)
    places = [manifests.COLUMNS.index(name) for name in ("transform", "level")]
    for group in range(metadata.num_row_groups):
        transform, level = (metadata.row_group(group).column(place).statistics for place in places)
        if transform.min != transform.max or level.min != level.max:
            raise ValueError(f"row group {group} of {manifest} holds rows of several steps")
        yield transform.min, level.min


def measure(source: Path, output: Path, shard_size: int, *options: str) -> dict[str, Drive]:
    """Build, resume with everything there, resume with some shards gone; ``options``: of the driver.

    Raises ValueError where anything is made that was there, or is not made that was not.
    """
    runs = {"the whole": driven("build", source, output, shard_size, *options)}
    _expect("shards made", runs["the whole"].shards, len(before := written(output)))
    sha256 = _sha256(output / MANIFEST_FILE)
    _expect("rows", pq.read_metadata(output / MANIFEST_FILE).num_rows, runs["the whole"].samples)
    _expect("steps", len(set(steps_of_row_groups(output / MANIFEST_FILE))), 75)

    runs["again"] = driven("build", source, output, shard_size, *options)
    _expect("shards made again", runs["again"].shards, 0)

    removed = remove_some(output, REMOVED)
    runs["1 % of the shards removed"] = driven("build", source, output, shard_size, *options)
    after = written(output)
    _expect("shards made again", {name for name, time in after.items() if before.get(name) != time}, removed)
    _expect("the manifest's sha256", _sha256(output / MANIFEST_FILE), sha256)
    return runs


def _expect(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise ValueError(f"{what}: {found}, not {wanted}")


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def page(runs: Mapping[str, Drive], planned: Mapping[str, tuple[Drive, Drive]]) -> str:
    """docs/scale.md."""
    stages = ("planning", "looking for what is there", "committing", "merging")
    lines = [markdown_line(("run", "shards made", *(f"{stage}, s" for stage in stages), "driver's peak, MB"))]
    lines.append("|---" + "|---:" * (len(stages) + 2) + "|")
    for name, run in runs.items():
        seconds = (f"{run.seconds.get(stage, 0):.1f}" for stage in stages)
        lines.append(markdown_line((name, f"{run.shards:,}", *seconds, f"{run.megabytes:.0f}")))
    few, many = PLANNED_IMAGES
    plans = [markdown_line(("planned", "outputs", "shards", "s", "peak, MB", f"peak for {few:,} images, MB"))]
    plans.append("|---" + "|---:" * 5 + "|")
    for name, (small, large) in planned.items():
        counts = (f"{large.samples:,}", f"{large.shards:,}", f"{large.seconds['planning']:.1f}")
        plans.append(markdown_line((name, *counts, f"{large.megabytes:.0f}", f"{small.megabytes:.0f}")))
    samples = max(run.samples for run in runs.values())
    return PAGE_TEXT.format(
        samples=samples,
        images=IMAGES,
        shard=SHARD_SIZE,
        workers=WORKERS,
        limit=DRIVER_MEGABYTES,
        runs="\n".join(lines),
        planned_images=many,
        plans="\n".join(plans),
        machine=processor(),
        cpus=os.cpu_count(),
        load=os.getloadavg()[2],
    )


PAGE_TEXT = """# Scale

Written by `make scale`, on {machine}, {cpus} cores, at a load average of {load:.0f}. The command
fails where the driver of a build takes more than {limit:,} MB, or where resuming makes anything but what is missing.

## {samples:,} samples

{images:,} listed images x 75 outputs, in shards of {shard:,}, by {workers} workers. Plan, pool of Ray actors, commits,
merge and resuming are those of every build; only the worker is another one, which makes no pixels: its tars are holes
of the right length, its manifest parts hold full rows. So this is what such a build costs beside its pictures.

{runs}

In the second run all was there; in the third, the tars or the parts of 1 % of the shards had been removed at random:
exactly those shards were made again, and the merged manifest had the same bytes.

## Planning {planned_images:,} images

Each in a process of its own: listing, plan, and a walk over all shards with their digests.

{plans}
"""


def measured() -> tuple[str, float]:
    """Return the page without its last section, and the driver's peak in MB, of real builds and plans."""
    few, many = (listed(FOLDER / f"images-{count}", count) for count in PLANNED_IMAGES)
    planned = {name: (driven("plan", few, name), driven("plan", many, name)) for name in PLANNED}
    runs = measure(listed(FOLDER / "images", IMAGES), FOLDER / "data", SHARD_SIZE)
    return page(runs, planned), max(run.megabytes for run in runs.values())


def simulated() -> tuple[str, float]:
    """Return the last section of the page, and the share of time in which simulated workers are busy."""
    photographs = images.photographs(FOLDER / "photographs").resolve()
    times = worker_times.measure(photographs, FOLDER / "scratch")
    runs = scheduling.simulations(times)
    busy = scheduling.mean(runs[scheduling.WANTED_WORKERS, Trouble()], lambda run: run.busy)
    return scheduling.section(times, runs), busy


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument(
        "--only-simulation", action="store_true", help="leave out the real builds; keep what the page says of them"
    )
    only_simulation = parser.parse_args().only_simulation
    shutil.rmtree(FOLDER, ignore_errors=True)
    before, megabytes = (_page_so_far(), 0.0) if only_simulation else measured()
    section, busy = simulated()
    text = f"{before.rstrip()}\n\n{section}"
    print(text)
    PAGE.write_text(text)
    shutil.rmtree(FOLDER)
    if megabytes > DRIVER_MEGABYTES:
        raise SystemExit(f"the driver took {megabytes:.0f} MB: more than {DRIVER_MEGABYTES}")
    if busy < scheduling.WANTED_BUSY:
        raise SystemExit(f"simulated workers are busy {busy:.2f} of their time: less than {scheduling.WANTED_BUSY}")


def _page_so_far() -> str:
    """Return the page as it is, without the section about the simulation."""
    return PAGE.read_text().split(scheduling.HEADING)[0]


if __name__ == "__main__":
    main()
