"""Quirks of the published formulas that are kept, and what follows from the formulas without reference outputs."""

import numpy as np
import pytest

from corruptions import c_bar
from corruptions.c_bar import lattices, light, waves
from corruptions.c_bar.catalogue import scaled
from corruptions.draws import PublishedDraws
from corruptions.kernels.drawing import caustics, checkerboard, perlin

SIDE = 96


def flat(level: int, side: int = SIDE) -> np.ndarray:
    return np.full((side, side, 3), level, np.uint8)


def test_a_gradient_without_direction_makes_black_squares() -> None:
    numbers = PublishedDraws(np.random.RandomState(1)).integers(0, 2**31, (perlin.DRAWS,))
    assert lattices.add_noise(flat(90), 5.0, numbers).min() > 0
    numbers[:2] = 256  # both components of the first gradient are 0
    black = (lattices.add_noise(flat(90), 5.0, numbers) == 0).all(axis=2)
    assert 0.001 < black.mean() < 0.2


def test_pairs_beyond_the_first_256_are_drawn_and_not_used() -> None:
    numbers = PublishedDraws(np.random.RandomState(1)).integers(0, 2**31, (perlin.DRAWS,))
    expected = lattices.add_noise(flat(90), 5.0, numbers)
    numbers[2 * perlin.GRADIENTS : 2 * perlin.PAIRS] = 256
    assert np.array_equal(lattices.add_noise(flat(90), 5.0, numbers), expected)
    assert perlin.DRAWS == 2 * 514 + 256


def test_white_stays_white_under_perlin_noise_of_full_brightness() -> None:
    """The weighted sum of two whites is truncated, so its rounding decides the level."""
    for level in c_bar.CORRUPTIONS["perlin_noise"].levels["imagenet"]:
        weight = scaled(level, lattices.NOISE_WEIGHT)
        whites = np.float64(np.float32(1 - weight) * np.float32(255)) + 255 * weight
        source = PublishedDraws(np.random.RandomState(4))
        noisy = lattices.add_noise(flat(255), level, lattices.draw_gradients(source, flat(255), level))
        assert noisy.max() == int(min(whites, 255.0))


def test_cells_on_both_sides_of_zero_share_an_index() -> None:
    """Row 0 of the board is hidden. Without a rotation, columns before 0 do not exist, so the board is shifted."""
    hidden = np.zeros((16, 16), np.uint8)
    hidden[0] = 1
    cut = checkerboard.hide_cells(flat(9, 32).reshape(32, -1), hidden, 0.0, 1.0, 8.0).reshape(32, 32, 3)
    # The angle is a quarter turn: u is the column and v minus the row, so cell -1 of v has index 0 after truncation.
    grey = (cut == checkerboard.GREY).all(axis=2)
    assert grey[1:8, :8].sum() == 0  # u = 0, v = -1: different parity
    assert grey[9:16, :8].all()  # u = 0, v = -2
    other = np.zeros((16, 16), np.uint8)
    other[1, 0] = 1
    cut = checkerboard.hide_cells(flat(9, 32).reshape(32, -1), other, 0.0, 1.0, 8.0).reshape(32, 32, 3)
    grey = (cut == checkerboard.GREY).all(axis=2)
    assert grey[1:8, 8:16].all()  # u = 1, v = -1, whose index is 0
    assert grey.sum() == 7 * 8


def test_the_board_repeats_in_long_images() -> None:
    hidden = np.random.RandomState(2).randint(0, 2, (16, 16)).astype(np.uint8)
    strip = np.zeros((16, 3 * 200), np.uint8)
    cut = checkerboard.hide_cells(strip, hidden, 1.0, 0.0, 2.0).reshape(16, 200, 3)
    assert 0.1 < (cut == checkerboard.GREY).mean() < 0.4
    assert np.array_equal(cut[:, :160], cut[:, 32:192])
    assert not np.array_equal(cut[:, :160], cut[:, 16:176])


def test_an_even_map_neither_refracts_nor_lights() -> None:
    image = np.random.RandomState(3).randint(0, 256, (40, 50, 3)).astype(np.uint8)
    even = np.full((42, 52), 0.25, np.float32)
    assert np.array_equal(caustics.refract(image, even, 80.0, 2.0), image)


