"""The coefficients that a low-pass filter keeps, and levels from filtered values."""

import numpy as np

from corruptions.kernels import kernel

HALF = 0.5 + 1 / (1 << 20)
"""Added before values are truncated. Halves are rounded up in spite of errors of the transforms, which are much smaller
than 2^-20; values of images are never that close to a half, but for halves."""

HIGHEST = 255.0


@kernel
def keep(spectrum, limits):
    """Return a spectrum (2, H, W // 2 + 1) without the coefficients q > limits[y] of row y."""
    out = np.zeros_like(spectrum)
    for part in range(spectrum.shape[0]):
        for y in range(limits.size):
            for q in range(limits[y] + 1):
                out[part, y, q] = spectrum[part, y, q]
    return out


@kernel
def round_channel(field, image, channel):
    """Write values (H, W), rounded half up and clipped to 0..255, to a channel of an image."""
    height, width = field.shape
    for y in range(height):
        for x in range(width):
            image[y, x, channel] = np.int32(min(max(field[y, x] + HALF, 0.0), HIGHEST))
