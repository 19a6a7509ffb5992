"""Candidates that cover parts of an image: cases by hand, and distributions of the draws."""

import numpy as np
import pytest
from scipy import stats

import corruptions
from corruptions import candidates
from corruptions.candidates.occlusion import Hole, hole_around
from corruptions.draws import FastDraws

MIN_P = 1e-4
"""Smallest accepted p-value. Seeds are fixed, so a correct generator always passes. A biased one is far below."""
COUNT = 2000
"""Draws per parameter."""


@pytest.mark.parametrize("name", ["CoarseDropout", "Cutout"])
def test_holes_are_black_and_the_rest_is_kept(name: str) -> None:
    image = np.full((140, 150, 3), 7, np.uint8)
    covered = corruptions.apply(image, name, {"holes": [(3, 10, 8, 11), (7, 10, 9, 12)]})
    expected = np.zeros((140, 150), bool)
    expected[10, 3:9] = True
    expected[11, 7:9] = True
    assert np.array_equal(covered, np.where(expected[..., None], 0, image))


@pytest.mark.parametrize(
    ("x", "y", "hole"),
    [
        (100, 90, (25, 15, 175, 165)),
        (0, 74, (0, 0, 150, 150)),
        (224, 224, (149, 149, 224, 224)),
        (150, 149, (75, 74, 224, 224)),
    ],
)
def test_cutout_moves_at_two_edges_and_is_cut_at_the_others(x: int, y: int, hole: Hole) -> None:
    assert hole_around(x, y, 224, 224) == hole


def test_coarse_dropout_draws_small_holes_inside_of_the_image() -> None:
    row, image = candidates.get("CoarseDropout"), np.zeros((131, 150, 3), np.uint8)
    drawn = [row.draw(FastDraws(seed), image, None)["holes"] for seed in range(COUNT)]
    counts = np.bincount([len(holes) for holes in drawn], minlength=49)
    assert not counts[:16].any()
    assert stats.chisquare(counts[16:]).pvalue > MIN_P
    x1, y1, x2, y2 = np.array([hole for holes in drawn for hole in holes]).T
    assert np.array_equal(x2 - x1, y2 - y1)
    assert set(x2 - x1) == {8}
    assert stats.chisquare(np.bincount(x1, minlength=150 - 7)).pvalue > MIN_P
    assert stats.chisquare(np.bincount(y1, minlength=131 - 7)).pvalue > MIN_P
    assert abs(np.corrcoef(x1, y1)[0, 1]) < 0.02


def test_cutout_draws_a_point_of_the_image_or_of_its_far_edges() -> None:
    row, image = candidates.get("Cutout"), np.zeros((140, 224, 3), np.uint8)
    holes = [row.draw(FastDraws(seed), image, None)["holes"][0] for seed in range(COUNT)]
    x1, y1, x2, y2 = np.array(holes).T
    for start, end, side in ((x1, x2, 224), (y1, y2, 140)):
        assert np.array_equal(end, np.minimum(start + 150, side))
        counts = np.bincount(start, minlength=side - 75 + 1)
        chances = np.array([76, *[1] * (side - 75)]) / (side + 1)
        assert stats.chisquare(counts, COUNT * chances).pvalue > MIN_P
