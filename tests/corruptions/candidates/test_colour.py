"""Candidates that change colours: references, cases by hand, and distributions of the draws."""

from itertools import permutations
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import corruptions
from corruptions import candidates, digital
from corruptions.candidates import colour
from corruptions.draws import FastDraws
from corruptions.kernels.colour import levels
from tests.factories.images import noise

NAMES = [name for name, row in candidates.CORRUPTIONS.items() if row.apply.__module__ == colour.__name__]
MIN_P = 1e-4
"""Smallest accepted p-value. Seeds are fixed, so a correct generator always passes. A biased one is far below."""
COUNT = 4000
"""Draws per parameter."""


def plain(*colours: tuple[int, int, int]) -> np.ndarray:
    """Return an image of equally large stripes."""
    return np.repeat(np.array([colours], np.uint8), 132 // len(colours), axis=1).repeat(132, axis=0)


def result(name: str, image: np.ndarray, **draws: Any) -> list[list[int]]:
    """Return the colours of the stripes after a candidate, from left to right."""
    changed = corruptions.apply(image, name, draws)
    assert (changed == changed[:1]).all()
    return [list(each) for each in dict.fromkeys(tuple(pixel.tolist()) for pixel in changed[0])]


@pytest.mark.parametrize("name", [name for name in NAMES if "Compression" not in name])
def test_each_pixel_depends_on_its_own_colour_only(name: str) -> None:
    image = noise(131, 133)  # no multiple of any vector
    draws = corruptions.draw(image, name, seed=3)
    turned = {key: value[::-1, ::-1] if isinstance(value, np.ndarray) else value for key, value in draws.items()}
    changed = corruptions.apply(image, name, draws)
    assert np.array_equal(changed[::-1, ::-1], corruptions.apply(image[::-1, ::-1], name, turned))
    assert not np.array_equal(changed, image)


@settings(max_examples=50)
@given(st.binary(max_size=300), st.integers(0, 2**32 - 1))
def test_look_up_equals_indexing(data: bytes, seed: int) -> None:
    flat, table = np.array(bytearray(data), np.uint8), noise(1, 256, seed)[0, :, 0].copy()
    assert np.array_equal(levels.look_up(flat, table), table[flat])


@settings(max_examples=50)
@given(st.lists(st.floats(-3, 3, width=32), min_size=3, max_size=3), st.floats(-300, 300, width=32))
def test_scale_channels_equals_its_definition(gains: list[float], offset: float) -> None:
    image, offsets = noise(7, 21), np.array([offset, 0, 1.5 * offset], np.float32)
    values = image.astype(np.float32) * np.array(gains, np.float32) + offsets
    assert np.array_equal(colour.scale_channels(image, gains, offsets.tolist()), np.clip(values, 0, 255).astype(int))


STILL = {"brightness": 1.0, "contrast": 1.0, "saturation": 1.0, "hue": 0.0}
"""Draws of ColorJitter that change nothing but by the way through HSV."""


def shift(hue: float = 0, saturation: float = 0, value: float = 0) -> dict[str, float]:
    return {"hue_shift": hue, "sat_shift": saturation, "val_shift": value}


@pytest.mark.parametrize(
    ("name", "colours", "draws", "expected"),
    [
        ("Solarize", [(199, 200, 0), (255, 17, 230)], {}, [[199, 55, 0], [0, 17, 25]]),
        ("Posterize", [(63, 64, 127), (128, 200, 255)], {}, [[0, 64, 64], [128, 192, 192]]),
        ("InvertImg", [(0, 100, 255)], {}, [[255, 155, 0]]),
        ("ToSepia", [(100, 150, 200), (255, 255, 255)], {}, [[192, 171, 134], [255, 255, 239]]),
        ("ChannelDropout", [(1, 2, 3)], {"channels_to_drop": [0]}, [[0, 2, 3]]),
        ("ChannelDropout", [(1, 2, 3)], {"channels_to_drop": [1]}, [[1, 0, 3]]),
        ("ChannelDropout", [(1, 2, 3)], {"channels_to_drop": [2]}, [[1, 2, 0]]),
        ("RandomBrightness", [(0, 100, 240)], {"beta": 0.1}, [[25, 125, 255]]),
        ("RandomBrightness", [(0, 100, 240)], {"beta": -0.1}, [[0, 74, 214]]),
        ("RandomContrast", [(1, 101, 200)], {"alpha": 1.5}, [[1, 151, 255]]),
        ("RandomContrast", [(1, 101, 200)], {"alpha": -0.2}, [[0, 0, 0]]),
        (
            "RGBShift",
            [(10, 20, 30), (250, 90, 60)],
            {"r_shift": 20.5, "g_shift": -20.5, "b_shift": 200.0},
            [[30, 0, 230], [255, 69, 255]],
        ),
        ("RandomGamma", [(0, 128, 255)], {"gamma": 3.0}, [[0, 32, 255]]),
        ("RandomGamma", [(64, 200, 254)], {"gamma": 10}, [[0, 22, 245]]),
        ("HueSaturationValue", [(255, 0, 0)], shift(60.9), [[0, 255, 0]]),
        ("HueSaturationValue", [(255, 0, 0)], shift(-60), [[0, 0, 255]]),
        ("HueSaturationValue", [(255, 0, 0)], shift(-0.5), [[255, 0, 8]]),  # hue 179
        ("HueSaturationValue", [(200, 50, 50)], shift(0, 150), [[200, 0, 0]]),  # saturation 191
        ("HueSaturationValue", [(200, 50, 50)], shift(0, 0, -50.5), [[149, 37, 37]]),
        ("HueSaturationValue", [(200,) * 3], shift(0, 0, 99.5), [[255] * 3]),
        ("HueSaturationValue", [(90, 80, 85)], shift(0, -150, -100), [[0] * 3]),
        ("ColorJitter", [(10, 101, 200)], {**STILL, "order": ["brightness"], "brightness": 1.7}, [[17, 171, 255]]),
        (
            "ColorJitter",
            [(0, 0, 0), (255, 255, 255)],
            {**STILL, "order": ["contrast"], "contrast": 0.5},
            [[63, 63, 63], [191, 191, 191]],
        ),
        (
            "ColorJitter",
            [(40, 40, 40), (60, 60, 80)],
            {**STILL, "order": ["contrast"], "contrast": 1.5},
            [[34, 34, 34], [64, 64, 94]],
        ),
        ("ColorJitter", [(200, 0, 0)], {**STILL, "order": ["saturation"], "saturation": 0.3}, [[102, 42, 42]]),
        ("ColorJitter", [(200, 0, 0)], {**STILL, "order": ["saturation"], "saturation": 1.7}, [[255, 0, 0]]),
        ("ColorJitter", [(255, 0, 0)], {**STILL, "order": ["hue"], "hue": 1 / 3}, [[0, 255, 0]]),
        ("ColorJitter", [(255, 0, 0)], {**STILL, "order": ["hue"], "hue": -0.69}, [[42, 255, 0]]),
    ],
)
def test_colours_by_hand(
    name: str, colours: list[tuple[int, int, int]], draws: dict[str, Any], expected: list[list[int]]
) -> None:
    assert result(name, plain(*colours), **draws) == expected


def test_gamma_tables_equal_powers() -> None:
    exponents = np.arange(300, 1001) / 100
    expected = np.arange(0, 256 / 255, 1 / 255) ** exponents[:, None] * 255
    assert np.array_equal(colour.gamma_tables()[300:], expected.astype(np.uint8))


@pytest.mark.parametrize("gamma", [2.99, 10.01, 4.215, -3, float("inf"), float("nan")])
def test_gamma_outside_of_its_range_is_an_error(gamma: float) -> None:
    with pytest.raises(ValueError, match=r"invalid gamma .*: use 3\.\.10|'gamma' must have finite numbers"):
        corruptions.apply(noise(130, 130), "RandomGamma", {"gamma": gamma})


@pytest.mark.parametrize("name", ["ImageCompression", "JpegCompression"])
def test_jpeg_exchanges_red_and_blue(name: str) -> None:
    image = cv2.GaussianBlur(noise(133, 141), (0, 0), 3)
    exchanged = np.ascontiguousarray(image[..., ::-1])
    changed = corruptions.apply(image, name, {"quality": 10})
    assert np.array_equal(changed[..., ::-1], digital.compress(exchanged, digital.Jpeg(10), None))
    assert not np.array_equal(changed, digital.compress(image, digital.Jpeg(10), None))


def test_hsv_equals_opencv_for_colours_on_a_grid() -> None:
    grid = np.arange(0, 256, 5, dtype=np.uint8)
    image = np.stack(np.meshgrid(grid, grid, grid), axis=-1).reshape(-1, 64, 3)
    expected = cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_RGB2HSV), cv2.COLOR_HSV2RGB)
    assert np.array_equal(colour.shift_hsv(image, 0, 0, 0), expected)


