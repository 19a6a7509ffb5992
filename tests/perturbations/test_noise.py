"""The fast generator has the published distributions, and its frames are independent."""

import numpy as np
import pytest
from scipy import stats

import perturbations
from perturbations.noise import GAUSSIAN_NOISE, SHOT_NOISE, SPECKLE_NOISE

LEVEL = 120
TABLES = {"gaussian_noise": GAUSSIAN_NOISE, "shot_noise": SHOT_NOISE, "speckle_noise": SPECKLE_NOISE}
MIN_P = 1e-5
"""Smallest accepted p-value."""


def flat_frames(name: str, difficulty: int, **draws: object) -> np.ndarray:
    image = np.full((64, 64, 3), LEVEL, np.uint8)
    return perturbations.perturb(image, name, profile="tiny", difficulty=difficulty, **draws)


def deviation(name: str, difficulty: int) -> float:
    """Return the standard deviation of a value at LEVEL, in levels."""
    row = TABLES[name]["tiny"][difficulty - 1]
    if name == "shot_noise":
        return 255 * np.sqrt(LEVEL / 255 / row.lam)
    return row.sigma * (255 if name == "gaussian_noise" else LEVEL)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("difficulty", [1, 2, 3])
def test_noise_has_the_published_distribution(name: str, difficulty: int) -> None:
    fast = flat_frames(name, difficulty, seed=3)[1:].astype(float)
    legacy = flat_frames(name, difficulty, rng=np.random.RandomState(3))[1:].astype(float)
    sigma = deviation(name, difficulty)
    assert fast.mean() == pytest.approx(legacy.mean(), abs=6 * sigma * np.sqrt(2 / fast.size))
    assert fast.mean() == pytest.approx(LEVEL - 0.5, abs=0.1)  # truncation subtracts half a level on average
    assert fast.var() == pytest.approx(legacy.var(), rel=0.02)
    assert fast.var() == pytest.approx(sigma**2 + 1 / 12, rel=0.04)
    counts = [np.bincount(frames.astype(int).ravel(), minlength=256) for frames in (fast, legacy)]
    table = np.array(counts)[:, np.sum(counts, axis=0) > 20]
    assert stats.chi2_contingency(table).pvalue > MIN_P


@pytest.mark.parametrize("name", TABLES)
def test_frames_are_independent(name: str) -> None:
    frames = flat_frames(name, 3, seed=11)[1:].reshape(30, -1).astype(float)
    correlation = np.corrcoef(frames)
    largest = np.abs(correlation - np.eye(30)).max()
    assert largest < 6 / np.sqrt(frames.shape[1])


def test_the_first_frame_is_clean() -> None:
    for name in TABLES:
        assert (flat_frames(name, 3)[0] == LEVEL).all()


def test_snow_and_spatter_draw_one_layer_per_sequence() -> None:
    """Frames of snow differ only in direction, so they contain similar amounts of snow."""
    black = np.zeros((64, 64, 3), np.uint8)
    snow = perturbations.perturb(black, "snow", profile="tiny", seed=4).astype(float)
    fractions = [(frame > 60).mean() for frame in snow]
    assert min(fractions) > 0
    assert max(fractions) < 2.5 * min(fractions)
    spatter = perturbations.perturb(np.full_like(black, 90), "spatter", profile="tiny", seed=4).astype(int)
    wet = (spatter[:, :, :, 2] > 90).mean(axis=(1, 2))
    assert (wet[:5] > 0).all()
