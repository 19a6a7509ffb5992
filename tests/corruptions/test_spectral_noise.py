"""Noise fields of blue_noise_sample and brownish_noise for sides of both parities."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from corruptions.c_bar.spectral import blue, brown, draw_turns, field
from corruptions.draws import FastDraws, PublishedDraws

SIZES = [(16, 16), (17, 17), (32, 32), (33, 33), (16, 40), (33, 16), (16, 33), (21, 17)]

Amplitude = Callable[[float], float]


def published_field(size: tuple[int, int], rng: np.random.RandomState, amplitude: Amplitude) -> NDArray[np.float64]:
    """The transform of the complete spectrum. Along the longer side, frequencies are scaled to the shorter one."""
    height, width = size
    left = rng.uniform(0, 2 * np.pi, (height, width // 2))
    parts = [left, left[::-1, ::-1]]
    if width % 2:
        upper = rng.uniform(0, 2 * np.pi, height // 2)
        parts.insert(1, np.concatenate([upper, [0] * (height % 2), upper[::-1]])[:, None])
    rows, columns = np.mgrid[:height, :width]
    scale = min(size)
    squares = ((rows - height / 2) * scale / height) ** 2 + ((columns - width / 2) * scale / width) ** 2
    spectrum = np.vectorize(amplitude)(squares) * np.exp(1j * np.concatenate(parts, axis=1))
    noise = np.fft.ifft2(np.roll(spectrum, (height // 2, width // 2), axis=(0, 1))).real
    return noise / noise.std()


@pytest.mark.parametrize("amplitude", [blue, brown])
@pytest.mark.parametrize("size", SIZES)
def test_field_is_the_real_part_of_the_published_one(size: tuple[int, int], amplitude: Amplitude) -> None:
    expected = published_field(size, np.random.RandomState(5), amplitude)
    found = field(draw_turns(PublishedDraws(np.random.RandomState(5)), np.zeros((*size, 3))), amplitude, size)
    assert found.dtype == np.float32
    assert np.abs(found - expected).max() <= 2e-5


@pytest.mark.parametrize("size", SIZES)
def test_fast_phases_are_uniform_and_give_standard_deviation_1(size: tuple[int, int]) -> None:
    turns = draw_turns(FastDraws(3), np.zeros((*size, 3)))
    left = turns[:, : size[1] // 2]
    assert turns.shape == (size[0], (size[1] + 1) // 2 + 1)
    assert abs(left.mean() - 0.5) <= 4 * np.sqrt(1 / 12 / left.size)
    assert field(turns, blue, size).std() == pytest.approx(1, abs=1e-5)


def test_blue_noise_has_high_and_brownish_noise_low_frequencies() -> None:
    turns = draw_turns(FastDraws(3), np.zeros((64, 64, 3)))
    neighbours = [
        np.corrcoef(noise[:, 1:].ravel(), noise[:, :-1].ravel())[0, 1]
        for noise in (field(turns, amplitude, (64, 64)) for amplitude in (blue, brown))
    ]
    assert neighbours[0] < -0.1
    assert neighbours[1] > 0.9
