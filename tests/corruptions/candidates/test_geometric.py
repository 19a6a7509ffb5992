"""Candidates that move pixels: their sampling against a definition in NumPy, cases by hand, and distributions."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import corruptions
from corruptions import candidates
from corruptions.candidates import geometric
from corruptions.draws import FastDraws
from corruptions.kernels.sampling import fixed_sampling
from corruptions.kernels.sampling.fixed_sampling import BLACK, EDGE, MIRROR, pick
from corruptions.kernels.sampling.perspective import inverse_perspective
from tests.factories.images import noise

MIN_P = 1e-4
"""Smallest accepted p-value. Seeds are fixed, so a correct generator always passes. A biased one is far below."""
COUNT = 4000
"""Draws per parameter."""


def defined_sample(image: np.ndarray, xs: np.ndarray, ys: np.ndarray, border: int) -> np.ndarray:
    """The weighted sum of four pixels, each looked up by the rule for the border."""
    levels = image.astype(np.int64)

    def inside(index: np.ndarray, size: int) -> np.ndarray:
        if border == MIRROR:
            folded = abs(index) % (2 * (size - 1))
            return np.minimum(folded, 2 * (size - 1) - folded)
        return np.clip(index, 0, size - 1)

    def pixel(row: np.ndarray, column: np.ndarray) -> np.ndarray:
        at = inside(row, image.shape[0]), inside(column, image.shape[1])
        is_inside = (at[0] == row) & (at[1] == column)
        return levels[at] * (is_inside[..., None] | (border != BLACK))

    xs, ys = xs.astype(np.int64), ys.astype(np.int64)
    column, row, a, b = xs >> 5, ys >> 5, (xs & 31)[..., None], (ys & 31)[..., None]
    upper = (32 - a) * pixel(row, column) + a * pixel(row, column + 1)
    lower = (32 - a) * pixel(row + 1, column) + a * pixel(row + 1, column + 1)
    return (((32 - b) * upper + b * lower + 512) >> 10).astype(np.uint8)


@settings(max_examples=60)
@given(
    st.integers(2, 40),
    st.integers(2, 40),
    st.sampled_from([MIRROR, EDGE, BLACK]),
    st.sampled_from([64, 2000, 100_000]),
    st.integers(0, 2**32 - 1),
)
def test_sample_equals_its_definition(height: int, width: int, border: int, reach: int, seed: int) -> None:
    image, rng = noise(height, width, seed), np.random.RandomState(seed)
    xs, ys = (rng.randint(-reach, reach, (7, 19)).astype(np.int32) for _ in range(2))
    assert np.array_equal(fixed_sampling.sample(image, xs, ys, border), defined_sample(image, xs, ys, border))


@pytest.mark.parametrize("border", [MIRROR, EDGE, BLACK])
def test_sample_is_exact_at_every_pixel_edge_and_period(border: int) -> None:
    image = noise(5, 6)
    ends = [multiple * 32 * size + off for multiple in range(-4, 5) for size in (4, 5, 6) for off in (-1, 0, 1)]
    xs, ys = (part.astype(np.int32) for part in np.meshgrid([*ends, *range(-40, 240)], [*ends, *range(-40, 240, 3)]))
    assert np.array_equal(fixed_sampling.sample(image, xs, ys, border), defined_sample(image, xs, ys, border))


@pytest.mark.parametrize("border", [MIRROR, EDGE])
def test_positions_far_outside_read_pixels_of_the_image(border: int) -> None:
    limits = np.iinfo(np.int32)
    xs = np.array([limits.min, limits.min + 31, -(2**30), 2**25 + 1, limits.max], np.int32)
    ys, indices = xs[::-1].copy(), np.empty(5, np.int32)
    fixed_sampling.locate(xs, ys, 3, 7, border, indices)
    assert indices.min() >= 0
    assert (indices // 7).max() <= 1
    assert (indices % 7).max() <= 5
    assert min(xs.min(), ys.min()) >= 0
    assert max(xs.max(), ys.max()) <= 32


def test_affine_positions_are_those_of_the_definition() -> None:
    inverse = np.array([[1.1, -0.37, 14.2], [0.21, 0.93, -33.3]])
    column, row = np.meshgrid(np.arange(31), np.arange(23))
    for found, (a, b, c) in zip(fixed_sampling.affine_positions(inverse, 23, 31), inverse, strict=True):
        expected = (np.rint((b * row + c) * 1024) + 16 + np.rint(a * column * 1024)).astype(np.int64) >> 5
        assert np.array_equal(found, expected)


def test_perspective_positions_are_those_of_the_definition() -> None:
    inverse = np.array([[1.1037, -0.3719, 14.2311], [0.2137, 0.9313, -33.3717], [0.0113, 0.0217, 1.0]])
    column, row = np.meshgrid(np.arange(31), np.arange(23))
    x, y, w = (a * column + b * row + c for a, b, c in inverse)
    xs, ys = fixed_sampling.perspective_positions(inverse, 23, 31)
    assert np.array_equal(xs, np.rint(32 * x / w))
    assert np.array_equal(ys, np.rint(32 * y / w))


def test_perspective_positions_stay_finite_at_the_horizon() -> None:
    inverse = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, -1.0], [1.0, 0.0, -3.0]])
    xs, ys = fixed_sampling.perspective_positions(inverse, 2, 5)
    assert xs[0, 3] == ys[0, 3] == 0
    inverse[2] = 1e-320, 0.0, 0.0
    xs, ys = fixed_sampling.perspective_positions(inverse, 2, 5)
    assert xs[0, 1] == 2**24
    assert ys[0, 1] == -(2**24)


def test_inverse_perspective_takes_the_corners_to_the_points() -> None:
    points = np.array([[3, 5], [90, 7], [80, 99], [1, 70]], np.float32)
    corners = np.array([[0, 0], [64, 0], [64, 48], [0, 48]], np.float32)
    homogeneous = np.c_[corners, np.ones(4)] @ inverse_perspective(points, corners).T
    assert np.allclose(homogeneous[:, :2] / homogeneous[:, 2:], points, atol=1e-3)


def test_inverse_perspective_without_a_solution_is_zero() -> None:
    corners = np.array([[0, 0], [64, 0], [64, 48], [0, 48]], np.float32)
    assert not inverse_perspective(np.zeros((4, 2), np.float32), corners).any()


def test_pick_repeats_rows_and_columns() -> None:
    image = noise(4, 5)
    rows, columns = np.array([3, 3, 0, 3], np.uint64), np.array([4, 0, 0, 2, 1, 4], np.uint64)
    assert np.array_equal(pick(image, rows, columns), image[rows][:, columns])


NOTHING: list[tuple[str, dict[str, Any]]] = [
    ("Rotate", {"angle": 0}),
    ("Transpose", {"dx": 0, "dy": 0.0}),
    ("Perspective", {"jitter": [[0, 0]] * 4}),
    ("Affines", {"scale": 1}),
    ("ElasticTransform", {"corners": [[0, 0]] * 3, "dx": np.zeros((150, 131)), "dy": np.zeros((150, 131))}),
]


@pytest.mark.parametrize(("name", "draws"), NOTHING, ids=[name for name, _ in NOTHING])
def test_draws_that_move_nothing_keep_the_image(name: str, draws: dict[str, Any]) -> None:
    image = noise(150, 131)
    assert np.array_equal(corruptions.apply(image, name, draws), image)


def test_transpose_shifts_and_mirrors() -> None:
    image = noise(130, 140)
    shifted = corruptions.apply(image, "Transpose", {"dx": 7 / 140, "dy": -3 / 130})
    assert np.array_equal(shifted[:127, 7:], image[3:, :133])
    assert np.array_equal(shifted[:127, :7], image[3:, 7:0:-1])
    assert np.array_equal(shifted[127:, 7:], image[128:125:-1, :133])


def test_affines_shrinks_about_the_centre() -> None:
    image = np.zeros((131, 131, 3), np.uint8)
    image[65, 65] = 200
    shrunk = corruptions.apply(image, "Affines", {"scale": 0.75})
    assert shrunk[65, 65].tolist() == [200] * 3
    assert np.count_nonzero(shrunk.sum(axis=2)) == 1


def test_rotate_turns_anticlockwise_about_a_shifted_centre() -> None:
    image = noise(140, 140)
    turned = corruptions.apply(image, "Rotate", {"angle": 90})
    assert np.array_equal(turned[1:], np.rot90(image)[:-1])
    assert np.array_equal(turned[0], np.rot90(image)[1])  # mirrored


def test_optical_distortion_keeps_its_two_centres() -> None:
    image = noise(131, 144)
    shifted = corruptions.apply(image, "OpticalDistortion", {"k": 0, "dx": 2, "dy": -1})
    levels = image.astype(int)
    means = (levels[:-1, :-1] + levels[:-1, 1:] + levels[1:, :-1] + levels[1:, 1:] + 2) >> 2
    assert np.array_equal(shifted[1:-1, :-3], means[:-1, 2:])


def test_grid_positions_include_both_ends_of_each_cell() -> None:
    positions = geometric.grid_positions(224, np.array([1.0, 1.5, 0.5, 1.0, 1.0, 7.0]))
    assert positions[[0, 43, 44]].tolist() == [0, 44 * 32, 44 * 32]
    assert positions[[87, 88, 131, 132]].tolist() == [110 * 32, 110 * 32, 132 * 32, 132 * 32]
    assert positions[21] == round(32 * 44 * 21 / 43)
    assert positions[[220, 223]].tolist() == [220 * 32, 224 * 32]  # the last cell ends at the side, whatever its step
    assert geometric.grid_positions(225, np.full(6, 1.0))[-1] == 225 * 32  # here it is empty


def test_elastic_transform_moves_by_the_smoothed_fields() -> None:
    image, still = noise(150, 131), np.zeros((150, 131))
    moved = corruptions.apply(
        image, "ElasticTransform", {"corners": np.zeros((3, 2)), "dx": still + 1, "dy": still - 2}
    )
    assert np.array_equal(moved[2:, :-1], image[:-2, 1:])
    assert np.array_equal(moved[2:, -1], image[:-2, -1])  # the nearest pixel beyond the edge
    assert np.array_equal(moved[0, :-1], image[0, 1:])


def test_elastic_transform_moves_three_points_about_a_transposed_centre() -> None:
    image = np.zeros((150, 240, 3), np.uint8)
    image[120 - 50, 75 + 50] = 250  # centre (75, 120) as (x, y), a third of the smaller side
    draws = {"corners": [[0, 0], [6, -9], [0, 0]], "dx": np.zeros((150, 240)), "dy": np.zeros((150, 240))}
    moved = corruptions.apply(image, "ElasticTransform", draws)
    row, column = np.unravel_index(moved[..., 0].argmax(), moved.shape[:2])
    assert [column, row] == [75 + 50 + 6, 120 - 50 - 9]


def test_perspective_cuts_out_a_rectangle_and_enlarges_it() -> None:
    image = np.zeros((160, 160, 3), np.uint8)
    image[40:120, 40:120] = noise(80, 80)
    part = corruptions.apply(image, "Perspective", {"jitter": [[0.25, -0.25]] * 4})
    assert np.array_equal(part[::2, ::2], image[40:120, 40:120])


def test_perspective_orders_its_points_anew() -> None:
    image = noise(160, 160)
    straight, crossed = (
        corruptions.apply(image, "Perspective", {"jitter": [[share, 0.25]] * 4}) for share in (0.25, 0.75)
    )
    assert np.array_equal(straight, crossed)


@pytest.mark.parametrize("jitter", [np.full((4, 2), 0.5), np.array([[0.9, 0.9], [0.1, 0.1], [0.9, 0.9], [0.1, 0.1]])])
def test_perspective_moves_points_apart_that_coincide(jitter: np.ndarray) -> None:
    assert corruptions.apply(noise(140, 133), "Perspective", {"jitter": jitter}).shape == (140, 133, 3)
    points = geometric.quadrilateral(jitter.astype(np.float32), 140, 133)
    for axis, (starts, ends) in enumerate(geometric.SIDES):
        geometric.stretch(points, axis)
        lengths = np.hypot(*(points[[*ends]] - points[[*starts]]).T)
        assert lengths.min() >= geometric.SHORTEST


def test_border_keeps_the_centre() -> None:
    image = np.maximum(noise(224, 191), 1)
    framed = corruptions.apply(image, "Border", {})
    assert np.array_equal(framed[47:177, 30:160], image[47:177, 30:160])
    assert np.count_nonzero(framed) == 130 * 130 * 3


def test_downscale_repeats_pixels() -> None:
    indices = geometric.nearest_indices(224)
    assert len(np.unique(indices)) == 101
    assert indices[:8].tolist() == [0, 0, 0, 2, 2, 4, 4, 6]
    assert geometric.nearest_indices(200)[-1] == 197
    image = noise(224, 131)
    assert np.array_equal(corruptions.apply(image, "Downscale", {}), image[indices][:, geometric.nearest_indices(131)])


@pytest.mark.parametrize(("d", "step"), [(0, (-1, 1)), (1, (1, -1)), (-1, (-1, -1))])
def test_flip_reverses_rows_columns_or_both(d: int, step: tuple[int, int]) -> None:
    image = noise(131, 140)
    assert np.array_equal(corruptions.apply(image, "Flip", {"d": d}), image[:: step[0], :: step[1]])


def test_shuffle_moves_tiles_of_the_same_size() -> None:
    image = noise(150, 161)
    draws = corruptions.draw(image, "RandomGridShuffle", seed=3)
    tiles = draws["tiles"]
    assert len(tiles) == 16
    assert {tile[:2] for tile in tiles} == {tile[2:4] for tile in tiles}
    assert {(*tile[:2], *tile[4:]) for tile in tiles} == {(*tile[2:4], *tile[4:]) for tile in tiles}
    shuffled = corruptions.apply(image, "RandomGridShuffle", {"tiles": [list(tile) for tile in tiles]})
    assert np.array_equal(np.sort(shuffled.reshape(-1, 3), axis=0), np.sort(image.reshape(-1, 3), axis=0))
    row, column, from_row, from_column, height, width = tiles[5]
    content = image[from_row : from_row + height, from_column : from_column + width]
    assert np.array_equal(shuffled[row : row + height, column : column + width], content)


def drawn(name: str, count: int = COUNT, height: int = 224, width: int = 224) -> list[dict[str, Any]]:
    row, image = candidates.get(name), np.zeros((height, width, 3), np.uint8)
    return [row.draw(FastDraws(seed), image, None) for seed in range(count)]


@pytest.mark.parametrize(
    ("name", "key", "low", "high"),
    [
        ("Affines", "scale", 0.6, 0.8),
        ("Rotate", "angle", -180, 180),
        ("Transpose", "dx", -0.7, 0.7),
        ("Transpose", "dy", -0.7, 0.7),
        ("OpticalDistortion", "k", -4, 4),
        ("GridDistortion", "stepsx", 0, 2),
        ("GridDistortion", "stepsy", 0, 2),
    ],
)
def test_reals_are_uniform(name: str, key: str, low: float, high: float) -> None:
    values = np.ravel([draws[key] for draws in drawn(name)])
    assert stats.kstest(values, "uniform", (low, high - low)).pvalue > MIN_P


def test_elastic_draws_are_uniform_and_independent(fewer: int) -> None:
    draws = drawn("ElasticTransform", 300 // fewer, 130, 131)
    assert draws[0]["dx"].shape == draws[0]["dy"].shape == (130, 131)
    for key, reach in (("corners", 50), ("dx", 1), ("dy", 1)):
        values = np.ravel([each[key] for each in draws])
        assert stats.kstest(values, "uniform", (-reach, 2 * reach)).pvalue > MIN_P
    assert abs(np.corrcoef(draws[0]["dx"].ravel(), draws[0]["dy"].ravel())[0, 1]) < 0.05


def test_shifts_of_optical_distortion_are_rounded() -> None:
    expected = np.array([1, 2, 2, 2, 2, 2, 2, 2, 1]) * COUNT / 16
    for key in ("dx", "dy"):
        counts = np.bincount([draws[key] + 4 for draws in drawn("OpticalDistortion")], minlength=9)
        assert stats.chisquare(counts, expected).pvalue > MIN_P


def test_flips_are_equally_likely() -> None:
    counts = np.bincount([draws["d"] + 1 for draws in drawn("Flip")])
    assert len(counts) == 3
    assert stats.chisquare(counts).pvalue > MIN_P


def test_perspective_jitter_is_normal_with_a_uniform_deviation() -> None:
    jitter = np.array([draws["jitter"] for draws in drawn("Perspective")], np.float64)
    assert jitter.shape == (COUNT, 4, 2)
    expected = np.random.RandomState(7)
    reference = expected.normal(0, expected.uniform(0.1, 0.3, (COUNT, 1)), (COUNT, 8))
    assert stats.ks_2samp(jitter.ravel(), reference.ravel()).pvalue > MIN_P
    spreads, reference_spreads = (part.reshape(COUNT, 8).std(axis=1) for part in (jitter, reference))
    assert stats.ks_2samp(spreads, reference_spreads).pvalue > MIN_P


def test_every_order_of_tiles_is_equally_likely() -> None:
    orders = np.array(
        [[tile[2] // 56 * 4 + tile[3] // 56 for tile in draws["tiles"]] for draws in drawn("RandomGridShuffle")]
    )
    for position in range(16):
        assert stats.chisquare(np.bincount(orders[:, position], minlength=16)).pvalue > MIN_P
    pairs = np.bincount(orders[:, 0] * 16 + orders[:, 1], minlength=256).reshape(16, 16)
    assert not pairs.diagonal().any()
    assert stats.chisquare(pairs[~np.eye(16, dtype=bool)]).pvalue > MIN_P


def test_tiles_of_different_sizes_keep_their_sizes() -> None:
    bounds = geometric.tile_bounds(150)
    assert bounds == [(0, 37), (37, 38), (75, 37), (112, 38)]
    for draws in drawn("RandomGridShuffle", 20, 150, 161):
        assert {tile[4:] for tile in draws["tiles"]} == {(37, 40), (38, 40), (37, 41), (38, 41)}
