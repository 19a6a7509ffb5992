"""Sources of random numbers: NumPy's legacy generator in the published order, or a fast counter-based generator."""

import math
import sys
import warnings
import zlib
from copy import copy
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels.random import philox as random
from corruptions.kernels.random import poisson

Shape = tuple[int, ...]
"""Shape of an array."""

Part = tuple[slice, ...]
"""Slices with step 1 along the first axes of an array."""

SEED_BITS = 128
"""Bits of a seed of the fast generator."""
WORD = 2**32
"""Number of values of a 32-bit word."""
SMALL_SPAN, SMALL_PER_WORD = 16, 4
"""Ranges of at most this many values take several numbers from one 32-bit word, and how many.

At most one word in 2**16 must then be redrawn.
"""
INT8_MAX = 127
"""Largest int8 value."""
SALT_FRACTION = 0.5
"""Fraction of the affected values that become salt. The others become pepper."""


class DrawSource(Protocol):
    """The random numbers that a corruption can draw. Both sources have the same distributions."""

    def normal(self, loc: float, scale: float, shape: Shape, part: Part = ()) -> NDArray[np.floating]:
        """Draw normal numbers.

        Args:
            loc: Mean.
            scale: Standard deviation.
            shape: Shape of the full array.
            part: Part of the full array to return. Default: all of it.
        """

    def uniform(self, low: float, high: float, shape: Shape) -> NDArray[np.floating]:
        """Draw uniform numbers in low..high."""

    def angle(self, low: float, high: float) -> float:
        """Draw one uniform number in low..high, in degrees if it is an angle."""

    def integers(self, low: int, high: int, shape: Shape) -> NDArray[np.integer]:
        """Draw integers in low..high - 1."""

    def integer(self, low: int, high: int) -> int:
        """Draw one integer in low..high - 1."""

    def rows(self, count: int, *ranges: tuple[int, int]) -> NDArray[np.int64]:
        """Draw integers of several ranges, low..high - 1, int64 (count, ranges). Published scripts draw row by row."""

    def poisson(self, image: NDArray[np.uint8], lam: float) -> NDArray[np.integer]:
        """Draw photon counts with mean ``image / 255 * lam`` for each value of the image."""

    def photons(self, rows: NDArray[np.uint8], means: NDArray[np.float64]) -> NDArray[np.integer]:
        """Draw photon counts with mean ``means[row]`` for each row number. Means are at most 2000."""

    def counts(self, mean: float, shape: Shape) -> NDArray[np.integer]:
        """Draw Poisson numbers with one mean, 0..16384."""

    def permutation(self, count: int) -> NDArray[np.int64]:
        """Draw 0..count - 1 in random order, int64 (count,)."""

    def salt_and_pepper(self, amount: float, shape: Shape) -> NDArray[np.uint8]:
        """Draw uint8 codes, 0 keep, 1 pepper, 2 salt. ``amount`` (0..1) is the fraction not kept."""

    def child(self) -> "DrawSource":
        """Return a source of further numbers, independent of those that this source draws before and after."""

    def at_call(self, call: int) -> "DrawSource":
        """Return a source whose next draw is number ``call``, or this source if it cannot skip draws."""


