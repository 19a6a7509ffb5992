"""Candidates that filter an image: definitions in NumPy, cases by hand, and distributions of the draws."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

import corruptions
from corruptions import candidates
from corruptions.candidates import filters
from corruptions.draws import FastDraws
from corruptions.kernels.smoothing import means
from tests.factories.images import noise

MIN_P = 1e-4
"""Smallest accepted p-value. Seeds are fixed, so a correct generator always passes. A biased one is far below."""
COUNT = 3000
"""Draws per parameter."""
SIZES = ((130, 131), (137, 150))


def windows(image: np.ndarray, before: int, after: int, mode: Any = "reflect") -> np.ndarray:
    """Return the pixels around each pixel, (H, W, 3, side, side)."""
    padded = np.pad(image.astype(np.int64), ((before, after), (before, after), (0, 0)), mode)
    side = before + after + 1
    return np.lib.stride_tricks.sliding_window_view(padded, (side, side), axis=(0, 1))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("side", [5, 6, 7, 9, 16, 17])
def test_box_mean_rounds_halves_up(side: int, size: tuple[int, int]) -> None:
    image = noise(*size)
    sums = windows(image, side // 2, (side - 1) // 2).sum(axis=(3, 4))
    assert np.array_equal(filters.box_mean(image, side), (2 * sums + side * side) // (2 * side * side))


@pytest.mark.parametrize("side", [2, 4, 6, 16, 18])
@pytest.mark.parametrize("level", [0, 1, 254, 255])
def test_box_mean_keeps_flat_images(side: int, level: int) -> None:
    image = np.full((130, 130, 3), level, np.uint8)
    assert np.array_equal(filters.box_mean(image, side), image)


@pytest.mark.parametrize("count", [1, 2, 6, 36, 49, 81, 256, 257, 300, 5000])
def test_division_is_exact_for_every_sum(count: int) -> None:
    offset, factor = means.division(count)
    sums = np.arange(255 * count + 1)
    quotients = ((sums.astype(offset.dtype) + offset) * factor).astype(np.int32)
    assert np.array_equal(quotients, (2 * sums + count) // (2 * count))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("side", filters.MEDIAN_SIDES)
def test_median_equals_its_definition(side: int, size: tuple[int, int]) -> None:
    image = noise(*size)
    image[:40] &= 0x81  # few levels, many of them equal
    expected = np.median(windows(image, side // 2, side // 2, "edge").reshape(*image.shape, -1), axis=-1)
    assert np.array_equal(corruptions.apply(image, "MedianBlur", {"ksize": side}), expected)


@pytest.mark.parametrize("side", filters.HALF_GAUSSIANS)
def test_gaussian_blur_equals_its_definition(side: int) -> None:
    image, half = noise(131, 142), filters.HALF_GAUSSIANS[side]
    weights = np.array([*half[:0:-1], *half])
    assert weights.size == side
    assert weights.sum() == 256
    sums = np.einsum("hwcij,i,j->hwc", windows(image, side // 2, side // 2), weights, weights)
    assert np.array_equal(corruptions.apply(image, "GaussianBlur", {"ksize": side}), (sums + 32768) >> 16)
    white = np.full((130, 130, 3), 255, np.uint8)
    assert np.array_equal(corruptions.apply(white, "GaussianBlur", {"ksize": side}), white)


def assert_correlates(name: str, weights: list[list[float]], **draws: float) -> None:
    """Assert that a candidate is a correlation, rounded and clipped. Both kinds of clipping occur."""
    image = noise(133, 131)
    values = np.clip((windows(image, 1, 1) * np.array(weights)).sum(axis=(3, 4)), 0, 255)
    changed = corruptions.apply(image, name, draws)
    assert abs(changed - values).max() < 0.501
    assert changed.min() == 0
    assert changed.max() == 255


@pytest.mark.parametrize("s", [0.2, 0.5, 0.7])
def test_emboss_equals_its_definition(s: float) -> None:
    assert_correlates("Emboss", [[-1 - s, -s, 0], [-s, 1, s], [0, s, 1 + s]], strength=s)


@pytest.mark.parametrize(("alpha", "lightness"), [(0.3, 1.0), (0.45, 0.7), (0.6, 0.6)])
def test_sharpen_equals_its_definition(alpha: float, lightness: float) -> None:
    weights = [[-alpha] * 3 for _ in range(3)]
    weights[1][1] = 1 - alpha + alpha * (8 + lightness)
    assert_correlates("Sharpen", weights, alpha=alpha, lightness=lightness)


def test_emboss_rounds_halves_to_even() -> None:
    image = np.full((130, 130, 3), 10, np.uint8)
    image[64, 64:66] = 11
    embossed = corruptions.apply(image, "Emboss", {"strength": 0.5})
    assert embossed[64, 63:67, 0].tolist() == [10, 12, 10, 10]  # of 10.5, 11.5, 10.5 and 9.5


@pytest.mark.parametrize(
    ("start", "end", "taps"),
    [
        ((0, 5), (10, 5), [(x, 5) for x in range(11)]),
        ((7, 8), (7, 3), [(7, y) for y in range(3, 9)]),
        ((2, 9), (9, 2), [(x, 11 - x) for x in range(2, 10)]),
        ((0, 0), (4, 2), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2)]),
        ((4, 2), (0, 0), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2)]),
        ((4, 0), (2, 4), [(4, 0), (4, 1), (3, 2), (3, 3), (2, 4)][::-1]),
    ],
)
def test_motion_blur_averages_a_line(start: tuple[int, int], end: tuple[int, int], taps: list[tuple[int, int]]) -> None:
    image = noise(131, 140)
    around = windows(image, 5, 5)
    sums = sum(around[..., y, x] for x, y in taps)
    if start == (4, 0):  # halfway between two pixels, a line has the one nearer to its left end
        sums = sums - around[..., 1, 4] - around[..., 3, 3] + around[..., 1, 3] + around[..., 3, 2]
    blurred = corruptions.apply(image, "MotionBlur", {"ksize": 11, "start": start, "end": end})
    assert np.array_equal(blurred, (2 * sums + len(taps)) // (2 * len(taps)))


def drawn(name: str) -> list[dict[str, Any]]:
    row, image = candidates.get(name), np.zeros((224, 224, 3), np.uint8)
    return [row.draw(FastDraws(seed), image, None) for seed in range(COUNT)]


@pytest.mark.parametrize(
    ("name", "chances"),
    [
        ("Blur", {5: 1 / 3, 7: 1 / 3, 9: 1 / 3}),
        ("GaussianBlur", {9: 1 / 5, 11: 2 / 5, 13: 2 / 5}),
        ("MedianBlur", {5: 1 / 4, 7: 1 / 4, 9: 1 / 4, 11: 1 / 4}),
        ("MotionBlur", {11: 1 / 4, 13: 1 / 4, 15: 1 / 4, 17: 1 / 4}),
    ],
)
def test_sides_have_their_chances(name: str, chances: dict[int, float]) -> None:
    values, counts = np.unique([draws["ksize"] for draws in drawn(name)], return_counts=True)
    assert values.tolist() == list(chances)
    assert stats.chisquare(counts, COUNT * np.array(list(chances.values()))).pvalue > MIN_P


@pytest.mark.parametrize(
    ("name", "key", "low", "high"),
    [("Emboss", "strength", 0.2, 0.7), ("Sharpen", "alpha", 0.3, 0.6), ("Sharpen", "lightness", 0.6, 1.0)],
)
def test_reals_are_uniform(name: str, key: str, low: float, high: float) -> None:
    values = [draws[key] for draws in drawn(name)]
    assert stats.kstest(values, "uniform", (low, high - low)).pvalue > MIN_P


def test_lines_have_two_different_ends() -> None:
    lines = [draws for draws in drawn("MotionBlur") if draws["ksize"] == 11]
    ends = np.array([[*draws["start"], *draws["end"]] for draws in lines])
    assert (ends[:, :2] != ends[:, 2:]).any(axis=1).all()
    is_steep = ends[:, 0] == ends[:, 2]
    assert stats.binomtest(int(is_steep.sum()), len(ends), 1 / 11).pvalue > MIN_P
    for values in (ends[:, 0], ends[:, 2], ends[is_steep, 1], ends[~is_steep, 3]):
        assert stats.chisquare(np.bincount(values, minlength=11)).pvalue > MIN_P
    gaps = (ends[is_steep, 3] - ends[is_steep, 1]) % 11
    assert stats.chisquare(np.bincount(gaps, minlength=11)[1:]).pvalue > MIN_P
