"""The accuracy of a model under pairs of corruptions, from which streams of CCC take their paths."""

import hashlib
import io
import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

import corruptions
from corruptions import ccc
from corruptions.preparation import PROFILE_STEPS
from pipeline.errors import UserError
from pipeline.evaluate.models.base import Model
from pipeline.evaluate.predict.classifier import Normaliser
from pipeline.images.encoders import Jpeg
from pipeline.images.resizers import prepare
from pipeline.render.ccc import read_photograph
from pipeline.sources import npz
from pipeline.sources.base import UNLABELLED, Source
from pipeline.storage import find_place
from pipeline.storage.local import LocalStore
from pipeline.transforms.seeds import sample_seed

ABOUT = "about"
"""Key of the description: JSON as bytes."""

SINGLE = "single"
"""Key of the accuracies under single corruptions (corruptions, nodes); NaN where they are not measured yet."""

TIMED = 16
"""Number of images that the estimate of the duration takes."""

NODES = (2, 3, 5, 6, 11, 21)
"""Allowed numbers of severities that are measured of each corruption; the others are interpolated."""

Grid = NDArray[np.float64]
Classify = Callable[[NDArray[np.uint8]], NDArray[np.int64]]
"""A function of images (N, 224, 224, 3) that returns the class of each."""


@dataclass(frozen=True)
class MatrixPlan:
    """What decides a matrix.

    Attributes:
        model: Name of the model.
        digest: Digest of its weights.
        source: Digest of the ids and labels of the chosen images.
        images: Number of images of each cell.
        nodes: Number of measured severities of each corruption, including 0.
        seed: Seed of what corruptions draw.
        names: The corruptions.
    """

    model: str
    digest: str
    source: str
    images: int
    nodes: int
    seed: int
    names: tuple[str, ...]

    @property
    def pairs(self) -> dict[tuple[str, str], str]:
        """The key of each ordered pair of different corruptions."""
        return ccc.pair_keys(self.names)

    @property
    def severities(self) -> Grid:
        """The measured severities."""
        return np.linspace(0, 5, self.nodes)

    @property
    def cells(self) -> int:
        """Number of cells: those of all pairs, and those of single corruptions, which pairs share."""
        return len(self.pairs) * (self.nodes - 1) ** 2 + len(self.names) * (self.nodes - 1) + 1


@dataclass(frozen=True)
class PreparedImages:
    """The prepared images of all cells (N, 224, 224, 3), their labels and ids."""

    pixels: NDArray[np.uint8]
    labels: NDArray[np.int64]
    ids: Sequence[str]

    @property
    def digest(self) -> str:
        """The SHA-256 of ids and labels."""
        return hashlib.sha256(repr((list(self.ids), self.labels.tolist())).encode()).hexdigest()


def clean_images(source: Source, count: int, seed: int) -> PreparedImages:
    """Return randomly chosen images, prepared as those of ImageNet-C; all, if there are not more.

    Raises:
        UserError: The source has no images, or some without labels.
    """
    listing = list(source)
    if not listing or any(image.label == UNLABELLED for image in listing):
        raise UserError("the source must have images, all of them with labels: sort them into folders of classes")
    order = ccc.StreamKey(0, min(count, len(listing)), seed).order(0, len(listing))
    chosen = [listing[index] for index in sorted(order.tolist())]
    labels = np.array([image.label for image in chosen], np.int64)
    pixels = [prepare(read_photograph(source, image), PROFILE_STEPS["imagenet"]) for image in chosen]
    return PreparedImages(np.stack(pixels), labels, [image.id for image in chosen])


def classifier(model: Model, device: str, batch: int) -> Classify:
    """Return a model as a function of images."""
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    place = torch.device(device)
    module, size = model.module.to(place), model.input.size
    normalise = Normaliser(batch, model.input.mean, model.input.std, place)

    def classify(images: NDArray[np.uint8]) -> NDArray[np.int64]:
        found = []
        for start in range(0, len(images), batch):
            values = normalise(torch.from_numpy(images[start : start + batch]).to(place))
            if size and values.shape[2:] != (size, size):
                values = torch.nn.functional.interpolate(values, (size, size), mode="bilinear", antialias=True)
            with torch.inference_mode():
                found.append(module(values).argmax(dim=1).cpu().numpy())
        return np.concatenate(found)

    return classify


