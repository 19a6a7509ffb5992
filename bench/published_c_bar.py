"""The published arithmetic of ImageNet-C-bar and CIFAR-10-C-bar in NumPy and SciPy, to measure ours against.

The formulas are those of the published generator, on whole arrays in place of loops over pixels. Images are uint8 RGB
(N, N, 3). Draws come from NumPy's legacy generator, in the published order.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from scipy import ndimage
from skimage.draw import line_aa

from corruptions.c_bar.catalogue import scaled

Image = NDArray[np.uint8]
Plane = NDArray[Any]
Arithmetic = Callable[[Image, float, RandomState], Image]
"""A function of an image, a level and a source of draws that returns the corrupted image."""

GREY = 128
RELATIVE_SPREAD = 0.25
"""Standard deviation of the lengths of rays, as a fraction of their mean."""
LATTICE = 256
"""Number of gradients of Perlin noise."""
ANGLES = np.linspace(-1, 1, 21)
"""Angles of circular motion, as fractions of the largest."""


# Parts


def _child(rng: RandomState) -> RandomState:
    return RandomState(int(rng.randint(0, 2**32, dtype=np.int64)))


def _grid(image: Image) -> tuple[Plane, Plane]:
    """Return the row (N, 1) and the column (1, N) of each pixel."""
    side = np.arange(len(image), dtype=np.float64)
    return side[:, None], side[None]


def _truncated(values: Plane) -> Image:
    """Return values clipped to 0..255 and truncated. NaN becomes 0."""
    return np.nan_to_num(np.clip(values, 0, 255)).astype(np.uint8)


def _bilinear(image: Plane, rows: Plane, columns: Plane) -> Plane:
    """Return samples (H, W, 3) at positions (H, W). Values outside of the image count as 0."""
    black = np.pad(image, ((1, 1), (1, 1), (0, 0)))
    size, top, left = len(image), np.floor(rows), np.floor(columns)

    def along_columns(row: Plane) -> Plane:
        taps = [
            black[(np.clip(row, -1, size) + 1).astype(int), (np.clip(column, -1, size) + 1).astype(int)]
            for column in (left, left + 1)
        ]
        return taps[0] * (1 - columns + left)[..., None] + taps[1] * (1 - (left + 1) + columns)[..., None]

    above, below = along_columns(top), along_columns(top + 1)
    return above * (1 - rows + top)[..., None] + below * (1 - (top + 1) + rows)[..., None]


def _rays(image: Image, centre: Plane, lengths: Plane, exponent: float) -> Plane:
    """Return the weights (N, N, 1) of a sparkle with rays of given lengths."""
    rows, columns = _grid(image)
    down, right = rows - centre[0], columns - centre[1]
    position = (np.arctan2(right, down) + np.pi) / (2 * np.pi) * len(lengths)
    first = np.floor(position)
    between, index = position - first, first.astype(int)
    near, far = lengths[index % len(lengths)], lengths[(index + 1) % len(lengths)]
    reach = near + between * (far - near)
    falloff = (reach**2 / (down**2 + right**2 + 0.0001)) ** exponent
    return np.clip((1 - (between - 0.5) ** 2) * falloff, 0, 1)[..., None]


def _field(side: int, rng: RandomState, power: Callable[[Plane], Plane]) -> Plane:
    """Return noise (N, N) of standard deviation 1 whose amplitude spectrum is ``power`` of the frequency."""
    distance = np.hypot(*np.ogrid[-side / 2 : side / 2, -side / 2 : side / 2])
    left = rng.uniform(0, 2 * np.pi, (side, side // 2))
    phases = np.concatenate([left, left[::-1, ::-1]], axis=1)
    spectrum = np.roll(power(distance) * np.exp(1j * phases), side // 2, axis=(0, 1))
    field = np.fft.ifft2(spectrum).real
    return field / field.std()


# Noise and light


def _caustic_map(image: Image, rng: RandomState) -> Plane:
    """Return the brightness (N, N) of light on the floor of moving water, 0..1, smoothed."""
    time = rng.uniform(0.5, 2)
    period = rng.uniform(0.75, 1.25) * len(image)
    p, q = ((each / period % 1) * 6.28318530718 - 250 for each in _grid(image))
    a, b, brightness = p, q, np.ones((len(image), len(image)))
    for turn in range(5):
        now = time * (1 - 3.5 / (turn + 1))
        a, b = p + np.cos(now - a) + np.sin(now + b), q + np.sin(now - b) + np.cos(now + a)
        with np.errstate(divide="ignore"):
            brightness = brightness + 1 / np.hypot(p / (np.sin(a + now) / 0.005), q / (np.cos(b + now) / 0.005))
    return ndimage.gaussian_filter(np.clip(np.abs(1.17 - (brightness / 5) ** 1.4) ** 8, 0, 1), 1)


def _caustic_refraction(image: Image, level: float, rng: RandomState) -> Image:
    lens, light = scaled(level, 0.5 * len(image)), scaled(level, 2)
    padded = np.pad(_caustic_map(image, rng), 1)
    down, right = padded[2:, 1:-1] - padded[:-2, 1:-1], padded[1:-1, 2:] - padded[1:-1, :-2]
    steepness = np.hypot(down, right)
    upright = 1 / np.sqrt(steepness**2 + 1)
    tilt = np.arccos(upright)
    with np.errstate(invalid="ignore"):
        shift = lens * np.sin(tilt - np.arcsin(np.sin(tilt) / 4)) / steepness
    shift[upright >= 1 - 0.001] = 0
    rows, columns = _grid(image)
    scene = (image / 255).astype(np.float32)
    seen = _bilinear(scene, rows + np.round(shift * down, 3), columns + np.round(shift * right, 3))
    return (np.clip(seen + ((down - right) * light)[..., None], 0, 1) * 255).astype(np.uint8)


def _inverse_sparkles(image: Image, level: float, rng: RandomState) -> Image:
    centre = rng.uniform(0.25, 0.75, 2) * len(image)
    child = _child(rng)
    radius = len(image) / 4
    lengths = radius + RELATIVE_SPREAD * radius * child.randn(rng.randint(50, 200))
    return _truncated(255 + _rays(image, centre, lengths, scaled(level, 65) / 50) * (image - 255.0))


def _sparkles(image: Image, level: float, rng: RandomState) -> Image:
    centres = rng.uniform(0, len(image), (5, 2))
    child = _child(rng)
    radius, values = scaled(level, 0.1) * len(image), image.astype(np.float64)
    for centre, count in zip(centres, rng.randint(50, 200, 5), strict=True):
        lengths = np.maximum(1, radius + RELATIVE_SPREAD * radius * child.randn(count))
        values = values.astype(np.float32).astype(np.float64)
        values += _rays(image, centre, lengths, 1) * (255 - values)
    return _truncated(values)


def _perlin_tables(rng: RandomState) -> tuple[Plane, Plane]:
    """Return the unit gradients (256, 2) and the permutation (256,) of Perlin noise."""
    pairs = (rng.randint(0, 2**31, (2 * LATTICE + 2, 2)) % (2 * LATTICE) - LATTICE) / LATTICE
    with np.errstate(invalid="ignore"):  # a pair of zeros has no direction, which makes black squares
        gradients = pairs / np.sqrt((pairs**2).sum(axis=1, keepdims=True))
    order = np.arange(LATTICE)
    for last, other in zip(range(LATTICE - 1, -1, -1), rng.randint(0, 2**31, LATTICE) % LATTICE, strict=True):
        order[last], order[other] = order[other], order[last]
    return gradients[:LATTICE], order


def _perlin(gradients: Plane, order: Plane, u: Plane, v: Plane) -> Plane:
    """Return Perlin noise (N, N) at rows u (N, 1) and columns v (1, N) of the lattice."""
    i, j = np.floor(u).astype(int), np.floor(v).astype(int)
    s, t = u - i, v - j

    def dot(down: int, right: int) -> Plane:
        gradient = gradients[order[(order[(i + down) % LATTICE] + (j + right) % LATTICE) % LATTICE]]
        product: Plane = gradient[..., 0] * (s - down) + gradient[..., 1] * (t - right)
        return product

    blend_u, blend_v = s**2 * (3 - 2 * s), t**2 * (3 - 2 * t)
    first, second = (dot(0, right) + blend_u * (dot(1, right) - dot(0, right)) for right in (0, 1))
    return (first + blend_v * (second - first)) * 1.5


def _perlin_noise(image: Image, level: float, rng: RandomState) -> Image:
    weight, tables = scaled(level, 0.5), _perlin_tables(_child(rng))
    u, v = (each / (len(image) / 7) for each in _grid(image))
    turbulence = sum(np.abs(_perlin(*tables, scale * u, scale * v)) / scale for scale in (1, 2, 4, 8, 16))
    kept = np.float32(1 - weight) * image.astype(np.float32)
    return _truncated(kept + 255 * weight * np.clip(0.5 * turbulence + 0.5, 0, 1)[..., None])


def _blue_noise_sample(image: Image, level: float, rng: RandomState) -> Image:
    field = _field(len(image), _child(rng), lambda distance: distance)
    return np.where((field > scaled(level, 3) - 2.5)[..., None], image, np.uint8(0))


def _brownish_noise(image: Image, level: float, rng: RandomState) -> Image:
    child = _child(rng)
    fields = [_field(len(image), child, lambda distance: 1 / (distance**2 + 1)) for _ in range(3)]
    return _truncated(image + scaled(level, 64) * np.stack(fields, axis=2))


def _plasma_noise(image: Image, level: float, rng: RandomState) -> Image:
    intensity = scaled(level, 64)
    time, turns, speed = rng.uniform(0, 6 * np.pi), rng.randint(4, 7), rng.uniform(0.5, 1)
    grain = rng.uniform(0.075, 0.2) * len(image)
    y, x = (each / grain for each in _grid(image))
    frequency, delay, damping = 1.0, 1.0, 1.0
    for _ in range(turns):
        u = np.cos(y * frequency + time / delay) / damping
        v = np.sin(x * frequency + time / delay) / damping
        x, y = x + u - 0.3 * v, y + v + 0.3 * u
        frequency, delay, damping = frequency * 1.93, delay * 1.15, damping * (2.25 - speed)
    noise = np.stack([np.sin(x - time), np.sin((x + y + np.sin(time)) / 2), np.sin(y + time)], axis=2)
    return _truncated((1 - intensity / 255) * image + intensity * noise)


def _checkerboard_cutout(image: Image, level: float, rng: RandomState) -> Image:
    angle = rng.uniform(0, 2 * np.pi)
    side = max(rng.uniform(0.1, 0.25) * len(image), 1)
    cells = int(4 * len(image) // side)
    cut = _child(rng).uniform(size=(cells, cells)) < scaled(level, 1)
    rows, columns = _grid(image)
    u = (np.cos(angle) * rows + np.sin(angle) * columns) / side
    v = (-np.sin(angle) * rows + np.cos(angle) * columns) / side
    grey = (np.floor(u % 2) == np.floor(v % 2)) & cut[u.astype(int), v.astype(int)]
    return np.where(grey[..., None], np.uint8(GREY), image)


def _cocentric_sine_waves(image: Image, level: float, rng: RandomState) -> Image:
    side = len(image)
    x, y = rng.uniform(0, side, 2)
    petals, amplitude, wavelength = rng.uniform(0, 10), rng.uniform(0, side / 10), rng.uniform(0, side / 10)
    rows, columns = _grid(image)
    right, down = columns - x, rows - y
    distance = np.hypot(right, down) + amplitude * np.sin(petals * np.arctan2(right, down))
    wave = scaled(level, GREY) * (distance % wavelength / wavelength - 0.5)
    return _truncated(image + wave[..., None])


def _single_frequency_greyscale(image: Image, level: float, rng: RandomState) -> Image:
    first = rng.uniform(-np.pi, np.pi)
    second = rng.uniform(-np.abs(first), np.abs(first))
    x, y = np.array([first, second])[rng.permutation(2)]
    phase = rng.uniform(0, 2 * np.pi)
    rows, columns = _grid(image)
    return _truncated(image + (scaled(level, 196) * np.sin(columns * x + rows * y + phase))[..., None])


# Geometry


def _pinch_and_twirl(image: Image, level: float, rng: RandomState) -> Image:
    cells = 5 if len(image) == 224 else 3
    signs = 1 - 2 * rng.randint(0, 2, (cells, cells))
    side = len(image) // cells
    values, radius = image.astype(np.float64), side / 2
    rows, columns = (each[: side * cells] if each.shape[1] == 1 else each[:, : side * cells] for each in _grid(image))
    down, right = rows % side - radius, columns % side - radius
    distance = np.hypot(down, right)
    inside = (distance <= radius) & (np.round(distance, 3) > 0)
    reach = np.where(inside, distance / radius, 1)
    factor = np.sin(np.pi * reach / 2) ** -(scaled(level, 0.4) + 0.1)
    sign = signs.T.repeat(side, axis=0).repeat(side, axis=1)
    angle = sign * scaled(level, np.pi / 2) * (1 - reach) ** 2
    cosine, sine = np.cos(angle), np.sin(angle)
    sampled = _bilinear(
        values,
        rows - down + factor * (down * cosine - right * sine),
        columns - right + factor * (down * sine + right * cosine),
    )
    square = values[: side * cells, : side * cells]
    square[inside] = sampled[inside]
    return _truncated(values)


def _ripple(image: Image, level: float, rng: RandomState) -> Image:
    amplitude, side = scaled(level, 0.025) * len(image), len(image)
    wavelengths, phases = rng.uniform(0.1, 0.3, 2) * side, rng.uniform(0, 2 * np.pi, 2)
    rows, columns = np.broadcast_arrays(*_grid(image))
    rippled_rows = rows + amplitude * np.sin(2 * np.pi * rows / wavelengths[0] + phases[0])
    rippled_columns = columns + amplitude * np.sin(2 * np.pi * columns / wavelengths[1] + phases[1])
    return _truncated(_bilinear(image.astype(np.float64), rippled_rows, rippled_columns))


def _circular_motion_blur(image: Image, level: float, rng: RandomState) -> Image:
    largest, scene = scaled(level, 15), (image / 255).astype(np.float32)
    weights = np.exp(-2 * ANGLES**2)
    turn = partial(ndimage.rotate, reshape=False)
    turned = [
        weight * np.stack([turn(scene[..., channel], fraction * largest) for channel in range(3)], axis=2)
        for fraction, weight in zip(ANGLES, weights, strict=True)
    ]
    return _truncated(np.sum(turned, axis=0, dtype=np.float64) / weights.sum() * 255)


def _lines(image: Image, level: float, rng: RandomState) -> Image:
    side, result = len(image), image.copy()
    angle, variation = rng.uniform(0, 2 * np.pi), rng.uniform(0.1, 1)
    child = _child(rng)
    for _ in range(int(scaled(level, 1) * side)):
        y, x = side * child.uniform(), side * child.uniform()
        own = angle + 2 * np.pi * variation * (child.uniform() - 0.5)
        down, right = side * np.cos(own), side * np.sin(own)
        rows, columns, coverage = line_aa(  # type: ignore[no-untyped-call]
            int(y - down), int(x - right), int(y + down), int(x + right)
        )
        inside = (rows >= 0) & (rows < side) & (columns >= 0) & (columns < side)
        where, part = (rows[inside], columns[inside]), coverage[inside, None]
        result[where] = _truncated((1 - part) * result[where] + part * GREY)
    return result


def _transverse_chromatic_abberation(image: Image, level: float, rng: RandomState) -> Image:
    scale, side = scaled(level, 0.5), len(image)
    zooms = np.array([1, 1 + scale / 2, 1 + scale])[rng.permutation(3)]
    channels = []
    for channel, zoom in enumerate(zooms):
        larger = ndimage.zoom(image[..., channel], zoom, mode="mirror", prefilter=False)
        first = (len(larger) - side) // 2
        channels.append(larger[first : first + side, first : first + side])
    return np.stack(channels, axis=2)


ARITHMETIC: Mapping[str, Arithmetic] = {
    "caustic_refraction": _caustic_refraction,
    "inverse_sparkles": _inverse_sparkles,
    "sparkles": _sparkles,
    "perlin_noise": _perlin_noise,
    "blue_noise_sample": _blue_noise_sample,
    "plasma_noise": _plasma_noise,
    "checkerboard_cutout": _checkerboard_cutout,
    "cocentric_sine_waves": _cocentric_sine_waves,
    "single_frequency_greyscale": _single_frequency_greyscale,
    "brownish_noise": _brownish_noise,
    "pinch_and_twirl": _pinch_and_twirl,
    "ripple": _ripple,
    "circular_motion_blur": _circular_motion_blur,
    "lines": _lines,
    "transverse_chromatic_abberation": _transverse_chromatic_abberation,
}
"""Corruption -> its published arithmetic."""
