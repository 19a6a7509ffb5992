"""Displaced pixels of ripple and pinch_and_twirl, on rectangles too."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import ndimage

from corruptions.c_bar import geometry
from corruptions.draws import FastDraws
from corruptions.kernels.powers import power_64
from corruptions.kernels.sampling import displacement

SIZE = (20, 53)


def picture() -> NDArray[np.uint8]:
    return np.random.RandomState(4).randint(0, 256, (*SIZE, 3)).astype(np.uint8)


def sampled(image: NDArray[np.uint8], rows: NDArray[np.float64], columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return SciPy's bilinear samples (H, W, 3), with black beyond the edges."""
    planes = [
        ndimage.map_coordinates(image[..., c].astype(np.float64), [rows, columns], order=1, mode="grid-constant")
        for c in range(3)
    ]
    return np.stack(planes, axis=2)


def test_ripple_samples_displaced_rows_and_columns() -> None:
    rows, columns = np.mgrid[: SIZE[0], : SIZE[1]].astype(np.float64)
    found = displacement.ripple(picture(), 2.5, (7.0, 11.0), (1.0, 2.0))
    rows += 2.5 * np.sin(2 * np.pi * rows / 7 + 1)
    columns += 2.5 * np.sin(2 * np.pi * columns / 11 + 2)
    assert np.abs(found - (sampled(picture(), rows, columns) - 0.5)).max() <= 0.5 + 1e-6


def test_twirl_samples_turned_and_pinched_cells() -> None:
    """One cell of radius 10 about (10, 30), by the published formula."""
    rows, columns = np.mgrid[:20, 20:40].astype(np.float64)
    down, right = rows - 10, columns - 30
    distance = np.hypot(down, right)
    part = np.where((distance > 0) & (distance <= 10), distance / 10, 1)
    factor, turn = np.sin(np.pi * part / 2) ** -0.3, -0.8 * (1 - part) ** 2
    expected = sampled(
        picture(),
        10 + factor * (down * np.cos(turn) - right * np.sin(turn)),
        30 + factor * (down * np.sin(turn) + right * np.cos(turn)),
    )
    offsets = displacement.twirl_offsets(20, 0.8, 0.3)
    found = displacement.twirl_cells(picture(), offsets, np.array([[0], [1]]))[:, 20:40]
    assert np.abs(found - (expected - 0.5)).max() <= 0.5 + 1e-4


def test_cells_cover_a_rectangle_and_leave_the_rest() -> None:
    directions = geometry.draw_twirls(FastDraws(1), picture(), 6.0)
    assert directions.shape == (8, 3)  # cells of 6 pixels
    image = picture()
    changed = (geometry.twirl(image, 6.0, directions) != image).any(axis=2)
    assert not changed[18:].any()
    assert not changed[:, 48:].any()
    cells = changed[:18, :48].reshape(3, 6, 8, 6).any(axis=(1, 3))
    assert cells.all()


@pytest.mark.parametrize(("side", "cells"), [(32, 3), (64, 3), (224, 5), (223, 3)])
def test_the_number_of_cells_depends_on_the_size(side: int, cells: int) -> None:
    assert geometry.draw_twirls(FastDraws(1), np.zeros((side, side, 3)), 6.0).shape == (cells, cells)


@pytest.mark.parametrize("exponent", [-0.5, -0.1, 1.4, 3.0])
def test_power_is_close_to_the_c_library(exponent: float) -> None:
    for base in np.concatenate([np.linspace(1e-3, 1, 97), np.linspace(1, 40, 97)]).tolist():
        assert power_64(base, exponent) == pytest.approx(math.pow(base, exponent), rel=1e-14)
