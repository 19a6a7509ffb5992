"""Noise with a given amplitude at each frequency and random phases, and what images are made of it."""

import numpy as np

from corruptions.kernels import inlined, kernel, scratch
from corruptions.kernels.colour.levels import clip
from corruptions.kernels.drawing.blend import repeat_channels
from corruptions.kernels.planes import interleave
from corruptions.kernels.random.philox import cosine_sine

TO_WORD = np.float64(1.5 * 2.0**20)
"""Added to a fraction of a turn, it shifts the first 32 bits after the point to the lowest bits."""
LOW = np.uint64(0xFFFFFFFF)
"""Lower half of a 64-bit word."""


@inlined
def word(turn):
    """Return a fraction of a turn, 0..1, as a 32-bit word."""
    return np.uint32(np.float64(np.float64(turn) + TO_WORD).view(np.uint64) & LOW)


@inlined
def add_reversed(first, first_weights, second, second_weights, sign, target):
    """Write the weighted sum of two rows, the second times ``sign``, to ``target`` from its end to its start."""
    last = target.size - 1
    for i in range(target.size):
        target[last - i] = first[i] * first_weights[i] + sign * (second[i] * second_weights[i])


@kernel
def normalise(spectrum, width):
    """Divide the spectrum of a field of ``width`` columns by the standard deviation of the field."""
    height, columns = spectrum.shape[1:]
    powers = np.zeros(columns, np.float32)
    for p in range(height):
        real, imaginary = spectrum[0, p], spectrum[1, p]
        for q in range(columns):
            powers[q] += real[q] * real[q] + imaginary[q] * imaginary[q]
    powers[0] -= spectrum[0, 0, 0] * spectrum[0, 0, 0]  # the mean
    total = 0.0
    for q in range(columns):
        total += powers[q] * (1.0 if q == 0 or 2 * q == width else 2.0)
    scale = np.float32(height * width / np.sqrt(total))
    flat = spectrum.reshape(-1)
    for i in range(flat.size):
        flat[i] *= scale


@kernel
def noise_spectrum(turns, weights, opposite):
    """Return the spectrum of noise of standard deviation 1, float32 (2, H, W // 2 + 1), as :mod:`fourier` orders it.

    The published spectrum is not that of a real field, and the real part of its field is used. But for a factor, that
    is the field of the sum of each number and the conjugate of the number at the opposite frequency. Row r and column c
    of the phases belong to the frequencies p = r - ceil(H / 2) and q = c - ceil(W / 2). The phase of the number at
    (-p, -q) is found in the left half too, because the right half is the left one turned by 180 degrees: it is one row
    or column before if that side is even, and two if it is odd. The spectrum of a real field is stored at (-p, -q),
    conjugated, because q is not negative there.

    Args:
        turns: Phases of columns 0 to ceil(W / 2), as fractions of a turn, (H, ceil(W / 2) + 1).
        weights: Amplitude at the frequencies of the last columns of ``turns``, float32 (H, W // 2 + 1).
        opposite: Amplitude at the opposite frequencies, float32 (H, W // 2 + 1).
    """
    height, last = turns.shape[0], weights.shape[1] - 1
    first = turns.shape[1] - weights.shape[1]
    middle = (height + 1) // 2
    cosines, sines = np.empty(turns.shape, np.float32), np.empty(turns.shape, np.float32)
    flat, flat_cosines, flat_sines = turns.reshape(-1), cosines.reshape(-1), sines.reshape(-1)
    for i in range(flat.size):
        flat_cosines[i], flat_sines[i] = cosine_sine(word(flat[i]))
    out = np.empty((2, height, last + 1), np.float32)
    for r in range(height):
        target, other = (middle - r) % height, (r - 1 - height % 2) % height
        near_weights, far_weights = weights[r, 1:], opposite[r, 1:]
        near, far, real = cosines[r, first + 1 :], cosines[other, :last], out[0, target, :last]
        add_reversed(near, near_weights, far, far_weights, np.float32(1), real)
        near, far, imaginary = sines[r, first + 1 :], sines[other, :last], out[1, target, :last]
        add_reversed(far, far_weights, near, near_weights, np.float32(-1), imaginary)
        # The number opposite to that of the first column is in column 0.
        other, near_weight, far_weight = (2 * middle - r) % height, weights[r, 0], opposite[r, 0]
        out[0, target, last] = cosines[r, first] * near_weight + cosines[other, 0] * far_weight
        out[1, target, last] = sines[other, 0] * far_weight - sines[r, first] * near_weight
    normalise(out, 2 * last + first)
    return out


@kernel
def keep_above(pixels, field, threshold):
    """Return the pixels where a field is above a threshold, else black, uint8 (H, W * 3)."""
    out = np.empty_like(pixels)
    kept, mask = scratch(field.shape[1], np.uint8), scratch(pixels.shape[1], np.uint8)
    for y in range(pixels.shape[0]):
        row, source, target = field[y], pixels[y], out[y]
        for x in range(row.size):
            kept[x] = np.uint8(255) if row[x] > threshold else np.uint8(0)
        repeat_channels(kept, mask)
        for i in range(mask.size):
            target[i] = source[i] & mask[i]
    return out


@kernel
def add_fields(pixels, reds, greens, blues, intensity):
    """Return the image plus one field per channel times ``intensity``, clipped and truncated, uint8 (H, W * 3)."""
    out = np.empty_like(pixels)
    noise = scratch(pixels.shape[1], np.float32)
    for y in range(pixels.shape[0]):
        interleave(reds[y], greens[y], blues[y], noise)
        source, target = pixels[y], out[y]
        for i in range(noise.size):
            target[i] = np.uint8(np.int32(clip(np.float32(source[i]) + intensity * noise[i])))
    return out
