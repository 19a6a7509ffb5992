"""Antialiased lines beside those of scikit-image."""

import numpy as np
import pytest
from skimage.draw import line_aa

from corruptions.kernels.drawing import lines

SHAPE = (20, 31)


def test_line_is_that_of_scikit_image() -> None:
    """Ends inside and outside of the image, in all directions; and all short lines, where errors are often equal."""
    short = [(10, 15, 10 + down, 15 + right) for down in range(-6, 7) for right in range(-6, 7)]
    for ends in (*np.random.RandomState(0).randint(-15, 45, (50, 4)).tolist(), *short):
        image = np.full((*SHAPE, 3), 250, np.uint8)
        lines.draw_line(image, *ends)
        expected = np.full(SHAPE, 250.0)
        rows, columns, coverage = line_aa(*ends)
        inside = (rows >= 0) & (rows < SHAPE[0]) & (columns >= 0) & (columns < SHAPE[1])
        part = coverage[inside]
        expected[rows[inside], columns[inside]] = np.floor((1 - part) * 250 + part * 128)
        assert np.array_equal(image, np.repeat(expected[..., None], 3, axis=2))


@pytest.mark.parametrize("ends", [(4, 4, 4, 4), (4, 2, 4, 9), (2, 4, 9, 4), (9, 9, 2, 2)])
def test_points_and_straight_lines_are_grey(ends: tuple[int, int, int, int]) -> None:
    image = np.zeros((*SHAPE, 3), np.uint8)
    lines.draw_line(image, *ends)
    assert (image[ends[0], ends[1]] == 128).all()
    assert (image[ends[2], ends[3]] == 128).all()


def test_draws_place_lines_over_rows_and_columns() -> None:
    image = np.zeros((*SHAPE, 3), np.uint8)
    found = lines.draw_lines(image, np.array([[0.95, 0.95, 0.5]]), 0.0, 0.5, 4.0)
    assert not image.any()
    assert (found[15:, 29] == 128).all()
    assert not found[:15].any()