class PublishedDraws:
    """The legacy generator, called as the published scripts call it. Normal and uniform numbers are float64."""

    def __init__(self, rng: np.random.RandomState) -> None:
        self._rng = rng

    def normal(self, loc: float, scale: float, shape: Shape, part: Part = ()) -> NDArray[np.float64]:
        """Draw float64 normal numbers. The full array is drawn, as published, and then the part is taken."""
        return self._rng.normal(loc, scale, shape)[part]

    def uniform(self, low: float, high: float, shape: Shape) -> NDArray[np.float64]:
        """Draw float64 numbers in low..high."""
        return self._rng.uniform(low, high, shape)

    def angle(self, low: float, high: float) -> float:
        """Draw one float64 number in low..high."""
        return float(self._rng.uniform(low, high))

    def integers(self, low: int, high: int, shape: Shape) -> NDArray[np.int64]:
        """Draw int64 numbers in low..high - 1."""
        return self._rng.randint(low, high, shape)

    def integer(self, low: int, high: int) -> int:
        """Draw one integer in low..high - 1."""
        return int(self._rng.randint(low, high))

    def rows(self, count: int, *ranges: tuple[int, int]) -> NDArray[np.int64]:
        """Draw int64 numbers of several ranges, one after another, row by row."""
        drawn = [self._rng.randint(low, high) for _ in range(count) for low, high in ranges]
        return np.array(drawn, np.int64).reshape(count, len(ranges))

    def poisson(self, image: NDArray[np.uint8], lam: float) -> NDArray[np.int64]:
        """Draw int64 photon counts with mean ``image / 255 * lam``."""
        return self._rng.poisson(image / 255.0 * lam)

    def photons(self, rows: NDArray[np.uint8], means: NDArray[np.float64]) -> NDArray[np.int64]:
        """Draw int64 photon counts with mean ``means[row]``."""
        return self._rng.poisson(means[rows])

    def counts(self, mean: float, shape: Shape) -> NDArray[np.int64]:
        """Draw int64 Poisson numbers with one mean."""
        return self._rng.poisson(mean, shape)

    def permutation(self, count: int) -> NDArray[np.int64]:
        """Draw 0..count - 1 in random order, int64 (count,)."""
        return self._rng.permutation(count)

    def salt_and_pepper(self, amount: float, shape: Shape) -> NDArray[np.uint8]:
        """Draw uint8 codes from two random numbers per value: whether it changes, and to what."""
        affected = self._rng.random_sample(shape) < amount
        salt = self._rng.random_sample(shape) < SALT_FRACTION
        return affected.view(np.uint8) << (affected & salt).view(np.uint8)

    def child(self) -> "PublishedDraws":
        """Return a legacy generator whose seed is one 32-bit word of this one."""
        return PublishedDraws(np.random.RandomState(int(self._rng.randint(0, WORD, dtype=np.int64))))

    def at_call(self, call: int) -> "PublishedDraws":
        """Return this source, because the legacy generator cannot skip draws."""
        return self


