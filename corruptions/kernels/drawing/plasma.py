"""Coloured plasma: sines of coordinates that are displaced by sines."""

import numpy as np

from corruptions.kernels import kernel, scratch
from corruptions.kernels.colour.levels import clip
from corruptions.kernels.trigonometry import cosine, sine

SIDEWAYS = np.float32(0.3)
"""Part of a displacement that also acts on the other coordinate."""
HALF = np.float32(0.5)


@kernel
def blend_plasma(pixels, start, steps, keep, intensity):
    """Return the image blended with plasma, uint8 (H, W * 3).

    Args:
        pixels: uint8 (H, W * 3).
        start: (time, sine of the time, pixels per unit of the coordinates), float32.
        steps: float32 (n, 3), for each displacement the frequency, the phase and the amplitude.
        keep: Weight of the image, float32.
        intensity: Amplitude of the plasma in levels, float32.
    """
    height, width = pixels.shape[0], pixels.shape[1] // 3
    time, sine_of_time, grain = start
    out = np.empty_like(pixels)
    u, v, noise = scratch(width, np.float32), scratch(width, np.float32), scratch(3 * width, np.float32)
    for y in range(height):
        for x in range(width):
            u[x] = np.float32(x) / grain
            v[x] = np.float32(y) / grain
        for k in range(steps.shape[0]):
            frequency, phase, amplitude = steps[k]
            for x in range(width):
                across = cosine(v[x] * frequency + phase) * amplitude
                down = sine(u[x] * frequency + phase) * amplitude
                u[x] += across - SIDEWAYS * down
                v[x] += down + SIDEWAYS * across
        for x in range(width):
            noise[3 * x] = sine(u[x] - time)
            noise[3 * x + 1] = sine((u[x] + v[x] + sine_of_time) * HALF)
            noise[3 * x + 2] = sine(v[x] + time)
        source, target = pixels[y], out[y]
        for i in range(3 * width):
            target[i] = np.uint8(np.int32(clip(keep * np.float32(source[i]) + intensity * noise[i])))
    return out