def test_jitter_follows_the_drawn_order() -> None:
    image, draws = plain((100, 200, 0)), {**STILL, "brightness": 1.5, "saturation": 0.5}
    first = result("ColorJitter", image, **draws, order=["brightness", "saturation"])
    assert first == [[172, 225, 98]]  # of (150, 255, 0) and its grey 195
    assert result("ColorJitter", image, **draws, order=["saturation", "brightness"]) == [[186, 255, 111]]


def iso_noise(image: np.ndarray, photons: int, degrees: float) -> list[list[int]]:
    shape = image.shape[:2]
    return result("ISONoise", image, luminance_noise=np.full(shape, photons), color_noise=np.full(shape, degrees))


def test_iso_noise_brightens_towards_white() -> None:
    assert iso_noise(plain((0, 0, 0), (255, 0, 0)), 51, 0.0) == [[51, 51, 51], [255, 51, 51]]
    assert iso_noise(plain((10, 200, 30)), 255, 77.0) == [[255, 255, 255]]


def test_iso_noise_wraps_hues_once() -> None:
    red = plain((255, 0, 0))
    assert iso_noise(red, 0, 30.0) == [[255, 127, 0]]
    assert iso_noise(red, 0, -75.0) == [[191, 0, 255]]
    assert iso_noise(red, 0, 750.0) == [[255, 127, 0]]  # 390 degrees


