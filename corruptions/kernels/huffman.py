"""JPEG's entropy coding: the Huffman code that is optimal for an image, and its bits, as libjpeg-turbo writes them."""

import numpy as np

from corruptions.kernels import inlined, kernel
from corruptions.kernels.vectors import extend, fill, load_quarter, store, trailing_zeros

# fmt: off
ZIGZAG = np.array([
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21,
    28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54,
    47, 55, 62, 63,
])
# fmt: on
"""Place in a block of each coefficient of a file. Source: ITU-T T.81, figure 5."""

COEFFICIENTS, LANES, SIDE = 64, 16, 8
"""Coefficients of a block; blocks in a group, see :func:`nonzero`; those side by side, and the side of a block."""
SYMBOLS, TABLES = 256, 4
"""Symbols of a code; codes: luma's differences of DC coefficients, its AC coefficients, the same of chroma."""
LONGEST, LIMIT = 64, 16
"""Bits of the longest codeword, before and after it is limited."""
STANDARD_CODES = np.array(
    [
        list(bytes.fromhex(code).ljust(LIMIT + SYMBOLS, b"\0"))
        for code in (
            "00010501010101010100000000000000000102030405060708090a0b",
            "0002010303020403050504040000017d01020300041105122131410613516107227114328191a1082342b1c11552d1f0243362728209"
            "0a161718191a25262728292a3435363738393a434445464748494a535455565758595a636465666768696a737475767778797a838485"
            "868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4"
            "e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9fa",
            "00030101010101010101010000000000000102030405060708090a0b",
            "00020102040403040705040400010277000102031104052131061241510761711322328108144291a1b1c109233352f0156272d10a16"
            "2434e125f11718191a262728292a35363738393a434445464748494a535455565758595a636465666768696a737475767778797a8283"
            "8485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae2e3"
            "e4e5e6e7e8e9eaf2f3f4f5f6f7f8f9fa",
        )
    ],
    np.uint8,
)
"""Codes of files that are not optimised, see :func:`encode`. Source: ITU-T T.81, tables K.3, K.5, K.4 and K.6."""
SIZES = np.array([value.bit_length() for value in range(1 << 12)], np.uint8)
"""Number of bits of a value."""
VALUE_BITS, VALUE, SIZE = np.uint64(16), np.uint64(0xFFFF), np.uint64(15)
"""Place of a token's symbol, the bits of its value, and the bits of a symbol that are the size of the value."""
BYTE, FOUR = np.uint64(8), np.uint64(32)
"""Bits in one and in four bytes."""
ONES, LOWEST_BITS, HIGHEST_BITS = np.uint8(0xFF), np.uint64(0x01010101), np.uint64(0x80808080)
"""A byte of ones; the lowest and the highest bits of four bytes."""
SHIFTS = np.array([24, 16, 8, 0], np.uint64)
RUN, SIGN, NEGATED = 16, np.int16(15), np.int16(-1)
"""Zeros of a long run; place of the sign of an int16; factor that changes it."""


@inlined
def add_token(tokens, counts, end, table, run, value):
    """Append the symbol of a value after a run of zeros, with the bits of the value, and count it. Return the new end.

    Two symbols have the value 0: 16 zeros in a row (``run`` is 15), and the end of a block (``run`` is 0).
    """
    size = np.int64(SIZES[np.uint64(abs(value))])
    symbol = table * SYMBOLS + run * RUN + size
    tokens[np.uint64(end)] = np.uint32(symbol << 16 | (value - (value < 0)) & ((1 << size) - 1))
    counts[np.uint64(symbol)] += 1
    return end + 1


@inlined
def add_block(coefficients, block, previous, table, tokens, counts, end):
    """Append the tokens of a block. Return the new end and the first (DC) coefficient.

    Args:
        coefficients: int16 coefficients of a plane, and a mask of each block, see :func:`nonzero`.
        block: Number of the block.
        previous: First coefficient of the block before it.
        table: Code of the differences of first coefficients. The next one is that of the others (AC).
        tokens: uint32: table and symbol, and in the lower half the bits that follow.
        counts: How often each symbol of each code occurs (TABLES * SYMBOLS,).
        end: Number of tokens so far.
    """
    values, masks = coefficients
    start, mask = block // LANES * LANES * COEFFICIENTS + block % LANES, masks[block]
    first = np.int64(values[start])
    end = add_token(tokens, counts, end, table, 0, first - previous)
    last = 0
    while mask:
        k = trailing_zeros(mask)
        mask &= mask - 1
        zeros, value = k - last - 1, np.int64(values[np.uint64(start + k * LANES)])
        while zeros >= RUN:
            end = add_token(tokens, counts, end, table + 1, RUN - 1, 0)
            zeros -= RUN
        end = add_token(tokens, counts, end, table + 1, zeros, value)
        last = k
    if last < COEFFICIENTS - 1:
        end = add_token(tokens, counts, end, table + 1, 0, 0)
    return end, first


