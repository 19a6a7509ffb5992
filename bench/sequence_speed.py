"""Time of perturbation sequences, from photographs to published shards, compared with the published procedure."""

import shutil
import statistics
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

from bench import published_sequences
from bench.report import section, table
from pipeline.builder.plan import make_blocks, make_plan
from pipeline.builder.worker import BuildJob, BuildWorker
from pipeline.execution.work import Attempt
from pipeline.recipes import library
from pipeline.recipes.schema import Recipe
from pipeline.render.renderer import Renderer
from pipeline.sources.kinds import open_source
from pipeline.transforms.family import Condition

PRESETS = ("veryslow", "slower", "medium", "veryfast")
PHOTOGRAPHS = {"jpeg": 8, "mp4": 2, "published": 2}
"""Number of photographs per round for each procedure."""

ROUNDS = 3


class SequenceRow(NamedTuple):
    """Milliseconds per frame of one perturbation: JPEG frames, MP4, and the published procedure."""

    name: str
    frames: int
    jpeg: float
    mp4: float
    published: float


def measure(photographs: Path, scratch: Path) -> str:
    """Return the section of sequences, compared with the published procedure, and of x264's presets."""
    rows = _sequences(photographs, scratch)
    frames = sum(row.frames for row in rows)
    jpeg, mp4, published = (
        sum(getattr(row, way) * row.frames for row in rows) / frames for way in ("jpeg", "mp4", "published")
    )
    cells = [_cells(row, f"{row.published / row.jpeg:.0f}", f"{row.published / row.mp4:.1f}") for row in rows]
    mean = SequenceRow("**mean per frame**", frames, jpeg, mp4, published)
    cells.append(_cells(mean, f"**{published / jpeg:.0f}**", f"**{published / mp4:.1f}**"))
    head = ("perturbation", "frames", "JPEG frames", "MP4", "published procedure")
    presets = ("x264 preset", "ms per frame", "bytes per frame", "mean difference, levels of 255")
    return section(
        "### Perturbation sequences, 224 x 224, from photograph to shard",
        table((*head, "published / JPEG frames", "published / MP4"), cells),
        f"{1e3 / jpeg:,.0f} frames per second and core as JPEG, {1e3 / mp4:,.0f} as MP4 (veryslow).",
        table(presets, _presets(photographs)),
    )


def _cells(row: SequenceRow, *ratios: str) -> tuple[str, ...]:
    return row.name, str(row.frames), f"{row.jpeg:.3f}", f"{row.mp4:.3f}", f"{row.published:.3f}", *ratios


def _sequences(photographs: Path, scratch: Path) -> list[SequenceRow]:
    """Return a row for each perturbation of the benchmark, with medians of three rounds."""
    recipe = library.load("imagenet-p")
    rows = []
    for condition in recipe.conditions():
        jpeg, mp4, published = [], [], []
        for _ in range(ROUNDS):
            jpeg.append(_ours(recipe, condition, "jpeg", photographs, scratch / "sequences"))
            mp4.append(_ours(recipe, condition, "mp4", photographs, scratch / "sequences"))
            published.append(_published(condition.transform, photographs, scratch / "published"))
        frames = len(_sequence(recipe, condition, photographs))
        middle = statistics.median
        rows.append(SequenceRow(condition.transform, frames, middle(jpeg), middle(mp4), middle(published)))
    return rows


def _presets(photographs: Path) -> Iterator[tuple[str, ...]]:
    """Yield time, size and difference of each preset, on one sequence of motion and one of noise."""
    recipe = library.load("imagenet-p")
    sequences = [
        (_sequence(recipe, Condition(name, 1), photographs), grain) for name, grain in PRESET_SEQUENCES.items()
    ]
    frames = sum(len(sequence) for sequence, _ in sequences)
    for preset in PRESETS:
        encoder = recipe.changed(encoder={"name": "mp4", "preset": preset}).encoder
        start = perf_counter()
        payloads = [encoder.encode(sequence, grain) for sequence, grain in sequences]
        seconds = perf_counter() - start
        differences = [
            np.abs(encoder.decode(payload).astype(int) - sequence).mean()
            for payload, (sequence, _) in zip(payloads, sequences, strict=True)
        ]
        size = sum(map(len, payloads)) / frames
        yield preset, f"{seconds / frames * 1e3:.2f}", f"{size:,.0f}", f"{np.mean(differences):.2f}"


PRESET_SEQUENCES = {"rotate": False, "gaussian_noise": True}
"""Measured perturbations, and whether each is encoded with the tune for grain."""


def _ours(recipe: Recipe, condition: Condition, encoder: str, photographs: Path, output: Path) -> float:
    """Return milliseconds per frame of a build of one perturbation, from the listing to the shards."""
    shutil.rmtree(output, ignore_errors=True)
    chosen = recipe.changed(
        transforms={"only": [condition.transform]}, encoder={"name": encoder}, source={"limit": PHOTOGRAPHS[encoder]}
    )
    worker = BuildWorker(BuildJob(chosen, str(photographs), str(output)))
    start = perf_counter()
    source = open_source("imagefolder", str(photographs))
    plan = make_plan(chosen, source)
    for block in make_blocks(plan, source):
        for _ in worker.run(Attempt(block)):
            pass
    return (perf_counter() - start) * 1e3 / (plan.images * len(_sequence(recipe, condition, photographs)))


def _published(name: str, photographs: Path, output: Path) -> float:
    seconds, frames = 0.0, 0
    for file in _files(photographs, PHOTOGRAPHS["published"]):
        start = perf_counter()
        frames += published_sequences.write_sequence(name, file, output)
        seconds += perf_counter() - start
    return seconds * 1e3 / frames


def _files(photographs: Path, count: int) -> Sequence[Path]:
    images = open_source("imagefolder", str(photographs))
    return [photographs / image.origin for image in islice(images, count)]


def _sequence(recipe: Recipe, condition: Condition, photographs: Path) -> np.ndarray:
    """Return the frames of the first photograph."""
    renderer = Renderer(recipe)
    (file,) = _files(photographs, 1)
    return renderer.transform(renderer.prepare(renderer.decode(file.read_bytes())), "", condition)
