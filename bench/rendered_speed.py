"""Speed of loading a rendered data set, compared with stored shards and with corruption in a loader of PyTorch."""

import statistics
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter

import numpy as np
import psutil
import torch
from torch.utils.data import DataLoader, Dataset

from bench.build_speed import opened
from bench.images import repeated
from bench.loader_speed import BATCH, ROUNDS, rate
from bench.peers import Corrupt
from bench.report import section, table
from bench.scaling import Stopwatch
from pipeline.builder.build import run_build
from pipeline.builder.render import run_render
from pipeline.builder.settings import BuildSettings, RenderSettings
from pipeline.datasets.base import Location
from pipeline.datasets.opening import open_data_set
from pipeline.evaluate.predict.loader_processes import load
from pipeline.evaluate.predict.stream import BrokenChunk, FrameStream
from pipeline.execution.resumable import SilentWatcher
from pipeline.recipes import library

IMAGES, PLAIN_IMAGES = 288, 4
"""Number of photographs of all conditions, and of the plain way, which is slow."""

NAMES = {
    "stored": "stored shards",
    "rendered": "rendered, encoded and decoded",
    "pixels": "rendered with `--pixels`",
    "plain": "image folder, fastest package of each corruption in the loader",
}


def measure(photographs: Path, scratch: Path, peers: Mapping[str, Corrupt], fastest: Mapping[str, str]) -> str:
    """Return the section of all ways, measured in turns on ImageNet-C: medians of the rounds.

    Args:
        photographs: Folder of photographs.
        scratch: Folder for temporary files.
        peers: Functions of the packages.
        fastest: Corruption -> name of its fastest package.
    """
    torch.set_num_threads(1)
    recipe = library.load("imagenet-c")
    data, rendered, cache = (str(scratch / name) for name in ("stored", "rendered", "prepared"))
    source = repeated(photographs, scratch / "rendered-source", IMAGES)
    images = run_build(BuildSettings(recipe=recipe, source=str(source), out=data, workers=1), Stopwatch()).plan.samples
    run_render(RenderSettings(recipe=recipe, source=str(source), out=rendered), SilentWatcher())
    ways: dict[str, Callable[[], int]] = {
        "stored": lambda: _read(Location(data)),
        "rendered": lambda: _read(Location(rendered, cache=cache)),
        "pixels": lambda: _read(Location(rendered, pixels=True, cache=cache)),
    }
    for run in ways.values():  # fill the cache, and compile
        run()
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, run in ways.items():
            rates[name].append(rate(images, run))
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        memory = pool.submit(_memory, Location(rendered, cache=cache)).result()
    found = {name: statistics.median(values) for name, values in rates.items()}
    found["plain"] = _plain(source, recipe.transforms.only, peers, fastest)
    rows = ((NAMES[name], f"{value:,.0f}") for name, value in found.items())
    stored, encoded, pixels, plain = found.values()
    note = (
        f"{images:,} images of ImageNet-C at 224 x 224, prepared photographs cached. Rendered / stored: "
        f"**{encoded / stored:.2f}**, with `--pixels` **{pixels / stored:.2f}**. With `--pixels` / plain: "
        f"**{pixels / plain:.0f}**, encoded / plain: **{encoded / plain:.0f}**. A new process takes {memory:.0f} MB of "
        "its own."
    )
    head = ("uint8 batches, one process, one thread", "images per second")
    return section("### Rendered data sets", table(head, rows), note)


def _read(location: Location) -> int:
    """Read every image of a data set as the evaluator does in this process. Return their number."""
    count = 0
    for batch in load(FrameStream(location, list(open_data_set(*location).chunks()), BATCH), processes=0):
        if isinstance(batch, BrokenChunk):
            raise TypeError(batch.reason)
        count += len(batch.images)
    return count


def _memory(location: Location) -> float:
    """Read every image of a data set. Return the memory in MB that only this process uses."""
    _read(location)
    return float(psutil.Process().memory_full_info().uss) / 1e6


class _Corrupted(Dataset[tuple[torch.Tensor, int]]):
    """Photographs that are opened, resized, cropped and corrupted by a package in the loader."""

    def __init__(self, folder: Path, peers: Mapping[str, Corrupt], fastest: Mapping[str, str]) -> None:
        files = sorted(folder.rglob("*.*"))[:PLAIN_IMAGES]
        self._samples = [(file, name, level) for name in fastest for level in range(1, 6) for file in files]
        self._peers, self._fastest = peers, fastest

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        file, name, level = self._samples[index]
        corrupted = np.asarray(self._peers[self._fastest[name]](opened(file), name, level), np.uint8)
        return torch.from_numpy(corrupted.copy()), 0


def _plain(folder: Path, groups: tuple[str, ...], peers: Mapping[str, Corrupt], fastest: Mapping[str, str]) -> float:
    """Return images per second of the plain way."""
    names = library.load("imagenet-c").family.select(groups)
    data = _Corrupted(folder, peers, {name: fastest[name] for name in names})
    start = perf_counter()
    count = sum(len(images) for images, _ in DataLoader(data, batch_size=BATCH))
    return count / (perf_counter() - start)
