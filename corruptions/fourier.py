"""Images plus one spatial frequency of a fixed norm, for Fourier heat maps.

Source: Yin, Gontijo Lopes, Shlens, Cubuk & Gilmer, NeurIPS 2019 (arXiv 1906.08988). The paper leaves the phase open; it
is that of the authors' code. Rounding to 8 bits is a choice of this project.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions.catalogue import Image, Transform
from corruptions.draws import DrawSource
from corruptions.kernels.drawing.gratings import add_frequency
from corruptions.kernels.planes import CHANNELS
from corruptions.kernels.smoothing import fourier
from corruptions.validation import check_integer, to_rgb

GROUP = "fourier"
"""Group of the transform."""

NORMS: Mapping[str, float] = {"imagenet": 15.7, "cifar": 4.0}
"""Profile -> published L2 norm of what is added to each channel, for values 0..1."""

ROW = 512
"""Levels from one frequency down to the next."""

LARGEST = 255
"""Largest frequency of a level, in cycles per image."""

LEVELS = range(ROW // 2, ROW * (LARGEST + 1))
"""All levels. Multiples of ROW are not frequencies."""

TYPE = np.dtype(np.float64)


class Frequency(NamedTuple):
    """A spatial frequency in cycles per image: p down, q across. (-p, -q) is the same one."""

    p: int
    q: int

    @property
    def level(self) -> int:
        """Its level: 512 p + q + 256, with p >= 0, and q >= 0 if p is 0."""
        p, q = self if self >= (0, 0) else (-self.p, -self.q)
        return ROW * p + q + ROW // 2


def frequency(level: int) -> Frequency:
    """Return the frequency of a level.

    Args:
        level: Level, from 256, which is frequency (0, 0).

    Raises:
        ValueError: If no frequency has this level.
    """
    p, q = level // ROW, level % ROW
    if level not in LEVELS or not q:
        raise ValueError(f"{level} is not a level 512 p + q + 256 of frequencies p (0..{LARGEST}) and q (+-{LARGEST})")
    return Frequency(p, q - ROW // 2)


def levels(largest: int, step: int = 1) -> tuple[int, ...]:
    """Return the levels of a map, one of each pair of frequencies (p, q) and (-p, -q).

    Args:
        largest: Largest absolute value of p and q, 0..255.
        step: Distance between frequencies.

    Raises:
        ValueError: If a value is out of range.
    """
    if not 0 <= largest <= LARGEST or step < 1:
        raise ValueError(f"a map needs frequencies of 0..{LARGEST} and a step of at least 1, not {largest} and {step}")
    last = largest // step * step
    across = range(-last, last + 1, step)
    return tuple(Frequency(p, q).level for p in across for q in across if (p, q) >= (0, 0))


def unfit(level: int, height: int, width: int) -> str:
    """Return why images of a size cannot show the frequency of a level; empty if they can."""
    try:
        p, q = frequency(level)
    except ValueError as error:
        return str(error)
    if 2 * p < height and 2 * abs(q) < width:
        return ""
    return (
        f"{level} is frequency ({p}, {q}), but images of {height} x {width} pixels have frequencies below half a side"
    )


def draw_signs(source: DrawSource) -> tuple[int, ...]:
    """Draw the sign of each channel, -1 or 1."""
    return tuple((2 * source.integers(0, 2, (CHANNELS,)) - 1).tolist())


def waves(p: int, q: int, height: int, width: int) -> tuple[fourier.Field, fourier.Field]:
    """Return a pattern as waves down (2, H) and across (2, W): the sum over both of their outer products.

    The pattern of rows r and columns c is (cos t + sin t) / sqrt(H W) with t = 2 pi (p r / H + q c / W); where it would
    be its own mirror image, at (0, 0) and at the highest frequencies of even sides, it is cos t / sqrt(H W). Its L2
    norm is 1, and its Fourier transform is 0 but for (p, q) and (-p, -q).

    Args:
        p: Cycles per image down, at most half of the height.
        q: Cycles per image across, at most half of the width.
        height: Height of the image in pixels.
        width: Width of the image in pixels.

    Raises:
        ValueError: If a frequency is too large.
    """
    if 2 * abs(p) > height or 2 * abs(q) > width:
        raise ValueError(f"frequency ({p}, {q}) must be at most half of the sides, {height} x {width}")
    if (p, q) < (0, 0):
        p, q = -p, -q
    cosines, sines = _wave(p, height)
    both = 2 * p % height != 0 or 2 * q % width != 0
    down = np.stack([cosines + sines, cosines - sines] if both else [cosines, -sines])
    return down / math.sqrt(height * width), np.stack(_wave(q, width))


def _wave(cycles: int, length: int) -> tuple[fourier.Field, fourier.Field]:
    """Return cosine and sine of a number of cycles along a side."""
    plan = fourier.plan(length, TYPE)
    turns = np.arange(length) * cycles % length
    return plan.cosines[turns], -plan.sines[turns]


def fourier_noise(image: NDArray[np.uint8], p: int, q: int, norm: float, signs: Sequence[int] = (1, 1, 1)) -> Image:
    """Return an image plus one spatial frequency, see :func:`waves`, clipped and rounded to the nearest level.

    Args:
        image: uint8 array, 0..255: RGB (H, W, 3), or grey (H, W) or (H, W, 1), which is repeated to three channels. The
            array is not modified.
        p: Cycles per image down, at most half of the height. (-p, -q) is the same frequency as (p, q).
        q: Cycles per image across, at most half of the width.
        norm: L2 norm of what is added to each channel, for values 0..1: 15.7 for 224 x 224, 4 for 32 x 32.
        signs: Sign of the pattern in each channel, -1 or 1.

    Returns:
        A new C-contiguous uint8 RGB array (H, W, 3). Halves are rounded up.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument has an invalid shape or value.
    """
    rgb = to_rgb(image, 1)
    down, across = waves(check_integer(p, "p"), check_integer(q, "q"), *rgb.shape[:2])
    if not 0 <= norm < math.inf:
        raise ValueError(f"norm must be a finite number of at least 0, not {norm!r}")
    if len(signs) != CHANNELS or any(sign not in (-1, 1) for sign in signs):
        raise ValueError(f"signs must be {CHANNELS} numbers of -1 and 1, not {signs!r:.80}")
    return add_frequency(rgb.reshape(len(rgb), -1), down, across, np.array(signs, TYPE), 255.0 * norm).reshape(
        rgb.shape
    )


class Added(NamedTuple):
    """Parameters of a level: its frequency, and the norm."""

    frequency: Frequency
    norm: float


class Rows(Sequence[Added]):
    """The parameters of the levels 1, 2 ... with a norm. Those that are not frequencies raise ValueError."""

    def __init__(self, norm: float) -> None:
        self._norm = norm

    def __len__(self) -> int:
        return LEVELS[-1]

    def __getitem__(self, index: Any) -> Any:
        return Added(frequency(index + 1), self._norm)


def add(image: Image, parameters: Added, draws: Mapping[str, Any]) -> Image:
    """Return the image plus the frequency of a level, with the drawn signs. Raises ValueError if it is too small."""
    if reason := unfit(parameters.frequency.level, *image.shape[:2]):
        raise ValueError(reason)
    return fourier_noise(image, *parameters.frequency, parameters.norm, draws["signs"])


def draw(source: DrawSource, image: Image, parameters: Added) -> dict[str, Any]:
    """Draw the sign of each channel."""
    return {"signs": draw_signs(source)}


CORRUPTIONS: Mapping[str, Transform] = {
    "fourier_noise": Transform(
        "fourier_noise",
        1,
        GROUP,
        {profile: Rows(norm) for profile, norm in NORMS.items()},
        add,
        draw,
        keys=("signs",),
        smallest=1,
    )
}
"""Name -> transform."""
