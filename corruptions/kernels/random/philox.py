"""Counter-based random numbers: Philox 4x32-10 (Salmon et al. 2011) and the distributions that the corruptions need.

``stream`` identifies one call of one generator by five 32-bit words, (key, key, call, upper, upper). The remaining
counter word is the number of a block within the call. A value depends only on the stream and its position: all
operations are + - * / sqrt and integer operations, so that every CPU and every mathematics library gives the same bits.

Values are computed in chunks, so that the inner loops vectorise. Chunks are written through slices, because a loop
does not vectorise if its index might be negative.
"""

import numpy as np

from corruptions.kernels import copy, inlined, kernel

Stream = tuple[int, int, int, int, int]
"""Five 32-bit words that identify a call."""

CHUNK = 1024
"""Words computed together."""
BLOCKS = CHUNK // 4
"""Blocks of four words in a chunk."""
HALF = CHUNK // 2
"""Half a chunk: the number of Box-Muller pairs."""
LAST_BLOCK = 2**32 - 1
"""Largest block number. Redrawn words are taken from here downwards."""

LOW = np.uint64(0xFFFFFFFF)
"""Lower half of a 64-bit word."""
HIGH = np.uint64(32)
"""Shift to the upper half of a 64-bit word."""
MULTIPLIER_0, MULTIPLIER_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
"""Philox multipliers."""
WEYL_0, WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
"""Philox key increments."""

ONE, MINUS_TWO = np.float32(1), np.float32(-2)
FROM_WORD, HALF_WORD = np.float32(2.0**-32), np.float32(2.0**-33)
"""Scale of a 32-bit word to 0..1, and half a unit."""
FROM_24_BITS = np.float32(2.0**-24)
"""Scale of 24 bits to 0..1."""
FROM_ANGLE = np.float32(2.0**-31)
"""Scale of a 32-bit word to half turns."""
EIGHTH_TURN, QUARTER = np.uint32(1 << 29), np.uint32(30)

SQRT_HALF_BITS, MANTISSA = np.int32(0x3F3504F3), np.int32(23)
LN_2 = np.float32(0.6931471805599453)
# Chebyshev fit: log(1 + f) = f + f^2 * L(f) for sqrt(1/2) <= 1 + f < sqrt(2), error 4e-8.
L0, L1, L2, L3 = (np.float32(c) for c in (-0.49999997133, 0.33333670611, -0.25001147678, 0.19972049710))
L4, L5, L6, L7 = (np.float32(c) for c in (-0.16588488530, 0.14834786836, -0.14159647019, 0.08787265511))
# Chebyshev fits: sin(pi x) = x * S(x^2) and cos(pi x) = 1 + x^2 * C(x^2) for |x| <= 1/4, error 1e-8.
S0, S1, S2, S3 = (np.float32(c) for c in (3.14159264391, -5.16770782132, 2.54976696473, -0.58907509924))
C0, C1, C2, C3 = (np.float32(c) for c in (-4.93480219750, 4.05871056571, -1.33513781384, 0.23212541349))


@inlined
def philox(block, stream):
    """Return the four 32-bit words of one block as uint64, of which only the lower half is valid."""
    c0, c1, c2, c3 = np.uint64(block), np.uint64(stream[2]), np.uint64(stream[3]), np.uint64(stream[4])
    k0, k1 = np.uint64(stream[0]), np.uint64(stream[1])
    for _ in range(10):
        even = (c0 & LOW) * MULTIPLIER_0
        odd = (c2 & LOW) * MULTIPLIER_1
        c0, c1, c2, c3 = (odd >> HIGH) ^ c1 ^ k0, odd, (even >> HIGH) ^ c3 ^ k1, even
        k0 = (k0 + WEYL_0) & LOW
        k1 = (k1 + WEYL_1) & LOW
    return c0, c1, c2, c3


@kernel
def block_words(block, stream):
    """Return one block, uint32 (4,)."""
    out = np.empty(4, np.uint32)
    for i, word in enumerate(philox(block, stream)):
        out[i] = np.uint32(word)
    return out


@inlined
def fill_words(words, first, stream):
    """Write the BLOCKS blocks from number ``first`` to uint32 (CHUNK,). The words of a block are BLOCKS apart."""
    fill_blocks(words, 0, BLOCKS, first, stream)


@inlined
def fill_blocks(words, begin, count, first, stream):
    """Write ``count`` of the blocks of :func:`fill_words`, from its block ``begin`` on."""
    for i in range(np.uint64(begin), np.uint64(begin + count)):
        a, b, c, d = philox(np.uint64(first) + i, stream)
        words[i] = np.uint32(a)
        words[i + BLOCKS] = np.uint32(b)
        words[i + 2 * BLOCKS] = np.uint32(c)
        words[i + 3 * BLOCKS] = np.uint32(d)


@inlined
def log(u):
    """Return the natural logarithm of a float32 in 0 < u <= 1, with an absolute error below 1e-6."""
    bits = np.float32(u).view(np.int32)
    exponent = np.int32(np.int32(bits - SQRT_HALF_BITS) >> MANTISSA)
    f = np.int32(bits - np.int32(exponent << MANTISSA)).view(np.float32) - ONE
    series = ((((((L7 * f + L6) * f + L5) * f + L4) * f + L3) * f + L2) * f + L1) * f + L0
    return np.float32(exponent) * LN_2 + (f + f * f * series)


