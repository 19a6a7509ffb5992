"""Time of a part of CIFAR-10-C, an estimate for the whole, and the published procedure on the same images."""

import pickle
import shutil
import statistics
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from time import perf_counter

import numpy as np

from bench.build_speed import build_in_process
from bench.images import clean_images
from bench.peers import Corrupt
from bench.report import section, table
from bench.scaling import Stopwatch
from pipeline.builder.build import run_build
from pipeline.builder.settings import BuildSettings
from pipeline.images.resizers import prepare
from pipeline.recipes import library
from pipeline.recipes import schema as recipes
from pipeline.sources.kinds import open_source

PART, WHOLE = 1_000, 10_000
"""Number of measured images, and of images in CIFAR-10's test set."""

PUBLISHED_IMAGES = 20
ROUNDS = 3
WORKERS = 2


def measure(photographs: Path, scratch: Path, peers: Mapping[str, Corrupt], fastest: Mapping[str, str]) -> str:
    """Return the section of 1,000 images of 32 x 32. ``fastest`` names the package to use for each corruption."""
    source = _write_batch(photographs, scratch / "cifar-10-batches-py")
    recipe = library.load("cifar-10-c").changed(source={"kind": "cifar-10"}, transforms={"only": ["all"]})
    outputs = PART * len(recipe.conditions())
    seconds = statistics.median(build_in_process(recipe, source, scratch / "cifar")[0] for _ in range(ROUNDS))
    ours = seconds / outputs * 1e3
    shutil.rmtree(scratch / "cifar")
    outcome = run_build(
        BuildSettings(recipe=recipe, source=str(source), out=str(scratch / "cifar"), workers=WORKERS), Stopwatch()
    )
    # An upper estimate: fixed costs are multiplied too.
    minutes = outcome.seconds * WHOLE / PART / 60
    published = _published(recipe, source, scratch / "published", peers, fastest)
    what = f"{PART:,} images ({outputs:,} outputs), {WORKERS} workers, including start"
    rows = (
        ("robustshards, from batch to shards, one process, one thread", f"{ours:.3f} ms per output"),
        ("published loop with the fastest package per corruption", f"{published:.3f} ms per output"),
        ("published / robustshards", f"**{published / ours:.1f}**"),
        (what, f"{outcome.seconds:.0f} s"),
        ("estimate for the whole: 10,000 images, 950,000 outputs", f"{minutes:.1f} min"),
    )
    return section("### CIFAR-10-C", table(("measured", "figure"), rows))


def _write_batch(photographs: Path, folder: Path) -> Path:
    """Write a test batch in CIFAR's format from parts of photographs, resized to 32 x 32."""
    generator = np.random.default_rng(0)
    images = clean_images(photographs, library.load("imagenet-c"), 48)
    rows = []
    for index in range(PART):
        top, left = generator.integers(0, 224 - 96, 2)
        window = images[index % len(images)][top : top + 96, left : left + 96]
        rows.append(prepare(np.ascontiguousarray(window), [("square", 32)]).transpose(2, 0, 1).ravel())
    folder.mkdir(parents=True, exist_ok=True)
    labels = [index % 10 for index in range(PART)]
    (folder / "test_batch").write_bytes(pickle.dumps({b"data": np.stack(rows), b"labels": labels}))
    names = [f"class {index}".encode() for index in range(10)]
    (folder / "batches.meta").write_bytes(pickle.dumps({b"label_names": names}))
    return folder


def _published(
    recipe: recipes.Recipe, location: Path, output: Path, peers: Mapping[str, Corrupt], fastest: Mapping[str, str]
) -> float:
    """Return milliseconds per output of the published loop: corrupt each image, save one array per corruption."""
    output.mkdir(parents=True)
    source = open_source(recipe.source.kind, str(location))
    images = [np.asarray(source.read(image), np.uint8) for image in islice(source, PUBLISHED_IMAGES)]
    arrays: dict[str, list[np.ndarray]] = {}
    start = perf_counter()
    for condition in recipe.conditions():
        corrupt = peers[fastest[condition.transform]]
        arrays.setdefault(condition.transform, []).extend(
            np.asarray(corrupt(image, condition.transform, condition.level)).astype(np.uint8) for image in images
        )
    for name, rows in arrays.items():
        np.save(output / f"{name}.npy", np.array(rows))
    return (perf_counter() - start) / (len(images) * len(recipe.conditions())) * 1e3