def test_iso_noise_keeps_negative_hues_and_8_bits() -> None:
    # -140 degrees are -2.33 sixths, so the middle channel is -85, of which 8 bits remain.
    assert iso_noise(plain((255, 0, 0)), 0, -500.0) == [[255, 171, 0]]


@pytest.mark.parametrize("key", ["luminance_noise", "color_noise"])
def test_iso_noise_of_another_size_is_an_error(key: str) -> None:
    draws = corruptions.draw(noise(130, 140), "ISONoise")
    with pytest.raises(ValueError, match=rf"'{key}' must have shape 130 x 140, not \(140, 130\)"):
        corruptions.apply(noise(130, 140), "ISONoise", {**draws, key: draws[key].T})


@pytest.mark.parametrize("image", [noise(131, 137), plain((0, 0, 0), (255, 255, 255)), plain((7, 7, 7))])
def test_lightness_deviation_is_exact(image: np.ndarray) -> None:
    lightness = (image.max(axis=2).astype(float) + image.min(axis=2)) / 510
    assert colour.lightness_deviation(image) == pytest.approx(lightness.std(), rel=1e-12)


def drawn(name: str, count: int = COUNT) -> list[dict[str, Any]]:
    image = plain((0, 0, 0), (255, 255, 255))
    return [candidates.get(name).draw(FastDraws(seed), image, None) for seed in range(count)]


UNIFORM: list[tuple[str, str, float, float]] = [
    *(("ColorJitter", key, 0.3, 1.7) for key in ("brightness", "contrast", "saturation")),
    ("ColorJitter", "hue", -0.7, 0.7),
    ("HueSaturationValue", "hue_shift", -100, 100),
    ("HueSaturationValue", "sat_shift", -150, 150),
    ("HueSaturationValue", "val_shift", -100, 100),
    ("RandomBrightness", "beta", -0.9, 0.9),
    ("RandomContrast", "alpha", -0.5, 2.5),
    *(("RGBShift", key, -200, 200) for key in ("r_shift", "g_shift", "b_shift")),
]


@pytest.mark.parametrize(("name", "key", "low", "high"), UNIFORM)
def test_uniform_draws(name: str, key: str, low: float, high: float) -> None:
    values = [draws[key] for draws in drawn(name)]
    assert stats.kstest(values, "uniform", (low, high - low)).pvalue > MIN_P


EQUALLY_LIKELY: list[tuple[str, str, list[Any]]] = [
    ("ChannelDropout", "channels_to_drop", [[0], [1], [2]]),
    ("ColorJitter", "order", [list(each) for each in permutations(["brightness", "contrast", "saturation", "hue"])]),
    ("ImageCompression", "quality", list(range(5, 16))),
    ("JpegCompression", "quality", list(range(5, 16))),
    ("RandomGamma", "gamma", [hundredths / 100 for hundredths in range(300, 1001)]),
]


@pytest.mark.parametrize(("name", "key", "allowed"), EQUALLY_LIKELY)
def test_equally_likely_draws(name: str, key: str, allowed: list[Any]) -> None:
    counts = np.bincount([allowed.index(draws[key]) for draws in drawn(name)], minlength=len(allowed))
    assert stats.chisquare(counts).pvalue > MIN_P


def test_factors_of_jitter_are_independent() -> None:
    keys = ("brightness", "contrast", "saturation", "hue")
    correlation = np.corrcoef([[draws[key] for key in keys] for draws in drawn("ColorJitter")], rowvar=False)
    assert abs(correlation - np.eye(4)).max() < 0.07


def test_iso_noise_is_poisson_and_normal_with_drawn_scales() -> None:
    draws = drawn("ISONoise", 300)  # the deviation of the image's lightness is a half
    photons, degrees = (np.stack([each[key] for each in draws]) for key in ("luminance_noise", "color_noise"))
    means, deviations = photons.mean(axis=(1, 2)), degrees.std(axis=(1, 2))
    assert stats.kstest(means / 127.5, "uniform", (0.5, 0.5)).pvalue > MIN_P
    assert stats.kstest(deviations / 360 / (means / 127.5), "uniform", (0.2, 0.3)).pvalue > MIN_P
    assert photons.var(axis=(1, 2)) / means == pytest.approx(1, abs=0.06)
    assert abs(degrees.mean(axis=(1, 2)) / deviations).max() < 0.04
    assert stats.kstest(degrees[0].ravel() / deviations[0], "norm").pvalue > MIN_P


def test_iso_noise_of_a_plain_image_has_no_photons() -> None:
    assert not corruptions.draw(plain((9, 80, 7)), "ISONoise")["luminance_noise"].any()