@kernel
def nonzero(coefficients):
    """Return the coefficients of a plane and a mask of each block, int64: bits of those after the first that are not 0.

    Coefficients lie in groups of sixteen blocks, eight side by side and the eight below: the first coefficient of each,
    then the second of each, and so on.
    """
    masks = np.empty(coefficients.size // COEFFICIENTS, np.int64)
    for block in range(0, masks.size, SIDE):
        mask, start = fill(np.int64(0)), block // LANES * LANES * COEFFICIENTS + block % LANES
        for k in range(1, COEFFICIENTS):
            value = load_quarter(coefficients, start + k * LANES)
            mask = mask | (extend((value | value * NEGATED) >> SIGN) & np.int64(1) << k)
        store(masks, block, mask)
    return coefficients, masks


@inlined
def number_of(row, column, pitch):
    """Return the number of a block in the order of groups, see :func:`nonzero`, of which a row has ``pitch / SIDE``."""
    return (row // 2 * pitch + column // SIDE * SIDE) * 2 + row % 2 * SIDE + column % SIDE


@kernel
def add_image(luma, cb, cr, sides, repeats, tokens, counts):
    """Write the tokens of an image, whose blocks alternate between channels. Return their number.

    Outside of the image, blocks of luma have the first coefficient of the one before and zeros.
    """
    end, last, last_cb, last_cr = 0, 0, 0, 0
    (rows, columns), (halves, pairs) = sides
    pitch, half_pitch = -(-columns // SIDE) * SIDE, -(-pairs // SIDE) * SIDE
    for y in range(halves):
        for x in range(pairs):
            for row in range(y * repeats, (y + 1) * repeats):
                for column in range(x * repeats, (x + 1) * repeats):
                    if row < rows and column < columns:
                        block = number_of(row, column, pitch)
                        end, last = add_block(luma, block, last, 0, tokens, counts, end)
                    else:
                        end = add_token(tokens, counts, end, 0, 0, 0)
                        end = add_token(tokens, counts, end, 1, 0, 0)
            block = number_of(y, x, half_pitch)
            end, last_cb = add_block(cb, block, last_cb, 2, tokens, counts, end)
            end, last_cr = add_block(cr, block, last_cr, 2, tokens, counts, end)
    return end


@kernel
def find_lengths(counts, lengths):
    """Write the length of each symbol's codeword in an optimal code. ``lengths``: zeros (SYMBOLS + 1,).

    The two rarest groups of symbols are joined until one is left. Of equally rare ones, the last is taken. One symbol
    that never occurs is counted once, so that no codeword consists of ones only.
    """
    weights, groups, used = np.append(counts, 1), np.empty(SYMBOLS + 1, np.int64), 0
    following = np.full(SYMBOLS + 1, -1)
    for symbol in range(SYMBOLS + 1):
        if weights[symbol]:
            groups[used] = symbol
            used += 1
    while used > 1:
        rarest, second = -1, -1
        for i in range(used):
            if rarest < 0 or weights[groups[i]] <= weights[groups[rarest]]:
                rarest, second = i, rarest
            elif second < 0 or weights[groups[i]] <= weights[groups[second]]:
                second = i
        kept, joined, last = groups[rarest], groups[second], 0
        weights[kept] += weights[joined]
        for first in (joined, kept):
            symbol = first
            while symbol >= 0:
                lengths[symbol] += 1
                last, symbol = symbol, following[symbol]
        following[last] = joined
        used -= 1
        for i in range(second, used):
            groups[i] = groups[i + 1]


@kernel
def limit(numbers):
    """Shorten codewords to at most 16 bits, and remove the longest one. ``numbers``: how many have each length."""
    for length in range(LONGEST, LIMIT, -1):
        while numbers[length]:
            shorter = length - 2
            while numbers[shorter] == 0:
                shorter -= 1
            numbers[length] -= 2
            numbers[length - 1] += 1
            numbers[shorter + 1] += 2
            numbers[shorter] -= 1
    longest = LIMIT
    while numbers[longest] == 0:
        longest -= 1
    numbers[longest] -= 1


@kernel
def find_code(counts, code):
    """Write a code that is optimal for the counts of symbols, see :func:`encode`."""
    lengths, numbers, end = np.zeros(SYMBOLS + 1, np.int64), np.zeros(LONGEST + 1, np.int64), LIMIT
    find_lengths(counts, lengths)
    for length in range(1, lengths.max() + 1):
        for symbol in range(SYMBOLS + 1):
            if lengths[symbol] == length:
                numbers[length] += 1
                if symbol < SYMBOLS:
                    code[end] = symbol
                    end += 1
    limit(numbers)
    for length in range(LIMIT):
        code[length] = numbers[length + 1]


@kernel
def number_codewords(code, codewords, sizes):
    """Write the codeword of each symbol of a code, and its number of bits."""
    codeword, end = 0, LIMIT
    for length in range(1, LIMIT + 1):
        for _ in range(code[length - 1]):
            codewords[code[end]], sizes[code[end]] = codeword, length
            codeword += 1
            end += 1
        codeword *= 2


@inlined
def add_byte(out, end, word, shift):
    """Append a byte of a word. Return the new end."""
    out[end] = np.uint8(word >> shift)
    if out[end] == ONES:
        end += 1
        out[end] = 0
    return end + 1


@kernel
def write_tokens(tokens, codewords, lengths, out):
    """Write the bits of tokens, and ones up to a whole byte. A byte of ones is followed by zeros. Return the length."""
    word, bits, end = np.uint64(0), np.uint64(0), 0
    for token in tokens:
        symbol = np.uint64(token) >> VALUE_BITS
        size = symbol & SIZE
        length = lengths[symbol] + size
        word = word << length | (codewords[symbol] << size | np.uint64(token) & VALUE)
        bits += length
        if bits >= FOUR:
            bits -= FOUR
            four = word >> bits
            if (~four - LOWEST_BITS) & four & HIGHEST_BITS:
                for shift in SHIFTS:
                    end = add_byte(out, end, four, shift)
            else:
                for shift in SHIFTS:
                    out[end] = np.uint8(four >> shift)
                    end += 1
    rest = -bits % BYTE
    word, bits = word << rest | (np.uint64(1) << rest) - np.uint64(1), bits + rest
    while bits:
        bits -= BYTE
        end = add_byte(out, end, word, bits)
    return end


@kernel
def encode(luma, cb, cr, sides, repeats, codes, optimize):
    """Return the bits of an image, uint8.

    Args:
        luma: Coefficients, see :func:`nonzero`, in the order of groups in a row and of rows.
        cb: The same of blue chroma.
        cr: The same of red chroma.
        sides: Rows of blocks and blocks in a row, of luma and of chroma.
        repeats: Blocks of luma on a side for a block of chroma, 1 or 2.
        codes: uint8 (TABLES, LIMIT + SYMBOLS): how many codewords have 1..16 bits, and the symbols in their order.
        optimize: Whether to write the codes that are optimal for the image, instead of using the given ones.
    """
    rows, columns = sides[1]
    tokens = np.empty(rows * columns * (repeats * repeats + 2) * COEFFICIENTS, np.uint32)
    counts = np.zeros(TABLES * SYMBOLS, np.int64)
    tokens = tokens[: add_image(nonzero(luma), nonzero(cb), nonzero(cr), sides, repeats, tokens, counts)]
    codewords, lengths = np.zeros(TABLES * SYMBOLS, np.uint64), np.zeros(TABLES * SYMBOLS, np.uint64)
    for table in range(TABLES):
        own = slice(table * SYMBOLS, (table + 1) * SYMBOLS)
        if optimize:
            find_code(counts[own], codes[table])
        number_codewords(codes[table], codewords[own], lengths[own])
    out = np.empty(8 * tokens.size + 8, np.uint8)
    return out[: write_tokens(tokens, codewords, lengths, out)].copy()
