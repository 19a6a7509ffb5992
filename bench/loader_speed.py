"""Speed of the evaluator's loader (decode and normalise), compared with an image folder read as torchvision does."""

import statistics
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from PIL import Image as PillowImage
from torch.utils.data import DataLoader, Dataset

from bench.images import repeated
from bench.report import section, table
from bench.scaling import Stopwatch
from pipeline.builder.build import run_build
from pipeline.builder.settings import BuildSettings
from pipeline.datasets.base import Location
from pipeline.datasets.export import export
from pipeline.datasets.opening import open_data_set
from pipeline.evaluate.predict.classifier import Normaliser
from pipeline.evaluate.predict.loader_processes import load
from pipeline.evaluate.predict.stream import BrokenChunk, FrameStream
from pipeline.recipes import library

BATCH, SHARD = 64, 960
ROUNDS = 5
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def measure(photographs: Path, scratch: Path) -> str:
    """Return the section of both, measured in turns on three corruptions at severity 3: medians of the rounds."""
    torch.set_num_threads(1)
    recipe = library.load("imagenet-c").changed(
        transforms={"levels": [3], "only": ["frost", "zoom_blur", "shot_noise"]}
    )
    data, folder = scratch / "loader", scratch / "loader-folder"
    source = repeated(photographs, scratch / "loader-source", SHARD)
    images = run_build(
        BuildSettings(recipe=recipe, source=str(source), out=str(data), workers=1), Stopwatch()
    ).plan.samples
    export(str(data), "imagefolder", str(folder))
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(rate(images, lambda: _stream(Location(str(data)))))
        theirs.append(rate(images, lambda: _folder(folder)))
    shards, files = statistics.median(ours), statistics.median(theirs)
    head = ("decode and normalise, one process, one thread", "images per second")
    rows = (
        ("shards, read by the evaluator", f"{shards:,.0f}"),
        ("image folder, read as torchvision does", f"{files:,.0f}"),
    )
    note = f"{images:,} images of 224 x 224. Evaluator / torchvision: **{shards / files:.1f}**."
    return section("### The evaluator's loader", table(head, rows), note)


def rate(images: int, run: Callable[[], int]) -> float:
    """Return images per second of a function that returns the number of images it has read."""
    start = perf_counter()
    if run() != images:
        raise RuntimeError("a loader did not return every image")
    return images / (perf_counter() - start)


def _stream(data: Location) -> int:
    """Read every image of a data set as the evaluator does in this process. Return their number."""
    normalise, count = Normaliser(BATCH, MEAN, STD, torch.device("cpu"), channels_last=True), 0
    chunks = list(open_data_set(*data).chunks())
    for batch in load(FrameStream(data, chunks, BATCH), processes=0):
        if isinstance(batch, BrokenChunk):
            raise TypeError(batch.reason)
        normalise(batch.images)
        count += len(batch.images)
    return count


class _Folder(Dataset[tuple[torch.Tensor, int]]):
    """A data set that does the same as torchvision's ImageFolder with ToTensor and Normalize."""

    def __init__(self, root: Path) -> None:
        self._files = sorted(root.rglob("*.JPEG"))
        self._mean, self._std = (torch.tensor(values)[:, None, None] for values in (MEAN, STD))

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with open(self._files[index], "rb") as file:
            image = PillowImage.open(file).convert("RGB")
        values = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().to(torch.float32).div(255)
        return values.sub_(self._mean).div_(self._std), 0


def _folder(root: Path) -> int:
    return sum(len(images) for images, _ in DataLoader(_Folder(root), batch_size=BATCH))
