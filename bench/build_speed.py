"""Time of the whole build in one process on one thread, compared with JPEG encoding and with the plain procedure."""

import io
import shutil
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple, cast

import numpy as np
from PIL import Image as PillowImage

from bench.images import jpeg_by_opencv, repeated
from bench.peers import Corrupt
from bench.report import section, table
from pipeline.builder.counts import BuildCounts
from pipeline.builder.merge import merge_parts
from pipeline.builder.plan import make_blocks, make_plan
from pipeline.builder.worker import BuildJob, BuildWorker
from pipeline.execution.work import Attempt
from pipeline.recipes import library
from pipeline.recipes import schema as recipes
from pipeline.render.renderer import Image, Renderer
from pipeline.sources.kinds import open_source
from pipeline.storage import LocalStore

ROUNDS, ENCODINGS = 3, 9

SHARD = 1000
"""Default number of images in a shard. The fixed cost of a shard is distributed over this number."""


class BuildSpeed(NamedTuple):
    """Milliseconds per output of a build, of its stages, and of JPEG encoding.

    ``images``: number of photographs, all in one shard per condition. ``ratio``: time of the build divided by that of
    the encoding, which is measured before and after it; the median of the rounds.
    """

    images: int
    build: float
    stages: Mapping[str, float]
    encoding: float
    ratio: float


def measure(photographs: Path, scratch: Path) -> list[BuildSpeed]:
    """Measure builds of the photographs, and of full shards of 1,000 images, which repeat the photographs."""
    whole = repeated(photographs, scratch / "whole-shard", SHARD)
    return [_measured(source, photographs, scratch) for source in (photographs, whole)]


def build_section(builds: Sequence[BuildSpeed], plain: float) -> str:
    """Return the section of builds of different sizes, their stages, and the procedures they are compared with."""
    rows = [
        ("whole build", [build.build for build in builds]),
        *((f"&nbsp; {stage}", [build.stages[stage] for build in builds]) for stage in builds[0].stages),
        ("JPEG encoding of the same outputs by OpenCV", [build.encoding for build in builds]),
        ("plain procedure with the fastest package per corruption", [plain for _ in builds]),
    ]
    sizes = (f"{build.images:,} images, shards of {build.images:,}" for build in builds)
    cells = [
        *((name, *(f"{spent:.3f}" for spent in times)) for name, times in rows),
        ("build / JPEG encoding", *(f"**{build.ratio:.2f}**" for build in builds)),
        ("plain procedure / build", *(f"**{plain / build.build:.1f}**" for build in builds)),
    ]
    note = "The plain procedure opens, resizes, corrupts and saves each output by itself."
    return section("### The build", table(("ms per output, one process, one thread", *sizes), cells), note)


def _measured(source: Path, photographs: Path, scratch: Path) -> BuildSpeed:
    """Measure builds of ``source``, each between two measurements of encoding. Return medians of the rounds."""
    recipe = library.load("imagenet-c")
    plan = make_plan(recipe, open_source("imagefolder", str(source)))
    builds, encodings, stages = [], [encode_in_process(recipe, photographs)], BuildCounts()
    for _ in range(ROUNDS):
        seconds, report = build_in_process(recipe, source, scratch / "build")
        builds.append(seconds / plan.samples * 1e3)
        stages.add(report)
        encodings.append(encode_in_process(recipe, photographs))
    middle = statistics.median
    per_output = {stage: spent / ROUNDS / plan.samples * 1e3 for stage, spent in stages.seconds.items()}
    ratios = [2 * build / sum(encodings[index : index + 2]) for index, build in enumerate(builds)]
    return BuildSpeed(plan.images, middle(builds), per_output, middle(encodings), middle(ratios))


def measure_plain(photographs: Path, scratch: Path, peers: Mapping[str, Corrupt], fastest: Mapping[str, str]) -> float:
    """Return milliseconds per output of the plain procedure. ``fastest`` names the package of each corruption."""
    recipe = library.load("imagenet-c")
    return statistics.median(_plain(recipe, photographs, scratch / "plain", peers, fastest) for _ in range(ROUNDS))


def build_in_process(recipe: recipes.Recipe, location: Path, output: Path) -> tuple[float, BuildCounts]:
    """Build in this process, from the listing to the merged manifest. Return the seconds and the counts."""
    shutil.rmtree(output, ignore_errors=True)
    total, start = BuildCounts(), perf_counter()
    source = open_source(recipe.source.kind, str(location))
    plan = make_plan(recipe, source)
    worker = BuildWorker(BuildJob(recipe, str(location), str(output)))
    for block in make_blocks(plan, source):
        *_, report = worker.run(Attempt(block))
        total.add(cast(BuildCounts, report))
    merging = perf_counter()
    merge_parts(plan, LocalStore(str(output)))
    total.seconds["merge"] += perf_counter() - merging
    return perf_counter() - start, total


def encode_in_process(recipe: recipes.Recipe, photographs: Path) -> float:
    """Return the median milliseconds per output of encoding all outputs."""
    return statistics.median(_encode(recipe, photographs) for _ in range(ENCODINGS))


def _encode(recipe: recipes.Recipe, photographs: Path) -> float:
    """Return milliseconds per output of encoding all outputs, without the time of making them."""
    renderer, source, seconds, count = Renderer(recipe), open_source("imagefolder", str(photographs)), 0.0, 0
    for image in source:
        clean = renderer.prepare(renderer.decode(source.read(image)))
        outputs = [renderer.transform(clean, image.id, condition) for condition in recipe.conditions()]
        start = perf_counter()
        for output in outputs:
            jpeg_by_opencv(output)
        seconds += perf_counter() - start
        count += len(outputs)
    return seconds / count * 1e3


def opened(file: Path) -> Image:
    """Return a photograph opened, resized and cropped as a script does: uint8 (224, 224, 3)."""
    with PillowImage.open(io.BytesIO(file.read_bytes())) as image:
        rgb = image.convert("RGB")
    width, height = rgb.size
    scale = 256 / min(width, height)
    resized = rgb.resize((round(width * scale), round(height * scale)), PillowImage.Resampling.BILINEAR)
    left, top = (resized.width - 224) // 2, (resized.height - 224) // 2
    return np.asarray(resized.crop((left, top, left + 224, top + 224)))


def _plain(
    recipe: recipes.Recipe, photographs: Path, output: Path, peers: Mapping[str, Corrupt], fastest: Mapping[str, str]
) -> float:
    """Return milliseconds per output of four images: open, resize, crop, corrupt with the fastest package, save."""
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    files = [photographs / image.origin for image in open_source("imagefolder", str(photographs))][:4]
    start = perf_counter()
    for file in files:
        for condition in recipe.conditions():
            corrupted = peers[fastest[condition.transform]](opened(file), condition.transform, condition.level)
            saved = output / f"{file.stem}-{condition}.jpg"
            PillowImage.fromarray(np.uint8(corrupted)).save(saved, quality=85, optimize=True)
    return (perf_counter() - start) / (len(files) * len(recipe.conditions())) * 1e3
