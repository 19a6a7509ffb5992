"""Weather corruptions: the kept quirks, and each kernel compared with a simple reference."""

import cv2
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from corruptions import precipitation, weather
from corruptions.draws import PublishedDraws
from corruptions.kernels.drawing import blend, distance
from corruptions.kernels.drawing.edges import canny_edges
from corruptions.margins import with_margins
from tests.factories.images import noise


def test_the_map_is_enlarged_only_for_larger_images():
    parameters = weather.FOG["imagenet"][0]
    shapes = {(16, 40): 256, (300, 500): 512, (16, 8192): 8192}
    assert {shape: weather.map_side(np.empty((*shape, 3)), parameters) for shape in shapes} == shapes
    sides = {"imagenet": {256}, "inception": {512}, "tiny": {64}, "cifar": {32}}
    assert {name: {row.map_side for row in rows} for name, rows in weather.FOG.items()} == sides


def test_fog_keeps_a_black_image():
    image = np.zeros((20, 30, 3), np.uint8)
    parameters = weather.FOG["cifar"][4]
    draws = weather.draw_heights(PublishedDraws(np.random.RandomState(0)), image, parameters)
    assert not weather.add_fog(image, parameters, draws).any()


def test_snow_draws_only_the_centre():
    image = noise(90, 45)
    parameters = precipitation.SNOW["imagenet"][3]
    draws = precipitation.draw_snow(PublishedDraws(np.random.RandomState(0)), image, parameters)
    layer = np.random.RandomState(0).normal(parameters.loc, parameters.scale, (90, 45))
    assert (draws.centre == layer[35:55, 17:27]).all()
    assert precipitation.MIN_FALL <= draws.angle <= precipitation.MAX_FALL


def test_flakes_are_truncated_and_added_twice():
    layer = np.array([[0.49, 0.5, 0.999, 1.5, -2.0]])
    assert blend.threshold_to_uint8(layer, 0.5).tolist() == [[0, 127, 254, 255, 0]]
    flakes = np.zeros((2, 3), np.uint8)
    flakes[0, 0] = 100
    snowy = blend.add_snow(np.zeros((2, 3, 3), np.uint8), flakes, 1.0, 0.0, 0.0)
    assert snowy[..., 0].tolist() == [[100, 0, 0], [0, 0, 100]]


def test_drops_wrap_modulo_256():
    layer = np.array([[0.0, 0.999, 1.0, 1.01, 2.0]])
    assert blend.threshold_to_uint8_wrapping(layer, 0.5).tolist() == [[0, 254, 255, 1, 254]]
    assert blend.threshold_to_uint8_wrapping(layer, 1.0).tolist() == [[0, 0, 255, 1, 254]]


@pytest.mark.parametrize("kind", [precipitation.WATER, precipitation.MUD])
@pytest.mark.parametrize("level", [0.0, 0.3])
def test_spatter_without_drops_keeps_the_image(kind, level):
    image = noise(32, 20)
    parameters = precipitation.Spatter(0.6, 0.1, 0.7, 0.7, 0.6, kind)
    assert (precipitation.spatter(image, parameters, np.full((32, 20), level)) == image).all()


@pytest.mark.parametrize("kind", [precipitation.WATER, precipitation.MUD])
def test_spatter_accepts_a_layer_above_the_threshold(kind):
    image = noise(32, 20)
    parameters = precipitation.Spatter(0.6, 0.1, 0.7, 0.7, 0.6, kind)
    wet = precipitation.spatter(image, parameters, np.full((32, 20), 0.9))
    assert wet.shape == image.shape


def edges_of(levels: np.ndarray, low: int, high: int) -> np.ndarray:
    padded = with_margins(levels, 1, 1, cv2.BORDER_REPLICATE)
    return canny_edges(padded, np.int16(low), np.int16(high))


@given(
    arrays(
        np.uint8, st.tuples(st.integers(2, 40), st.integers(2, 40)), elements=st.integers(0, 7) | st.integers(0, 255)
    ),
    st.integers(0, 400),
    st.integers(0, 2100),
)
@example(np.arange(200).repeat(30).reshape(200, 30).astype(np.uint8), 0, 9)
def test_edges_equal_opencv(levels: np.ndarray, low: int, more: int) -> None:
    found = edges_of(levels, low, low + more)
    assert (found[1:-1, 1:-1] * 255 == cv2.Canny(levels, low, low + more)).all()
    assert found.sum() == found[1:-1, 1:-1].sum()


def test_weak_edges_count_along_the_whole_outline_if_one_is_strong():
    levels = np.zeros((64, 64), np.uint8)
    levels[8:56, 8:56] = 20
    assert not edges_of(levels, 50, 150).any()
    levels[8:12, 8:12] = 100
    found = edges_of(levels, 50, 150)
    assert found.sum() > 4 * 40
    assert (found[1:-1, 1:-1] * 255 == cv2.Canny(levels, 50, 150)).all()


@pytest.mark.parametrize("limit", [1, 2, precipitation.MAX_DISTANCE, 127])
def test_edge_distances_equal_opencv_up_to_the_limit(limit):
    edges = (np.random.RandomState(2).random_sample((61, 97)) < 0.003).astype(np.uint8) * 255
    expected = np.minimum(cv2.distanceTransform(255 - edges, cv2.DIST_L2, 5), limit)
    inner = (slice(distance.MARGIN, -distance.MARGIN),) * 2
    assert distance.edge_distances(np.pad(edges, 1), limit)[inner] / distance.UNIT == pytest.approx(expected, abs=2e-3)


def test_distances_are_sums_of_three_steps():
    edges = np.zeros((11, 11), np.uint8)
    edges[5, 5] = 1
    quarter = distance.edge_distances(edges, 127)[distance.MARGIN + 4 :, distance.MARGIN + 4 :][:4, :5]
    assert quarter.tolist() == [
        [0, 10_000, 20_000, 30_000, 40_000],
        [10_000, 14_000, 21_969, 31_969, 41_969],
        [20_000, 21_969, 28_000, 35_969, 43_938],
        [30_000, 31_969, 35_969, 42_000, 49_969],
    ]


def test_mean_distances_are_truncated():
    distances = np.random.RandomState(2).randint(0, 20 * distance.UNIT, (17, 33)).astype(np.int32)
    expected = cv2.blur(distances / distance.UNIT, (3, 3)).astype(np.uint8)
    assert (distance.mean_distances(np.pad(distances, distance.MARGIN)) == expected).all()
    assert (distance.mean_distances(np.full((20, 20), 20 * distance.UNIT, np.int32)) == 20).all()


@pytest.mark.parametrize("highest", [1, 5, 21, 256])
def test_embossing_equals_opencv(highest):
    levels = np.random.RandomState(2).randint(highest // 3, highest, (17, 33)).astype(np.uint8)
    expected = cv2.filter2D(cv2.equalizeHist(levels), cv2.CV_8U, np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]]))
    assert (distance.emboss_equalized(levels) == expected).all()