class FastDraws:
    """Philox 4x32-10 with one stream per call. Normal and uniform numbers are float32.

    The lower half of the 128-bit seed is the key, its upper half two of the four counter words. The other two counter
    words are the number of the call and the number of the block, so two seeds or two calls never share a block.
    """

    def __init__(self, seed: int) -> None:
        self._key, self._upper = seed % 2**64, seed >> 64
        self._calls = 0

    def _stream(self) -> random.Stream:
        """Return the five words that identify the next call, and advance the call number."""
        call = self._calls
        self._calls += 1
        return self._key % WORD, self._key // WORD, call, self._upper % WORD, self._upper // WORD

    def normal(self, loc: float, scale: float, shape: Shape, part: Part = ()) -> NDArray[np.float32]:
        """Draw float32 normal numbers. Rows outside the part are not drawn."""
        rows = range(shape[0])[part[0]] if part else range(shape[0])
        row_size = math.prod(shape[1:])
        values: NDArray[np.float32] = random.normals(
            rows.start * row_size, len(rows) * row_size, np.float32(loc), np.float32(scale), self._stream()
        )
        return values.reshape(len(rows), *shape[1:])[(slice(None), *part[1:])]

    def uniform(self, low: float, high: float, shape: Shape) -> NDArray[np.float32]:
        """Draw float32 numbers in low..high, with 24 random bits."""
        count, stream = math.prod(shape), self._stream()
        return random.uniforms(count, np.float32(low), np.float32(high), stream).reshape(shape)

    def angle(self, low: float, high: float) -> float:
        """Draw one float64 number in low..high, with 53 random bits."""
        first, second = random.block_words(0, self._stream())[:2]
        return low + (high - low) * (int(first) / WORD + (int(second) >> 11) / 2**53)

    def integers(self, low: int, high: int, shape: Shape) -> NDArray[np.integer]:
        """Draw unbiased int8 or int32 numbers in low..high - 1. Small numbers share a 32-bit word."""
        small = high - low <= SMALL_SPAN and max(abs(low), abs(high)) <= INT8_MAX
        values: NDArray[np.integer] = np.empty(shape, np.int8 if small else np.int32)
        per_word = SMALL_PER_WORD if small else 1
        random.integers(values.reshape(-1), np.int32(low), np.uint32(high - low), per_word, self._stream())
        return values

    def integer(self, low: int, high: int) -> int:
        """Draw one integer in low..high - 1."""
        return int(self.integers(low, high, (1,))[0])

    def rows(self, count: int, *ranges: tuple[int, int]) -> NDArray[np.int64]:
        """Draw int64 numbers of several ranges, one stream for each range."""
        return np.stack([self.integers(low, high, (count,)) for low, high in ranges], axis=1).astype(np.int64)

    def poisson(self, image: NDArray[np.uint8], lam: float) -> NDArray[np.uint16]:
        """Draw uint16 photon counts with mean ``image / 255 * lam``."""
        return poisson.counts(image.reshape(-1), *poisson.tables(float(lam)), self._stream()).reshape(image.shape)

    def photons(self, rows: NDArray[np.uint8], means: NDArray[np.float64]) -> NDArray[np.uint16]:
        """Draw uint16 photon counts with mean ``means[row]``, rounded to float32: equal means share their tables."""
        tables = poisson.tables_of(means.astype(np.float32).tobytes())
        return poisson.counts(rows.reshape(-1), *tables, self._stream()).reshape(rows.shape)

    def counts(self, mean: float, shape: Shape) -> NDArray[np.uint16]:
        """Draw uint16 Poisson numbers with one mean."""
        levels = np.zeros(math.prod(shape), np.uint8)
        return poisson.counts(
            levels, *poisson.build_tables(np.array([mean], np.float64), False), self._stream()
        ).reshape(shape)

    def permutation(self, count: int) -> NDArray[np.int64]:
        """Draw 0..count - 1 in random order, int64 (count,), every order equally likely."""
        return random.permutation(count, self._stream())

    def salt_and_pepper(self, amount: float, shape: Shape) -> NDArray[np.uint8]:
        """Draw uint8 codes from one 32-bit word per value."""
        affected = round(amount * WORD)
        pepper = round(amount * (1 - SALT_FRACTION) * WORD)
        return random.salt_and_pepper(math.prod(shape), pepper, affected, self._stream()).reshape(shape)

    def child(self) -> "FastDraws":
        """Return this source, whose calls are independent of each other."""
        return self

    def at_call(self, call: int) -> "FastDraws":
        """Return a source whose next draw is number ``call``."""
        source = copy(self)
        source._calls = call
        return source


class UnseededDraws(FastDraws):
    """The numbers of seed 0, for a call that names no seed. The first draw for a second image warns, once per process.

    Calls that leave out the seed give all images the same noise, which an evaluation would not notice.
    """

    _first: ClassVar[int | None] = None
    _warned: ClassVar[bool] = False

    def __init__(self, image: NDArray[np.uint8]) -> None:
        super().__init__(0)
        self._image = image

    def _stream(self) -> random.Stream:
        if not UnseededDraws._warned:
            self._compare()
        return super()._stream()

    def _compare(self) -> None:
        """Warn if an earlier call drew for another image."""
        digest = zlib.crc32(self._image.tobytes())
        if UnseededDraws._first is None:
            UnseededDraws._first = digest
        elif UnseededDraws._first != digest:
            UnseededDraws._warned = True
            warnings.warn(
                "this image gets the same random numbers as an earlier one, because neither call has a seed: give "
                "every image its own seed, for example seed=index, or pass seed=0 for equal numbers",
                stacklevel=_callers_level(),
            )


def _callers_level() -> int:
    """Return the stack level, for a warning of the calling function, of the code that called these packages."""
    level = 1
    while sys._getframe(level).f_globals.get("__name__", "").partition(".")[0] in ("corruptions", "perturbations"):
        level += 1
    return level
