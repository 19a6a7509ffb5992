"""Lines, polygons and discs have the pixels that OpenCV draws."""

import cv2
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from corruptions.kernels.drawing import rasters

INSIDE = np.uint8(1)

coordinates = st.integers(-40, 80)


def drawn(line: tuple[int, int, int, int], height: int, width: int) -> np.ndarray:
    image = np.zeros((height, width, 1), np.uint8)
    rasters.draw_lines(np.array([line], np.int64), INSIDE, image)
    return image[..., 0]


@settings(max_examples=500)
@given(st.tuples(coordinates, coordinates, coordinates, coordinates), st.integers(2, 40), st.integers(2, 40))
def test_lines_are_those_of_opencv(line: tuple[int, int, int, int], height: int, width: int) -> None:
    expected = cv2.line(np.zeros((height, width), np.uint8), line[:2], line[2:], 1)
    assert np.array_equal(drawn(line, height, width), expected)


def test_a_line_has_the_pixels_nearest_to_it() -> None:
    expected = [[1, 1], [1, 2], [2, 3], [2, 4], [2, 5], [3, 6], [3, 7]]
    assert np.argwhere(drawn((1, 1, 7, 3), 6, 9)).tolist() == expected
    assert np.argwhere(drawn((7, 3, 1, 1), 6, 9)).tolist() == expected


def test_lines_set_all_channels() -> None:
    image = np.zeros((4, 5, 3), np.uint8)
    rasters.draw_lines(np.array([[2, 1, 2, 1]], np.int64), np.uint8(200), image)
    assert np.argwhere(image == 200).tolist() == [[1, 2, 0], [1, 2, 1], [1, 2, 2]]
    assert image.sum() == 600


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 59), st.integers(0, 49)), min_size=3, max_size=9))
def test_polygons_inside_of_the_image_are_those_of_opencv(corners: list[tuple[int, int]]) -> None:
    expected = cv2.fillPoly(np.zeros((50, 60), np.uint8), [np.array(corners, np.int32)], 1)
    assert np.array_equal(rasters.polygons_mask(np.array([corners], np.int64), 50, 60), expected)


def test_polygons_are_united() -> None:
    squares = np.array([[[2, 1], [5, 1], [5, 4], [2, 4]], [[4, 3], [8, 3], [8, 6], [4, 6]]], np.int64)
    expected = np.zeros((9, 10), np.uint8)
    expected[1:5, 2:6] = expected[3:7, 4:9] = 1
    assert np.array_equal(rasters.polygons_mask(squares, 9, 10), expected)


def test_polygons_are_filled_by_the_even_odd_rule() -> None:
    twice = np.array([[[1, 1], [8, 1], [8, 8], [1, 8], [1, 1], [8, 1], [8, 8], [1, 8]]], np.int64)
    frame = np.zeros((10, 10), np.uint8)
    frame[1:9, 1:9] = 1
    frame[2:8, 2:8] = 0
    assert np.array_equal(rasters.polygons_mask(twice, 10, 10), frame)


def test_polygons_reach_over_the_edges() -> None:
    corners = np.array([[[-20, -30], [90, -30], [90, 100], [-20, 100]]], np.int64)
    assert rasters.polygons_mask(corners, 50, 60).all()
    assert not rasters.polygons_mask(corners + 200, 50, 60).any()


def test_discs_are_those_of_opencv() -> None:
    for radius in range(201):
        side = 2 * radius + 1
        expected = cv2.circle(np.zeros((side, side), np.uint8), (radius, radius), radius, 1, -1)
        assert np.array_equal(expected.sum(axis=1)[radius:], 2 * rasters.disc_reaches(radius) + 1)
