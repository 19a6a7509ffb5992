"""Spatial frequencies that are added to images: the pattern, its levels, its signs."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import corruptions
from corruptions import fourier
from corruptions.draws import FastDraws

GREY = np.full((224, 224, 3), 128, np.uint8)

RNG = np.random.default_rng(4)
CASES = [
    (int(RNG.integers(0, height // 2)), int(RNG.integers(1 - width // 2, width // 2)), height, width)
    for height, width in ((224, 224), (32, 32), (33, 45), (64, 31))
    for _ in range(5)
]


def pattern(p: int, q: int, height: int, width: int) -> NDArray[np.float64]:
    """Return the published pattern of a frequency of the half plane."""
    rows, columns = np.mgrid[:height, :width]
    theta = 2 * np.pi * (p * rows / height + q * columns / width)
    alone = 2 * p % height == 0 and 2 * q % width == 0
    return (np.cos(theta) + (0 if alone else np.sin(theta))) / np.sqrt(height * width)


@pytest.mark.parametrize("case", [*CASES, (0, 0, 224, 224), (16, 16, 32, 32), (16, 3, 32, 32), (0, 16, 31, 32)])
def test_patterns_have_norm_one_and_one_frequency(case: tuple[int, int, int, int]) -> None:
    p, q, height, width = case
    p, q = (p, q) if (p, q) >= (0, 0) else (-p, -q)
    down, across = fourier.waves(*case)
    found = np.einsum("kr,kc->rc", down, across)
    np.testing.assert_allclose(found, pattern(p, q, height, width), atol=1e-13)
    assert abs(np.linalg.norm(found) - 1) < 1e-12
    energy = np.abs(np.fft.fft2(found)) ** 2
    places = {(p % height, q % width), (-p % height, -q % width)}
    assert energy.sum() - sum(energy[place] for place in places) < 1e-12 * energy.sum()
    np.testing.assert_array_equal(fourier.waves(-p, -q, height, width)[0], down)


def test_a_grey_image_becomes_a_grating() -> None:
    made = corruptions.fourier_noise(GREY, 0, 10, 15.7, (1, -1, 1)).astype(int) - 128
    assert (made == made[:1]).all()  # rows are equal
    assert (made[0, :112] == made[0, 112:]).all()  # five periods of 22.4 columns
    assert (abs(made[0, :, 0] + made[0, :, 1]) <= 1).all()
    assert (made[..., 0] == made[..., 2]).all()
    assert (made.max(), made.min()) == (25, -25)
    flat = corruptions.fourier_noise(GREY, 0, 0, 15.7, (1, -1, -1))
    assert [np.unique(flat[..., channel]).tolist() for channel in range(3)] == [[146], [110], [110]]


@pytest.mark.parametrize("case", CASES[4::5])
def test_pixels_are_those_of_the_definition(case: tuple[int, int, int, int]) -> None:
    p, q, height, width = case
    p, q = (p, q) if (p, q) >= (0, 0) else (-p, -q)
    image, signs = RNG.integers(0, 256, (height, width, 3), np.uint8), np.array([-1, 1, 1])
    values = image / 255 + signs * 9.5 * pattern(p, q, height, width)[..., None]
    expected = np.floor(255 * np.clip(values, 0, 1) + 0.5 + 2**-20)
    before = image.copy()
    np.testing.assert_array_equal(corruptions.fourier_noise(image, -p, -q, 9.5, signs.tolist()), expected)
    np.testing.assert_array_equal(image, before)


def test_a_level_is_a_frequency() -> None:
    known = {(0, 0): 256, (1, -31): 737, (31, 31): 16_159, (-1, 31): 737, (0, -1): 257}
    assert {at: fourier.Frequency(*at).level for at in known} == known
    assert fourier.levels(1) == (256, 257, 767, 768, 769)
    assert [len(fourier.levels(*of)) for of in ((31,), (15,), (31, 2), (0,))] == [1985, 481, 481, 1]
    assert all(fourier.frequency(level).level == level for level in fourier.levels(31))
    assert set(fourier.levels(31)) <= set(fourier.LEVELS)
    for level in (512, 0, 255, 131_072):
        with pytest.raises(ValueError, match=f"{level} is not a level 512 p"):
            fourier.frequency(level)


def test_signs_are_even_and_independent() -> None:
    drawn = np.array([fourier.draw_signs(FastDraws(seed)) for seed in range(400)])
    assert len(np.unique(drawn[:100], axis=0)) == 8
    assert (abs(drawn.mean(axis=0)) < 0.15).all()


@pytest.mark.parametrize(("profile", "norm", "side"), [("imagenet", 15.7, 224), ("cifar", 4.0, 32)])
def test_frequencies_are_added_by_name(profile: Any, norm: float, side: int) -> None:
    image, at = RNG.integers(0, 256, (side, side, 3), np.uint8), fourier.Frequency(3, -5)
    draws = corruptions.draw(image, "fourier_noise", severity=at.level, seed=7)
    expected = corruptions.fourier_noise(image, *at, norm, draws["signs"])
    made = corruptions.corrupt(image, "fourier_noise", at.level, profile=profile, seed=7)
    np.testing.assert_array_equal(made, expected)
    if profile == "imagenet":
        made = corruptions.apply(image, "fourier_noise", {"signs": list(draws["signs"])}, severity=at.level)
        np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "1 is not a level 512 p"),
        ({"severity": 57_600}, r"57600 is frequency \(112, 0\), but images of 224 x 224"),
        ({"severity": 2**17}, r"severity must be 1\.\.131071"),
        ({"severity": 266, "profile": "tiny"}, "profile must be 'imagenet' or 'cifar'"),
        ({"severity": 266, "rng": np.random.RandomState(1)}, "no published order of draws; use seed"),
    ],
)
def test_what_is_no_frequency_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        corruptions.corrupt(GREY, "fourier_noise", **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((113, 0, 1), r"frequency \(113, 0\) must be at most half of the sides, 224 x 224"),
        ((0, 0, -1), "norm must be a finite number of at least 0, not -1"),
        ((0, 0, float("nan")), "norm must be a finite number"),
        ((0, 0, 1, (1, 1)), r"signs must be 3 numbers of -1 and 1, not \(1, 1\)"),
        ((0, 0, 1, (1, 0, 1)), "signs must be 3 numbers of -1 and 1"),
    ],
)
def test_invalid_arguments_are_named(arguments: tuple[int, int, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        corruptions.fourier_noise(GREY, *arguments)