@inlined
def cosine_sine(word):
    """Return cosine and sine (float32) of ``word`` / 2^32 of a full turn."""
    quadrant = np.uint32(np.uint32(word + EIGHTH_TURN) >> QUARTER)
    x = np.float32(np.int32(np.uint32(word - np.uint32(quadrant << QUARTER)))) * FROM_ANGLE
    square = x * x
    sine = x * (((S3 * square + S2) * square + S1) * square + S0)
    cosine = ONE + square * (((C3 * square + C2) * square + C1) * square + C0)
    swap = (quadrant & np.uint32(1)) != 0
    a, b = (-sine, cosine) if swap else (cosine, sine)
    return (-a, -b) if quadrant >= np.uint32(2) else (a, b)


@kernel
def normals(first, count, loc, scale, stream):
    """Return ``count`` float32 normal numbers of a call, from number ``first`` on, by the Box-Muller transform.

    The radius has 32 random bits, so the tails reach 6.7 sigma.
    """
    out = np.empty(count, np.float32)
    words = np.empty(CHUNK, np.uint32)
    spare = np.empty(CHUNK, np.float32)
    for start in range(first // CHUNK * CHUNK, first + count, CHUNK):
        fill_words(words, start // 4, stream)
        is_complete = start >= first and start + CHUNK <= first + count
        values = out[start - first : start - first + CHUNK] if is_complete else spare
        for i in range(HALF):
            radius = np.sqrt(MINUS_TWO * log(np.float32(words[i]) * FROM_WORD + HALF_WORD))
            cosine, sine = cosine_sine(words[i + HALF])
            values[i] = radius * cosine * scale + loc
            values[i + HALF] = radius * sine * scale + loc
        if not is_complete:
            begin, end = max(start, first), min(start + CHUNK, first + count)
            copy(spare[begin - start : end - start], out[begin - first : end - first])
    return out


@kernel
def uniforms(count, low, high, stream):
    """Return ``count`` float32 numbers in low..high, with 24 random bits."""
    out = np.empty(count, np.float32)
    words = np.empty(CHUNK, np.uint32)
    span = (high - low) * FROM_24_BITS
    for start in range(0, count, CHUNK):
        fill_words(words, start // 4, stream)
        values = out[start : start + CHUNK]
        for i in range(values.size):
            values[i] = np.float32(words[i] >> np.uint32(8)) * span + low
    return out


@inlined
def take(word, low, span, numbers, i):
    """Write a number of a word of :func:`integers`, and return the word for the next one."""
    product = np.uint64(word) * span
    numbers[i] = low + np.int32(product >> HIGH)
    return np.uint32(product)


@kernel
def integers(out, low, span, per_word, stream):
    """Write unbiased integers in low..low + span - 1 to ``out``, ``per_word`` of them from each word.

    Method of Lemire 2019: the upper half of word * span is a number, and the lower half is the word for the next one. A
    word is redrawn if it would bias the result, that is if its last lower half is below 2^32 modulo span^per_word.
    """
    words = np.empty(CHUNK, np.uint32)
    span = np.uint64(span)
    power = np.uint64(1)
    for _ in range(per_word):
        power *= span
    excess = np.uint32(np.uint64(2**32) % power)
    spare = LAST_BLOCK
    for start in range(0, out.size, per_word * CHUNK):
        fill_words(words, start // per_word // 4, stream)
        values = out[start : start + per_word * CHUNK]
        spare = redraw(words, min(values.size, CHUNK), np.uint32(power), excess, spare, stream)
        if values.size == 4 * CHUNK:
            first, second, third, fourth = values[:CHUNK], values[CHUNK:], values[2 * CHUNK :], values[3 * CHUNK :]
            for i in range(CHUNK):
                word = take(words[i], low, span, first, i)
                take(take(take(word, low, span, second, i), low, span, third, i), low, span, fourth, i)
            continue
        for first in range(0, values.size, CHUNK):
            numbers = values[first : first + CHUNK]
            for i in range(numbers.size):
                words[i] = take(words[i], low, span, numbers, i)


@inlined
def redraw(words, count, power, excess, spare, stream):
    """Replace words that would bias the result by words of block ``spare`` and below. Return the next spare block."""
    biased = np.uint32(0)
    for i in range(count):
        biased = np.uint32(biased + np.uint32(np.uint32(words[i] * power) < excess))
    if biased:
        for i in range(count):
            while np.uint32(words[i] * power) < excess:
                words[i] = np.uint32(philox(spare, stream)[0])
                spare -= 1
    return spare


@kernel
def permutation(count, stream):
    """Return 0..count - 1 in random order, int64 (count,), by the shuffle of Fisher and Yates.

    Each exchange takes the words of blocks of its own, by the method of :func:`integers`.
    """
    order = np.arange(count)
    block = 0
    for last in range(count - 1, 0, -1):
        span = np.uint64(last + 1)
        biased_below = np.uint64(2**32) % span
        product = (philox(block, stream)[0] & LOW) * span
        block += 1
        while product & LOW < biased_below:
            product = (philox(block, stream)[0] & LOW) * span
            block += 1
        other = product >> HIGH
        order[last], order[other] = order[other], order[last]
    return order


@kernel
def salt_and_pepper(count, pepper_below, salt_below, stream):
    """Return ``count`` uint8 codes.

    A code is 1 (pepper) if its word is below ``pepper_below``, else 2 (salt) if it is below ``salt_below``, else 0.
    """
    out = np.empty(count, np.uint8)
    words = np.empty(CHUNK, np.uint32)
    for start in range(0, count, CHUNK):
        fill_words(words, start // 4, stream)
        codes = out[start : start + CHUNK]
        for i in range(codes.size):
            codes[i] = np.uint8(2) * np.uint8(words[i] < salt_below) - np.uint8(words[i] < pepper_below)
    return out
