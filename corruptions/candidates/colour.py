"""Candidates that change colours."""

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions import elementary
from corruptions.candidates.catalogue import Draws, array_of
from corruptions.catalogue import Image
from corruptions.draws import DrawSource
from corruptions.kernels import jpeg
from corruptions.kernels.colour import levels, recolour
from corruptions.validation import reversed_channels

LEVELS = np.arange(256)
"""All levels."""
WHITE = 255
"""Highest level."""
HUES = 180
"""Number of 8-bit hues."""


def cut(values: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Return values as levels, clipped to 0..255 and truncated."""
    return np.clip(values, 0, WHITE).astype(np.uint8)


def look_up(image: Image, table: NDArray[np.uint8]) -> Image:
    """Return the image with each level replaced by that of a table (256,)."""
    return levels.look_up(image.reshape(-1), table).reshape(image.shape)


def scale_channels(image: Image, gains: list[float], offsets: list[float]) -> Image:
    """Return ``level * gain + offset`` for three channels in float32, clipped and truncated."""
    pixels = image.reshape(len(image), -1)
    result: Image = levels.scale_channels(pixels, np.array(gains, np.float32), np.array(offsets, np.float32))
    return result.reshape(image.shape)


DROPPED_CHANNELS = 1
"""Number of channels that ChannelDropout sets to 0."""


def draw_channels(source: DrawSource, image: Image, setting: None) -> dict[str, Any]:
    """Draw the channel that is dropped, each equally likely."""
    return {"channels_to_drop": [source.integer(0, 3) for _ in range(DROPPED_CHANNELS)]}


def drop_channels(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image with the drawn channels set to 0."""
    kept = np.full(3, WHITE, np.uint8)
    kept[array_of(draws, "channels_to_drop", np.int64, (-1,))] = 0
    height, width = image.shape[:2]
    return (image.reshape(height, -1) & np.tile(kept, width)).reshape(image.shape)


JITTER = 0.7
"""Largest change of brightness, contrast and saturation as factors, and of the hue in turns."""


def jitter_brightness(image: Image, factor: float) -> Image:
    """Return the image with each level times the factor."""
    return look_up(image, cut(LEVELS * factor))


def jitter_contrast(image: Image, factor: float) -> Image:
    """Return the image with the distance of each level from the mean grey level times the factor."""
    mean = recolour.grey_sum(image.reshape(-1)) / (image.size // 3)
    return look_up(image, cut(LEVELS * factor + mean * (1 - factor)))


def jitter_saturation(image: Image, factor: float) -> Image:
    """Return the image blended with its grey levels. Its own weight is the factor, which may be above 1."""
    return recolour.blend_with_grey(image.reshape(-1), np.float32(factor), np.float32(1 - factor)).reshape(image.shape)


def shift_hsv(image: Image, hue: float, saturation: float, value: float) -> Image:
    """Return the image with numbers added to its 8-bit HSV, of which the fractions are dropped.

    The components are integers, so that the fraction of a sum is dropped with that of the shift.
    """
    turned = np.int32(math.floor(hue) % HUES)
    return recolour.shift_hsv(
        image.reshape(-1), turned, np.int32(math.floor(saturation)), np.int32(math.floor(value))
    ).reshape(image.shape)


def jitter_hue(image: Image, turns: float) -> Image:
    """Return the image with its hue turned."""
    return shift_hsv(image, HUES * turns, 0, 0)


JITTER_STEPS: Mapping[str, Callable[[Image, float], Image]] = {
    "brightness": jitter_brightness,
    "contrast": jitter_contrast,
    "saturation": jitter_saturation,
    "hue": jitter_hue,
}
"""Draw of ColorJitter -> the step that uses it."""


def draw_jitter(source: DrawSource, image: Image, setting: None) -> dict[str, Any]:
    """Draw three factors, the turn of the hue and the order of the steps, each order equally likely."""
    factors = {step: source.angle(1 - JITTER, 1 + JITTER) for step in ("brightness", "contrast", "saturation")}
    hue = source.angle(-JITTER, JITTER)
    steps = tuple(JITTER_STEPS)
    return {**factors, "hue": hue, "order": [steps[i] for i in source.permutation(len(steps))]}


def jitter_colours(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image after four steps in the drawn order, each on the 8-bit result of the one before."""
    for step in draws["order"]:
        image = JITTER_STEPS[step](image, draws[step])
    return image


def shift_hue_saturation_value(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image with the drawn shifts added to its 8-bit HSV."""
    return shift_hsv(image, draws["hue_shift"], draws["sat_shift"], draws["val_shift"])


def shift_channels(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image with the drawn shifts added to its channels."""
    return scale_channels(image, [1, 1, 1], [draws["r_shift"], draws["g_shift"], draws["b_shift"]])


LOWEST_QUALITY, HIGHEST_QUALITY = 5, 15
"""Range of JPEG qualities."""


def draw_quality(source: DrawSource, image: Image, setting: None) -> dict[str, Any]:
    """Draw a JPEG quality."""
    return {"quality": source.integer(LOWEST_QUALITY, HIGHEST_QUALITY + 1)}


def compress(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image encoded as JPEG with 4:2:0 chroma and decoded again, both as by libjpeg-turbo.

    Quirk: red and blue are exchanged for the encoder (published as OpenCV calls without conversion to its BGR).
    """
    return reversed_channels(jpeg.round_trip(reversed_channels(image), int(draws["quality"])))


def invert(image: Image, setting: None, draws: Draws) -> Image:
    """Return the negative of the image."""
    return ~image


SHIFT_LOW, SHIFT_HIGH = 0.2, 0.5
"""Range of the standard deviation of ISONoise's hue noise in turns, at intensity 1."""
INTENSITY_LOW, INTENSITY_HIGH = 0.5, 1.0
"""Range of the intensity of ISONoise."""
DEGREES = 360
"""Degrees of a turn."""


def lightness_deviation(image: Image) -> float:
    """Return the population standard deviation of the HLS lightness 0..1, from exact sums."""
    total, squares = recolour.lightness_sums(image.reshape(-1))
    count = image.size // 3
    return math.sqrt(count * int(squares) - int(total) * int(total)) / (count * 2 * WHITE)


def draw_iso_noise(source: DrawSource, image: Image, setting: None) -> dict[str, Any]:
    """Draw noise for lightness (photon counts) and hue (degrees), (H, W) each. The image decides the mean count."""
    shift, intensity = source.angle(SHIFT_LOW, SHIFT_HIGH), source.angle(INTENSITY_LOW, INTENSITY_HIGH)
    mean = WHITE * lightness_deviation(image) * intensity
    return {
        "luminance_noise": source.counts(mean, image.shape[:2]),
        "color_noise": source.normal(0, DEGREES * shift * intensity, image.shape[:2]),
    }


def add_iso_noise(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image with the drawn noise added to its HLS lightness and hue."""
    photons = array_of(draws, "luminance_noise", np.uint16, image.shape[:2])
    rotation = array_of(draws, "color_noise", np.floating, image.shape[:2])
    return recolour.add_hls_noise(image.reshape(-1), photons.reshape(-1), rotation.reshape(-1)).reshape(image.shape)


POSTERIZED_BITS = 0b11000000
"""The bits of a level that Posterize keeps."""


def posterize(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image with the two highest bits of each level."""
    return image & np.uint8(POSTERIZED_BITS)


def shift_brightness(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image with a constant added to all levels."""
    return scale_channels(image, [1, 1, 1], 3 * [WHITE * draws["beta"]])


CONTRAST_LIMIT = 1.5
"""Largest change of the contrast factor 1."""


def draw_contrast(source: DrawSource, image: Image, setting: None) -> dict[str, Any]:
    """Draw the factor of the levels."""
    return {"alpha": 1 + source.angle(-CONTRAST_LIMIT, CONTRAST_LIMIT)}


def scale_contrast(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image with all levels times a factor.

    Quirk: no mean is kept, and a negative factor, one in six, gives a black image (published setting).
    """
    return scale_channels(image, 3 * [draws["alpha"]], [0, 0, 0])


HUNDREDTHS = 100
"""Hundredths of one."""
GAMMA_LOW, GAMMA_HIGH = 300, 1000
"""Range of RandomGamma's exponent in hundredths."""
GAMMAS: Mapping[float, int] = {each / HUNDREDTHS: each for each in range(GAMMA_LOW, GAMMA_HIGH + 1)}
"""Exponent -> its hundredths."""


def draw_gamma(source: DrawSource, image: Image, setting: None) -> dict[str, Any]:
    """Draw the exponent, 3..10 in steps of 0.01."""
    return {"gamma": source.integer(GAMMA_LOW, GAMMA_HIGH + 1) / HUNDREDTHS}


@cache
def gamma_tables() -> NDArray[np.uint8]:
    """Return 255 * (level / 255) ** (n / 100), truncated, for n up to 1000 (rows) and all levels, uint8 (1001, 256).

    Products of powers are the same on every machine, a power function is not.
    """
    roots = np.array([elementary.power(level / WHITE, 1 / HUNDREDTHS) for level in range(WHITE + 1)])
    powers = np.ones((GAMMA_HIGH + 1, WHITE + 1))
    for hundredths in range(GAMMA_HIGH):
        powers[hundredths + 1] = powers[hundredths] * roots
    return cut(powers * WHITE)


def darken(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image with levels in 0..1 raised to a power.

    Raises:
        ValueError: If the exponent is not 3..10 in steps of 0.01.
    """
    gamma = draws["gamma"]
    if gamma not in GAMMAS:
        raise ValueError(f"invalid gamma {gamma!r}: use 3..10 in steps of 0.01, for example 4.21")
    return look_up(image, gamma_tables()[GAMMAS[gamma]])


SOLARIZED = 200
"""Lowest level that Solarize inverts."""


def solarize(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image with bright levels inverted. Inverting a level flips all of its bits."""
    return image ^ ((image >= SOLARIZED) * np.uint8(WHITE))


def tone(image: Image, setting: None, draws: Draws) -> Image:
    """Return the image in sepia."""
    return recolour.to_sepia(image.reshape(-1)).reshape(image.shape)
