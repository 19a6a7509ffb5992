"""Per-channel sums and look-ups."""

from __future__ import annotations

import numpy as np

from corruptions.kernels import kernel


@kernel
def channel_sums(image):
    """(3,) int64: the sum of the levels of each channel of (H, W, 3) uint8, exact in any order."""
    pixels = image.reshape(-1, 3)
    red = green = blue = np.int64(0)
    for i in range(pixels.shape[0]):
        red += pixels[i, 0]
        green += pixels[i, 1]
        blue += pixels[i, 2]
    return np.array([red, green, blue])


@kernel
def look_up(image, levels):
    """(H, W, 3) uint8 with each value replaced by ``levels[value, channel]``, (256, 3) uint8."""
    pixels = image.reshape(-1, 3)
    out = np.empty_like(pixels)
    for i in range(pixels.shape[0]):
        for c in range(3):
            out[i, c] = levels[pixels[i, c], c]
    return out.reshape(image.shape)
