"""Where random numbers come from: NumPy's legacy generator in the published order, or our own fast one."""

from __future__ import annotations

import math
from copy import copy
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import philox as random
from corruptions.kernels import poisson

Shape = tuple[int, ...]

Part = tuple[slice, ...]
"""Of an array, along its first axes, in steps of 1."""

SEED_BITS = 128
WORD = 2**32
SMALL_SPAN, SMALL_PER_WORD = 16, 4
"""Of so few different numbers, four come from one word; one word in 2^16 at most is drawn anew."""
INT8_MAX = 127
SALT_SHARE = 0.5
"""Half of the struck values become salt, the others pepper."""


class DrawSource(Protocol):
    """What a corruption may ask for. Both sources give the same distributions."""

    def normal(self, loc: float, scale: float, shape: Shape, part: Part = ()) -> NDArray[np.floating]:
        """Normal numbers; of an array of this shape, only the ``part`` that is used."""

    def uniform(self, low: float, high: float, shape: Shape) -> NDArray[np.floating]:
        """Uniform numbers in low..high."""

    def angle(self, low: float, high: float) -> float:
        """One uniform number, in degrees where it is an angle."""

    def integers(self, low: int, high: int, shape: Shape) -> NDArray[np.integer]:
        """Whole numbers in low..high, upper end excluded."""

    def integer(self, low: int, high: int) -> int:
        """One whole number in low..high, upper end excluded."""

    def poisson(self, image: NDArray[np.uint8], lam: float) -> NDArray[np.integer]:
        """Photon counts with mean ``image / 255 * lam`` for each value of the image."""

    def salt_and_pepper(self, amount: float, shape: Shape) -> NDArray[np.uint8]:
        """0: keep, 1: pepper, 2: salt, for ``amount`` (0..1) of the values."""

    def at(self, call: int) -> DrawSource:
        """The source for draw number ``call``, where it can be had without the draws before it; else this one."""


class PublishedDraws:
    """The legacy generator, asked as the published scripts asked it; normals and uniforms are float64."""

    def __init__(self, rng: np.random.RandomState) -> None:
        self._rng = rng

    def normal(self, loc: float, scale: float, shape: Shape, part: Part = ()) -> NDArray[np.float64]:
        """float64 normal numbers; what is not used is drawn all the same, as published."""
        return self._rng.normal(loc, scale, shape)[part]

    def uniform(self, low: float, high: float, shape: Shape) -> NDArray[np.float64]:
        """float64 numbers in low..high."""
        return self._rng.uniform(low, high, shape)

    def angle(self, low: float, high: float) -> float:
        """One float64 number in low..high."""
        return float(self._rng.uniform(low, high))

    def integers(self, low: int, high: int, shape: Shape) -> NDArray[np.int64]:
        """int64 numbers in low..high, upper end excluded."""
        return self._rng.randint(low, high, shape)

    def integer(self, low: int, high: int) -> int:
        """One whole number in low..high, upper end excluded."""
        return int(self._rng.randint(low, high))

    def poisson(self, image: NDArray[np.uint8], lam: float) -> NDArray[np.int64]:
        """int64 photon counts with mean ``image / 255 * lam``."""
        return self._rng.poisson(image / 255.0 * lam)

    def salt_and_pepper(self, amount: float, shape: Shape) -> NDArray[np.uint8]:
        """uint8 codes, from two numbers for each value: is it struck, and by what."""
        struck = self._rng.random_sample(shape) < amount
        salt = self._rng.random_sample(shape) < SALT_SHARE
        return struck.view(np.uint8) << (struck & salt).view(np.uint8)

    def at(self, call: int) -> PublishedDraws:
        """This source: what a legacy generator gives depends on all that it gave before."""
        return self


class FastDraws:
    """Philox 4x32-10, a stream for each call; normals and uniforms are float32.

    The lower half of the 128-bit seed is the key, its upper half two counter words; the third counter word is the
    number of the call, so that neither seeds nor calls can share a block.
    """

    def __init__(self, seed: int) -> None:
        self._key, self._upper = seed % 2**64, seed >> 64
        self._calls = 0

    def _stream(self) -> random.Stream:
        """The words that name the next call."""
        call = self._calls
        self._calls += 1
        return self._key % WORD, self._key // WORD, call, self._upper % WORD, self._upper // WORD

    def normal(self, loc: float, scale: float, shape: Shape, part: Part = ()) -> NDArray[np.float32]:
        """float32 normal numbers; rows outside the part are not drawn."""
        rows = range(shape[0])[part[0]] if part else range(shape[0])
        across = math.prod(shape[1:])
        values: NDArray[np.float32] = random.normals(
            rows.start * across, len(rows) * across, np.float32(loc), np.float32(scale), self._stream()
        )
        return values.reshape(len(rows), *shape[1:])[(slice(None), *part[1:])]

    def uniform(self, low: float, high: float, shape: Shape) -> NDArray[np.float32]:
        """float32 numbers in low..high, with 24 random bits."""
        count, stream = math.prod(shape), self._stream()
        values: NDArray[np.float32] = random.uniforms(count, np.float32(low), np.float32(high), stream)
        return values.reshape(shape)

    def angle(self, low: float, high: float) -> float:
        """One float64 number in low..high, with 53 random bits."""
        first, second = random.block_words(0, self._stream())[:2]
        return low + (high - low) * (int(first) / WORD + (int(second) >> 11) / 2**53)

    def integers(self, low: int, high: int, shape: Shape) -> NDArray[np.integer]:
        """int8 or int32 numbers in low..high, upper end excluded, unbiased; small ones share a 32-bit word."""
        small = high - low <= SMALL_SPAN and max(abs(low), abs(high)) <= INT8_MAX
        values: NDArray[np.integer] = np.empty(shape, np.int8 if small else np.int32)
        digits = SMALL_PER_WORD if small else 1
        random.integers(values.reshape(-1), np.int32(low), np.uint32(high - low), digits, self._stream())
        return values

    def integer(self, low: int, high: int) -> int:
        """One whole number in low..high, upper end excluded."""
        return int(self.integers(low, high, (1,))[0])

    def poisson(self, image: NDArray[np.uint8], lam: float) -> NDArray[np.uint16]:
        """uint16 photon counts with mean ``image / 255 * lam``."""
        values: NDArray[np.uint16] = poisson.counts(image.reshape(-1), *poisson.tables(float(lam)), self._stream())
        return values.reshape(image.shape)

    def salt_and_pepper(self, amount: float, shape: Shape) -> NDArray[np.uint8]:
        """uint8 codes, from one 32-bit word for each value."""
        struck = round(amount * WORD)
        pepper = round(amount * (1 - SALT_SHARE) * WORD)
        codes: NDArray[np.uint8] = random.salt_and_pepper(math.prod(shape), pepper, struck, self._stream())
        return codes.reshape(shape)

    def at(self, call: int) -> FastDraws:
        """A source whose next draw is number ``call``."""
        source = copy(self)
        source._calls = call
        return source
