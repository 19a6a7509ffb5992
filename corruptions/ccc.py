"""CCC, continuously changing corruptions: pairs of corruptions with real severities, along walks at even accuracy.

Source: Press, Schneider, Kuemmerer & Bethge, "RDumb", NeurIPS 2023, and the generator of its authors. Pairs and paths
are the published ones. The order of the images and what is drawn for them are keyed by the stream, the step and the
image, because the published ones depend on the number of processes.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import permutations
from random import Random
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image as PillowImage

from corruptions.catalogue import Image
from corruptions.elementary import exp
from corruptions.preparation import Window, crop, pillow_bilinear
from corruptions.validation import check_integer

NAMES = (
    "gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur", "zoom_blur",
    "snow", "frost", "fog", "contrast", "elastic_transform", "pixelate", "jpeg_compression",
)  # fmt: skip
"""The corruptions of the streams, in the order in which they are drawn from."""

HARD = ("gaussian_noise", "shot_noise", "impulse_noise", "contrast")
"""Those of streams with a baseline below 20."""

SHORT = {"elastic_transform": "elastic", "jpeg_compression": "jpeg"}
"""Names that are shorter in the published matrix."""

PER_SEVERITY = 4
"""Steps of a walk change a severity by one of this many parts."""
GRID = 5 * PER_SEVERITY + 1
"""Severities of a matrix: 0, 0.25 ... 5."""

SIDE = 224
"""Side of the prepared images in pixels."""

TRIES = 10
"""Number of crops that are tried."""
DRAWS = 3 + 2 * TRIES
"""Uniform numbers for the preparation of an image."""
MIN_AREA, MAX_AREA = 0.08, 1.0
MIN_RATIO, MAX_RATIO = 3 / 4, 4 / 3
LOG_MIN_RATIO, LOG_MAX_RATIO = -0.2876820724517809, 0.28768207245178085
"""Ranges of the area of a crop, relative to the image, and of its width divided by its height."""


class Step(NamedTuple):
    """What a step of a stream does to its images: the first corruption, then the second. Severity 0 does nothing."""

    first: str
    second: str
    first_severity: float
    second_severity: float


def check_baseline(baseline: float) -> float:
    """Return a baseline, whole numbers as int. Raises ValueError if it is not an accuracy in percent."""
    if isinstance(baseline, bool) or not isinstance(baseline, int | float | np.number) or not 0 <= baseline <= 100:
        raise ValueError(f"invalid baseline {baseline!r}: use an accuracy in percent, 0..100, for example 0, 20 or 40")
    return int(baseline) if float(baseline).is_integer() else float(baseline)


def names(baseline: float) -> tuple[str, ...]:
    """Return the corruptions of the streams of a baseline, in the order in which they are drawn from.

    Args:
        baseline: Accuracy in percent, 0..100. Published: 40, 20 and 0.

    Raises:
        ValueError: If the baseline is no number in 0..100.
    """
    if check_baseline(baseline) < 20:
        return HARD
    return NAMES if baseline >= 40 else tuple(name for name in NAMES if name != "jpeg_compression")


def pair_keys(chosen: Sequence[str]) -> dict[tuple[str, str], str]:
    """Return the key of each ordered pair of different corruptions in a matrix: ``n1_elastic_n2_fog``."""
    short = {name: SHORT.get(name, name) for name in chosen}
    return {(first, second): f"n1_{short[first]}_n2_{short[second]}" for first, second in permutations(chosen, 2)}


def check_accuracy(matrix: ArrayLike, what: str, shape: tuple[int, int] | None = None) -> NDArray[np.float64]:
    """Return accuracies as float64. Raises ValueError if they are no finite percents, or not of a shape."""
    values = np.asarray(matrix)
    if values.dtype.kind not in "fiu":
        raise ValueError(f"{what} must have numbers, not {values.dtype}")
    if values.ndim != 2 or min(values.shape) < 2 or values.shape != (shape or values.shape):
        wanted = f"{shape[0]} x {shape[1]}" if shape else "2 x 2 or larger"
        raise ValueError(f"{what} must be {wanted}, not of shape {values.shape}")
    if not ((values >= 0) & (values <= 100)).all():
        raise ValueError(f"{what} must be accuracies in percent, finite and 0..100")
    return values.astype(np.float64)


def path(accuracy: ArrayLike, target: float) -> list[tuple[int, int]]:
    """Return the path through an accuracy matrix that the published greedy search finds.

    Quirk: of two extensions, the search keeps the one with the better mean so far, so it can miss the best path.

    Args:
        accuracy: Accuracies in percent (rows, columns), 2 x 2 or larger. Rows are severities of the first corruption.
        target: Wanted mean accuracy in percent.

    Returns:
        Indices (row, column): from (row, 0), a step lowers the row or raises the column, to row 0.

    Raises:
        ValueError: If the matrix or the target is invalid.
    """
    values = check_accuracy(accuracy, "the accuracy matrix").tolist()
    if not math.isfinite(target):
        raise ValueError(f"invalid target {target!r}: use an accuracy in percent")
    reached: dict[tuple[int, int], tuple[float, int, tuple[int, int] | None]] = {
        (0, column): (value, 1, None) for column, value in enumerate(values[0])
    }  # cell -> sum and length of its path, and the next cell

    def distance(way: tuple[float, int, Any]) -> float:
        return abs(way[0] / way[1] - target)

    for row in range(1, len(values)):
        for column, value in reversed(list(enumerate(values[row]))):
            following = [cell for cell in ((row, column + 1), (row - 1, column)) if cell in reached]
            ways = [(reached[cell][0] + value, reached[cell][1] + 1, cell) for cell in following]
            reached[row, column] = min(ways, key=distance)
    cells = [min(((row, 0) for row in range(1, len(values))), key=lambda cell: distance(reached[cell]))]
    while following_cell := reached[cells[-1]][2]:
        cells.append(following_cell)
    return cells


def walk(accuracies: Mapping[str, ArrayLike], baseline: float, seed: int) -> Iterator[Step]:
    """Return the steps of a stream, without end.

    Args:
        accuracies: Key ``n1_<first>_n2_<second>`` -> accuracies in percent (21, 21) at severities 0, 0.25 ... 5, rows
            for the first corruption. Every ordered pair of ``names(baseline)`` is needed; further keys are ignored.
        baseline: Target accuracy in percent, 0..100. Published: 40, 20 and 0.
        seed: Seed of the pairs. Published: 43, 44 and 45.

    Raises:
        TypeError: If the seed is no integer.
        ValueError: If a pair is missing or invalid, or the baseline is invalid.
    """
    chosen, generator = names(baseline), Random(check_integer(seed, "seed"))
    pairs = pair_keys(chosen)
    if missing := [key for key in pairs.values() if key not in accuracies]:
        raise ValueError(
            f"the accuracy matrix lacks {len(missing)} of {len(pairs)} pairs of baseline {baseline:g}, for example "
            f"{missing[0]}"
        )
    matrices = {pair: check_accuracy(accuracies[key], key, (GRID, GRID)) for pair, key in pairs.items()}
    return _steps(chosen, cache(lambda *pair: path(matrices[pair], baseline)), generator)


def _steps(
    chosen: tuple[str, ...], path_of: Callable[[str, str], list[tuple[int, int]]], generator: Random
) -> Iterator[Step]:
    first = generator.choice(chosen)
    while True:
        second = first
        while second == first:
            second = generator.choice(chosen)
        for row, column in path_of(first, second):
            yield Step(first, second, row / PER_SEVERITY, column / PER_SEVERITY)
        first = second


def crop_box(width: int, height: int, draws: Sequence[float]) -> tuple[bool, int, int, int, int]:
    """Return the random crop of an image, as torchvision's RandomResizedCrop has it.

    Args:
        width: Width of the image in pixels.
        height: Height of the image in pixels.
        draws: 23 uniform numbers, 0 <= u < 1: for mirroring, area and ratio of ten tries, top and left. Tries that are
            not needed leave the other numbers as they are.

    Returns:
        (flip, top, left, height, width): whether the image is mirrored first, and the part of it in pixels.

    Raises:
        ValueError: If there are not 23 numbers.
    """
    if len(draws) != DRAWS:
        raise ValueError(f"draws must be {DRAWS} uniform numbers, not {len(draws)}")
    u = [float(number) for number in draws]
    flip = u[0] < 0.5
    for area_draw, ratio_draw in zip(u[1:-2:2], u[2:-2:2], strict=True):
        area = width * height * (MIN_AREA + (MAX_AREA - MIN_AREA) * area_draw)
        ratio = exp(LOG_MIN_RATIO + (LOG_MAX_RATIO - LOG_MIN_RATIO) * ratio_draw)
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return flip, int(u[-2] * (height - h + 1)), int(u[-1] * (width - w + 1)), h, w
    w, h = width, height
    if width / height < MIN_RATIO:
        h = round(width / MIN_RATIO)
    elif width / height > MAX_RATIO:
        w = round(height * MAX_RATIO)
    return flip, (height - h) // 2, (width - w) // 2, h, w


def prepare(image: PillowImage.Image | Image, draws: Sequence[float]) -> Image:
    """Return an image mirrored, cropped and resized, uint8 (224, 224, 3).

    Args:
        image: PIL image, or uint8 RGB array (H, W, 3).
        draws: 23 uniform numbers, see :func:`crop_box`.

    Raises:
        ValueError: If there are not 23 numbers.
    """
    pixels = np.asarray(image.convert("RGB")) if isinstance(image, PillowImage.Image) else image
    height, width = pixels.shape[:2]
    flip, top, left, rows, columns = crop_box(width, height, draws)
    if flip:  # the part of the mirrored image
        left = width - left - columns
    part = crop(pixels, Window(top, left, rows, columns))
    if flip:
        part = np.asarray(cv2.flip(part, 1), np.uint8)
    return pillow_bilinear(part, SIDE, SIDE, Window(0, 0, SIDE, SIDE))


class StreamKey(NamedTuple):
    """What names a stream besides its matrix: everything that is drawn for its images is keyed by it.

    Attributes:
        baseline: Target accuracy in percent.
        speed: Images per step.
        seed: Seed.
    """

    baseline: float
    speed: int
    seed: int

    def __str__(self) -> str:
        """Return the published name: ``baseline_20_transition+speed_1000_seed_44``."""
        return f"baseline_{check_baseline(self.baseline)}_transition+speed_{self.speed}_seed_{self.seed}"

    def order(self, step: int, images: int) -> NDArray[np.int64]:
        """Return the indices of the images of a step in the listing of the source, int64 (speed,), no one twice.

        Args:
            step: Number of the step, from 0.
            images: Number of images of the source.

        Raises:
            ValueError: If the source has fewer images than a step.
        """
        if images < self.speed:
            raise ValueError(
                f"a step needs {self.speed} different images, but the source has {images}: lower the speed"
            )
        raw = np.random.Philox(key=self._key(str(step))).random_raw(images)
        chosen = np.flatnonzero(raw <= np.partition(raw, self.speed - 1)[self.speed - 1])
        return chosen[np.argsort(raw[chosen], kind="stable")][: self.speed]

    def draws(self, step: int, source_id: str) -> tuple[NDArray[np.float64], int, int]:
        """Return what is drawn for an image: 23 uniform numbers, and the seeds of both corruptions.

        Args:
            step: Number of the step, from 0.
            source_id: Id of the source image.
        """
        prepared, first, second = (self._key(f"{step} {part} {source_id}") for part in ("crop", "first", "second"))
        words = np.random.Philox(key=prepared).random_raw(DRAWS) >> np.uint64(11)
        return words.astype(np.float64) * 2.0**-53, first, second

    def _key(self, what: str) -> int:
        text = f"{self.seed} {check_baseline(self.baseline)} {self.speed} {what}"
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16, person=b"ccc").digest(), "little")