@pytest.mark.parametrize(("slope", "moves"), [(0.044, False), (0.045, True)])
def test_small_slopes_do_not_refract(slope: float, moves: bool) -> None:
    """At the limit, the displacement jumps from 0 to 0.034 times the strength of the lens."""
    image = np.zeros((40, 40, 3), np.uint8)
    image[:20] = 200
    rows = np.arange(42, dtype=np.float32)[:, None] * np.float32(slope / 2)
    darkness = np.ascontiguousarray(np.broadcast_to(rows, (42, 42)))
    made = caustics.refract(image, darkness, 100.0, 0.0)
    assert np.array_equal(made, image) != moves
    if moves:
        assert (made[:3] == 0).all()  # sampled above of the image, which is black
        assert (made[20:23] == 200).all()
        assert (made[24:] == 0).all()


def test_light_is_the_slope_of_the_map_down_minus_right() -> None:
    image, slope = flat(100, 40), 0.02
    ramp = np.arange(42, dtype=np.float32) * np.float32(slope / 2)
    down = np.ascontiguousarray(np.broadcast_to(ramp[:, None], (42, 42)))
    expected = 255 * slope * 1.5
    assert np.abs(caustics.refract(image, down, 50.0, 1.5) - (100 - expected)).max() <= 1
    assert np.abs(caustics.refract(image, np.ascontiguousarray(down.T), 50.0, 1.5) - (100 + expected)).max() <= 1


def test_sparkles_have_rays_of_at_least_a_pixel_and_inverse_sparkles_none() -> None:
    """Rays of mean length 0 would otherwise be invisible."""
    stars = light.Stars(np.full((1, 2), 48.3), np.array([60]), np.zeros(60))
    assert light.add_stars(flat(0), 0.0, stars).max() > 100
    star = light.Star((48.3, 48.3), np.full(60, -4.0))  # the mean minus four standard deviations is 0
    assert (light.fade_outside(flat(0), 5.0, star) == 255).all()


def test_sparkles_only_brighten_and_inverse_sparkles_keep_the_core() -> None:
    image = np.random.RandomState(3).randint(0, 256, (SIDE, SIDE, 3)).astype(np.uint8)
    source = PublishedDraws(np.random.RandomState(4))
    assert (light.add_stars(image, 5.0, light.draw_stars(source, image, 5.0)) >= image).all()
    star = light.Star((48.0, 40.0), np.zeros(80))
    made = light.fade_outside(image, 5.0, star)
    assert (made >= image).all()
    rows, columns = np.mgrid[:SIDE, :SIDE]
    inside = np.hypot(rows - 48, columns - 40) < 0.25 * SIDE * 0.75
    assert np.array_equal(made[inside], image[inside])
    assert (made[~inside] > image[~inside])[image[~inside] < 200].mean() > 0.9


def test_a_plane_wave_has_the_drawn_frequency_and_phase() -> None:
    wave = waves.PlaneWave(2 * np.pi * 5 / SIDE, 2 * np.pi * 3 / SIDE, 0.0)
    noise = waves.add_wave(flat(128), 3.0, wave)[..., 0].astype(float) - 128
    spectrum = np.abs(np.fft.fft2(noise)) / noise.size
    assert spectrum[3, 5] == pytest.approx(scaled(3.0, waves.WAVE_INTENSITY) / 2, rel=0.01)
    spectrum[0, 0] = spectrum[3, 5] = spectrum[-3, -5] = 0
    assert spectrum.max() < 0.2


def test_rings_rise_like_a_saw_over_the_drawn_width() -> None:
    rings = waves.Rings(0.0, 0.0, 0.0, 0.0, 8.0)
    row = waves.add_rings(flat(128), 5.0, rings)[0, :, 1]
    expected = 128 + 64 * (np.arange(SIDE) % 8 / 8 - 0.5)
    assert np.array_equal(row, expected.astype(np.uint8))


def test_plasma_without_displacement_is_a_grid_of_sines() -> None:
    draws = waves.Plasma(0.0, 0, 0.7, 5.0)
    made = waves.add_plasma(flat(0), 10.0, draws)
    x, y = np.meshgrid(np.arange(SIDE) / 5, np.arange(SIDE) / 5)
    expected = np.clip(64 * np.stack([np.sin(x), np.sin((x + y) / 2), np.sin(y)], axis=2), 0, 255)
    assert np.abs(made - expected).max() < 1.001
