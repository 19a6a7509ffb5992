"""Candidates that imitate weather and light: definitions in NumPy, cases by hand, and distributions of the draws."""

import math
from typing import Any

import cv2
import numpy as np
import pytest
from scipy import stats

import corruptions
from corruptions import candidates
from corruptions.candidates import filters, weather
from corruptions.draws import FastDraws
from tests.factories.images import noise

MIN_P = 1e-4
"""Smallest accepted p-value. Seeds are fixed, so a correct generator always passes. A biased one is far below."""
COUNT = 1000
"""Draws per parameter."""


def blend(x: np.ndarray, y: np.ndarray, weight: float) -> np.ndarray:
    products = (levels.astype(np.float32) * np.float32(part) for levels, part in ((x, weight), (y, 1 - weight)))
    return np.rint(np.add(*products)).astype(np.uint8)


def disc(image: np.ndarray, centre: tuple[int, int], radius: int, colour: tuple[int, int, int]) -> np.ndarray:
    return cv2.circle(image.copy(), centre, radius, colour, -1)


def test_fog_blends_white_discs() -> None:
    image, corners = noise(150, 211), [(20, 30), (41, 33), (-30, 90), (190, 140), (50, 70)]
    patch = int(70 * 0.93)
    expected = image
    for x, y in corners:
        white = disc(expected, (x + patch // 2, y + patch // 2), patch // 2, (255, 255, 255))
        expected = blend(white, expected, 0.08 * 0.93)
    foggy = corruptions.apply(image, "RandomFog", {"fog_coef": 0.93, "haze_list": corners})
    assert np.array_equal(foggy, filters.box_mean(expected, patch // 10))


def test_fog_without_discs_only_blurs() -> None:
    image = noise(130, 224)
    foggy = corruptions.apply(image, "RandomFog", {"fog_coef": 1.0, "haze_list": np.empty((0, 2))})
    assert np.array_equal(foggy, filters.box_mean(image, 7))


def defined_flare(image: np.ndarray, x: int, y: int, circles: list[Any]) -> np.ndarray:
    """The published steps, on whole images."""
    overlay = result = image
    for weight, centre, radius, colour in circles:
        overlay = disc(overlay, centre, radius, colour)
        result = blend(overlay, result, weight)
    overlay = result
    for i, radius in enumerate(np.linspace(1, 200, 20)):
        overlay = disc(overlay, (x, y), int(radius), (255, 255, 255))
        strength = (19 - i) / 19
        result = blend(overlay, result, strength * strength * strength)
    return result


CIRCLES = [
    (0.2, (30, 40), 8, (205, 255, 230)),
    (0.07, (30, 45), 1, (250, 210, 240)),
    (0.13, (0, 129), 8, (220, 230, 205)),
    (0.11, (50, -9), 8, (220, 230, 205)),
    (0.19, (130, 45), 27, (210, 220, 215)),
    (0.05, (40, 3000), 8, (255, 255, 255)),
]
"""Circles that overlap, cross an edge, and are outside of the image."""


@pytest.mark.parametrize(("x", "y"), [(70, 50), (0, 0), (139, 64), (-50, 10), (160, 150), (-300, 20)])
def test_flare_equals_its_definition(x: int, y: int) -> None:
    image = noise(130, 140)
    flared = corruptions.apply(image, "RandomSunFlare", {"flare_center_x": x, "flare_center_y": y, "circles": CIRCLES})
    assert np.array_equal(flared, defined_flare(image, x, y, CIRCLES))


@pytest.mark.parametrize("far", [2**31, -(10**18), 10**40])
def test_circles_beyond_32_bits_are_outside(far: int) -> None:
    image = noise(130, 131)
    near, beyond = (
        corruptions.apply(
            image,
            "RandomSunFlare",
            {"flare_center_x": 9, "flare_center_y": 9, "circles": [(0.1, (10, y), 8, (210,) * 3), CIRCLES[0]]},
        )
        for y in (5000, far)
    )
    assert np.array_equal(near, beyond)


def grey(level: int) -> np.ndarray:
    return np.full((140, 150, 3), level, np.uint8)


def test_snow_brightens_below_a_limit() -> None:
    for level, expected in ((97, 242), (98, 98), (0, 0), (255, 255)):  # the limit is 97.75
        assert (corruptions.apply(grey(level), "RandomSnow", {"snow_point": 0.1}) == expected).all()
    assert (corruptions.apply(grey(110), "RandomSnow", {"snow_point": 0.3}) == 255).all()


def test_rain_dims_and_draws_drops_of_one_slant() -> None:
    dry = corruptions.apply(grey(100), "RandomRain", {"rain_drops": np.empty((0, 2))})
    assert (dry == 70).all()
    wet = corruptions.apply(grey(100), "RandomRain", {"rain_drops": [(60, 40)]})
    changed = wet[..., 0] > 70
    drop = np.zeros((140, 150), bool)
    for t in range(21):
        drop[40 + t, 60 + (t // 2 if t < 20 else 10)] = True
    around = np.lib.stride_tricks.sliding_window_view(np.pad(drop, 3), (7, 7)).any(axis=(2, 3))
    assert np.array_equal(changed, around)


def test_shadows_halve_the_lightness_of_a_union() -> None:
    square = [(10, 10), (60, 10), (60, 60), (10, 60), (10, 60), (10, 60), (10, 60), (10, 60)]
    shifted = [(x + 30, y + 30) for x, y in square]
    shaded = corruptions.apply(grey(101), "RandomShadow", {"vertices_list": [square, shifted]})[..., 0]
    expected = np.full((140, 150), 101)
    expected[10:61, 10:61] = expected[40:91, 40:91] = 50
    assert np.array_equal(shaded, expected)


def test_all_pixels_pass_through_hls() -> None:
    image, outside = noise(131, 150), [[(149, 130)] * 8]
    through = cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_RGB2HLS), cv2.COLOR_HLS2RGB)
    shaded = corruptions.apply(image, "RandomShadow", {"vertices_list": outside})
    assert (shaded[:-1] != through[:-1]).mean() < 1e-3
    assert abs(shaded[:-1].astype(int) - through[:-1]).max() <= 1
    assert (shaded != image).mean() > 0.2


def drawn(name: str, count: int = COUNT, height: int = 224, width: int = 224) -> list[dict[str, Any]]:
    row, image = candidates.get(name), np.zeros((height, width, 3), np.uint8)
    return [row.draw(FastDraws(seed), image, None) for seed in range(count)]


def assert_integers(values: Any, low: int, high: int) -> None:
    """Assert that integers are uniform in low..high, both included."""
    counts = np.bincount(np.ravel(values) - low, minlength=high - low + 1)
    assert counts.size == high - low + 1
    assert stats.chisquare(counts).pvalue > MIN_P


def assert_reals(values: Any, low: float, high: float) -> None:
    assert stats.kstest(values, "uniform", (low, high - low)).pvalue > MIN_P


def test_draws_of_snow_and_fog_are_uniform() -> None:
    assert_reals([draws["snow_point"] for draws in drawn("RandomSnow")], 0.1, 0.3)
    fog = drawn("RandomFog")
    assert_reals([draws["fog_coef"] for draws in fog], 0.8, 1.0)
    assert {len(draws["haze_list"]) for draws in fog} == {15, 18, 21}


def test_fog_fills_areas_that_grow() -> None:
    dense = [draws for draws in drawn("RandomFog", 3000) if int(74 * draws["fog_coef"]) == 70]
    first, last = (
        np.array([draws["haze_list"][part] for draws in dense]).reshape(-1, 2) for part in (slice(7), slice(7, 21))
    )
    assert_integers(first[:, 0], 112 - 140, 224 - (112 - 140) - 70)
    assert_integers(first[:, 1], 112 - 70, 224 - (112 - 70) - 70)
    assert_integers(last[:, 0], -28 - 105, 224 + 28 + 105 - 70)
    assert_integers(last[:, 1], 42 - 105, 224 - 42 + 105 - 70)


def test_fog_is_drawn_for_images_of_an_extreme_aspect() -> None:
    for height, width in ((14_000, 130), (130, 14_000)):
        (draws,) = drawn("RandomFog", 1, height, width)
        x, y = np.array(draws["haze_list"]).T
        assert x.min() < 0
        assert y.max() < 2 * height


def test_rain_starts_depend_on_a_slant() -> None:
    drops = [np.array(draws["rain_drops"]) for draws in drawn("RandomRain", height=130, width=150)]
    assert {each.shape for each in drops} == {(130 * 150 // 600, 2)}
    assert_integers([each[:, 1] for each in drops], 0, 110)
    left, right = np.array([(each[:, 0].min(), each[:, 0].max()) for each in drops]).T
    assert left.min() == -9
    assert right.max() == 150
    is_seen = 1 - np.prod([[151 / (151 + slant)] * 32 for slant in range(1, 10)], axis=1)  # some drop starts outside
    assert stats.binomtest(int((left < 0).sum()), COUNT, 0.05 * is_seen.sum()).pvalue > MIN_P


def test_shadows_have_eight_corners_anywhere() -> None:
    shadows = [draws["vertices_list"] for draws in drawn("RandomShadow", height=130, width=150)]
    assert_integers([len(polygons) for polygons in shadows], 2, 4)
    corners = np.array([corner for polygons in shadows for polygon in polygons for corner in polygon])
    assert {len(polygon) for polygons in shadows for polygon in polygons} == {8}
    assert_integers(corners[:, 0], 0, 150)
    assert_integers(corners[:, 1], 0, 130)


def test_draws_of_flares_have_their_distributions() -> None:
    flares = drawn("RandomSunFlare")
    circles = [circle for draws in flares for circle in draws["circles"]]
    assert_integers([draws["flare_center_x"] for draws in flares], 0, 223)
    assert_integers([draws["flare_center_y"] for draws in flares], 0, 111)
    assert_integers([len(draws["circles"]) for draws in flares], 6, 10)
    weights, centres, radii, colours = zip(*circles, strict=True)
    assert_reals(weights, 0.05, 0.2)
    assert_integers([x // 10 for x, _ in centres], 0, 22)
    assert {x % 10 for x, _ in centres} == {0}
    assert_integers([[1, 8].index(radius) for radius in radii], 0, 1)
    assert_integers(colours, 205, 255)


def test_circles_of_a_flare_are_on_a_mirrored_line() -> None:
    angles = []
    for draws in drawn("RandomSunFlare"):
        x, y = draws["flare_center_x"], draws["flare_center_y"]
        columns, rows = np.array([centre for _, centre, _, _ in draws["circles"] if abs(centre[1]) < 10**6]).T
        far = abs(columns - x).argmax()
        slope = (y - rows[far]) / (columns[far] - x)
        assert (abs(y - slope * (columns - x) - rows) <= 2).all()
        angles.append(math.atan(slope) / math.pi)
    assert_reals(angles, -0.5, 0.5)


def test_larger_images_have_larger_circles() -> None:
    radii = {circle[2] for draws in drawn("RandomSunFlare", 50, 600, 130) for circle in draws["circles"]}
    assert radii == {1, 8, 27, 64}


def test_the_glare_has_twenty_rings() -> None:
    assert weather.glare_tables().shape == (20, 256)
    assert (weather.glare_tables()[0] == 255).all()
    assert np.array_equal(weather.glare_tables()[19], np.arange(256))
    assert weather.glare_reaches()[0].tolist() == [1 + 199 * i // 19 for i in range(20)]
