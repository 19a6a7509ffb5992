"""SHA-256 (FIPS 180-4) of many short texts at once, for the trees of :mod:`pipeline.datasets.roots`.

A call of hashlib takes longer than the digest of a short text. Here, LANES texts are hashed together, one in each lane
of a vector. All operations are on integers of 32 bits.
"""

from math import isqrt

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels import copy, inlined, kernel

LANES = 64
"""Texts that are hashed together."""

BLOCK, LENGTH = 64, 8
"""Bytes of a block, and of the length of the text at the end of the last one."""


def _primes(count: int) -> list[int]:
    found: list[int] = []
    number = 2
    while len(found) < count:
        if all(number % prime for prime in found):
            found.append(number)
        number += 1
    return found


def _cube_root(number: int) -> int:
    """Return the integer part of a cube root."""
    low, high = 0, 1 << (number.bit_length() // 3 + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle * middle * middle <= number else (low, middle)
    return low


ROUNDS: NDArray[np.uint32] = np.array([_cube_root(prime << 96) & 0xFFFFFFFF for prime in _primes(64)], np.uint32)
"""The first 32 bits of the fractional parts of the cube roots of the first 64 primes."""

START: NDArray[np.uint32] = np.array([isqrt(prime << 64) & 0xFFFFFFFF for prime in _primes(8)], np.uint32)
"""The first 32 bits of the fractional parts of the square roots of the first 8 primes."""


@inlined
def _rotate(word, count):
    return (word >> np.uint32(count)) | (word << np.uint32(32 - count))


@inlined
def _compress(words, work, state, blocks, block):
    """Add a block of each text to the states. Rows are slices, because other loops over lanes are not vectorised."""
    for i in range(16, 64):
        early, late, word = words[i - 15], words[i - 2], words[i]
        before, between = words[i - 16], words[i - 7]
        for lane in range(LANES):
            small = _rotate(early[lane], 7) ^ _rotate(early[lane], 18) ^ (early[lane] >> np.uint32(3))
            large = _rotate(late[lane], 17) ^ _rotate(late[lane], 19) ^ (late[lane] >> np.uint32(10))
            word[lane] = before[lane] + small + between[lane] + large
    work[:] = state
    for i in range(64):
        constant, word = ROUNDS[i], words[i]
        a, b, c, d = work[-i & 7], work[1 - i & 7], work[2 - i & 7], work[3 - i & 7]
        e, f, g, h = work[4 - i & 7], work[5 - i & 7], work[6 - i & 7], work[7 - i & 7]
        for lane in range(LANES):
            first, fifth = a[lane], e[lane]
            large = _rotate(fifth, 6) ^ _rotate(fifth, 11) ^ _rotate(fifth, 25)
            one = h[lane] + large + ((fifth & f[lane]) ^ (~fifth & g[lane])) + constant + word[lane]
            small = _rotate(first, 2) ^ _rotate(first, 13) ^ _rotate(first, 22)
            d[lane] += one
            h[lane] = one + small + ((first & b[lane]) ^ (first & c[lane]) ^ (b[lane] & c[lane]))
    for i in range(8):
        for lane in range(LANES):
            if block < blocks[lane]:
                state[i, lane] += work[i, lane]


@kernel
def sha256_each(content, offsets, prefix, digests):
    """Write the SHA-256 of ``prefix`` and each text to ``digests``.

    Args:
        content: The texts, joined, uint8.
        offsets: Start of each text in ``content``, and the end of the last, (N + 1,) integers.
        prefix: Byte before each text.
        digests: Filled in, (N, 32) uint8.
    """
    words = np.empty((64, LANES), np.uint32)
    state = np.empty((8, LANES), np.uint32)
    work = np.empty((8, LANES), np.uint32)
    blocks = np.ones(LANES, np.int64)
    padded = np.zeros((LANES, BLOCK), np.uint8)
    texts = offsets.size - 1
    for first in range(0, texts, LANES):
        count = min(LANES, texts - first)
        for lane in range(count):
            blocks[lane] = (1 + offsets[first + lane + 1] - offsets[first + lane] + LENGTH) // BLOCK + 1
        most = blocks.max()
        if padded.shape[1] < most * BLOCK:
            padded = np.zeros((LANES, most * BLOCK), np.uint8)
        for lane in range(count):
            text = content[offsets[first + lane] : offsets[first + lane + 1]]
            row, size = padded[lane], text.size
            row[0] = prefix
            copy(text, row[1:])
            row[1 + size :] = 0
            row[1 + size] = 0x80
            for place in range(LENGTH):
                row[blocks[lane] * BLOCK - 1 - place] = (8 * (1 + size) >> 8 * place) & 255
        lines = padded.view(np.uint32)
        for i in range(8):
            state[i] = START[i]
        for block in range(most):
            for lane in range(LANES):
                line = lines[lane, 16 * block : 16 * block + 16]
                for i in range(16):
                    little = line[i]
                    words[i, lane] = (
                        (little << np.uint32(24))
                        | ((little & np.uint32(0xFF00)) << np.uint32(8))
                        | ((little >> np.uint32(8)) & np.uint32(0xFF00))
                        | (little >> np.uint32(24))
                    )
            _compress(words, work, state, blocks, block)
        for lane in range(count):
            for i in range(8):
                for place in range(4):
                    digests[first + lane, 4 * i + place] = (state[i, lane] >> np.uint32(24 - 8 * place)) & 255