def measure(
    plan: MatrixPlan, clean: PreparedImages, classify: Classify, out: Path, threads: int, step: Callable[[str], None]
) -> None:
    """Measure a matrix and write it. What an earlier, interrupted run has written is kept.

    Args:
        plan: What is measured.
        clean: The images.
        classify: The model.
        out: The ``.npz`` file. It is written after every corruption and every pair, and complete after the last pair.
        threads: Threads that corrupt images.
        step: Called with the progress as text.

    Raises:
        UserError: The file has other content.
    """
    done = _earlier(plan, out)
    single = done.setdefault(SINGLE, np.full((len(plan.names), plan.nodes), np.nan))
    missing = {pair: key for pair, key in plan.pairs.items() if key not in done}
    total = left = len(missing) * (plan.nodes - 1) ** 2 + int(np.isnan([single[0, 0], *single[:, 1:].flat]).sum())

    with ThreadPoolExecutor(threads) as pool:

        def corrupted(images: NDArray[np.uint8], name: str, severity: float, place: str) -> NDArray[np.uint8]:
            corrupt = corruptions.corruptor(name, float(severity))
            seeds = (sample_seed(plan.seed, id_, place, 0) for id_ in clean.ids)
            return np.stack(list(pool.map(corrupt, images, seeds)))

        def right(images: NDArray[np.uint8]) -> NDArray[np.bool_]:
            return classify(np.stack(list(pool.map(Jpeg().stored, images)))) == clean.labels[: len(images)]

        def accuracy(images: NDArray[np.uint8]) -> float:
            nonlocal left
            value = 100 * float(right(images).mean())
            left -= 1
            spent = time.monotonic() - start
            step(f"{left:,} of {total:,} cells left, about {left * spent / (total - left) / 60:.0f} minutes")
            return value

        if total:
            few = clean.pixels[:TIMED]
            corrupting = [_seconds(partial(corrupted, few, name, 3, "first")) for name in plan.names]
            each = (_seconds(partial(right, few)) + sum(corrupting) / len(corrupting)) / len(few)
            step(f"{total:,} cells of {plan.images:,} images: about {total * plan.images * each / 60:.0f} minutes")
        start, steps = time.monotonic(), plan.severities[1:]
        if np.isnan(single[0, 0]):
            single[:, 0] = accuracy(clean.pixels)
        for row, name in zip(single, plan.names, strict=True):
            if np.isnan(row).any():
                row[1:] = [accuracy(corrupted(clean.pixels, name, each, "first")) for each in steps]
                _write(plan, done, out)
        of_single = dict(zip(plan.names, single, strict=True))
        for (first, second), key in missing.items():
            grid = np.empty((plan.nodes, plan.nodes))
            grid[:, 0], grid[0] = of_single[first], of_single[second]
            for row, severity in enumerate(steps, 1):
                images = corrupted(clean.pixels, first, severity, "first")
                for column, other in enumerate(steps, 1):
                    grid[row, column] = accuracy(corrupted(images, second, other, "second"))
            done[key] = refined(grid)
            _write(plan, done, out)


def _seconds(function: Callable[[], object]) -> float:
    """Return how long the second call of a function takes."""
    function()
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def refined(grid: Grid) -> Grid:
    """Return accuracies at all 21 severities, interpolated linearly along both axes."""
    severities, measured = np.linspace(0, 5, ccc.GRID), np.linspace(0, 5, len(grid))
    rows = np.stack([np.interp(severities, measured, row) for row in grid])
    return np.stack([np.interp(severities, measured, column) for column in rows.T]).T


def _facts(plan: MatrixPlan) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(asdict(plan)).encode(), np.uint8)


def _earlier(plan: MatrixPlan, out: Path) -> dict[str, Grid]:
    """Return what a file holds: pairs, and single corruptions. Raise UserError if it is of another plan."""
    place = find_place(str(out))
    if place is None:
        return {}
    if bytes(npz.load(place, [ABOUT])[ABOUT]) != bytes(_facts(plan)):
        raise UserError(f"{out} holds the accuracies of another model, images or settings: use another --out")
    keys = npz.names(place)
    wanted = [key for key in (SINGLE, *plan.pairs.values()) if key in keys]
    return {key: np.array(value, np.float64) for key, value in npz.load(place, wanted, "f").items()}


def _write(plan: MatrixPlan, grids: Mapping[str, Grid], out: Path) -> None:
    content = io.BytesIO()
    np.savez_compressed(content, **{ABOUT: _facts(plan), **grids})  # type: ignore[arg-type]
    LocalStore(str(out.parent)).publish_bytes(content.getvalue(), out.name)
