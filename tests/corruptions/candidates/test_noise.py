"""Candidates that add noise or multiply by it: definitions in NumPy, and distributions of the draws."""

import numpy as np
from scipy import stats

import corruptions
from corruptions import candidates
from corruptions.draws import FastDraws

MIN_P = 1e-4
"""Smallest accepted p-value. Seeds are fixed, so a correct generator always passes. A biased one is far below."""

IMAGE = np.random.RandomState(0).randint(0, 256, (131, 150, 3)).astype(np.uint8)


def test_gauss_noise_is_added_clipped_and_truncated() -> None:
    gauss = np.random.RandomState(1).normal(0, 60, IMAGE.shape).astype(np.float32)
    noisy = corruptions.apply(IMAGE, "GaussNoise", {"gauss": gauss})
    assert np.array_equal(noisy, np.clip(IMAGE + gauss, 0, 255).astype(np.uint8))
    assert noisy.min() == 0
    assert noisy.max() == 255


def test_the_fraction_of_noise_is_dropped() -> None:
    image, gauss = np.full((130, 130, 3), 100, np.uint8), np.full((130, 130, 3), 0.985, np.float32)
    assert (corruptions.apply(image, "GaussNoise", {"gauss": gauss}) == 100).all()
    assert (corruptions.apply(image, "GaussNoise", {"gauss": -gauss}) == 99).all()
    assert (corruptions.apply(image, "MultiplicativeNoise", {"multiplier": gauss[..., :1]}) == 98).all()


def test_channels_of_a_pixel_share_their_multiplier() -> None:
    multiplier = np.random.RandomState(1).uniform(0.7, 1.3, (131, 150, 1)).astype(np.float32)
    noisy = corruptions.apply(IMAGE, "MultiplicativeNoise", {"multiplier": multiplier})
    assert np.array_equal(noisy, np.minimum(IMAGE * multiplier.astype(np.float64), 255).astype(np.uint8))
    assert noisy.max() == 255


def test_gauss_is_normal_with_a_uniform_variance() -> None:
    row = candidates.get("GaussNoise")
    drawn = [row.draw(FastDraws(seed), IMAGE, None)["gauss"] for seed in range(200)]
    variances = [gauss.var(dtype=np.float64) for gauss in drawn]
    assert stats.kstest(variances, "uniform", (500, 500)).pvalue > MIN_P
    assert stats.kstest(drawn[0].ravel() / drawn[0].std(), "norm").pvalue > MIN_P


def test_multipliers_are_uniform() -> None:
    multiplier = candidates.get("MultiplicativeNoise").draw(FastDraws(0), IMAGE, None)["multiplier"]
    assert multiplier.shape == (131, 150, 1)
    assert stats.kstest(multiplier.ravel(), "uniform", (0.7, 0.6)).pvalue > MIN_P
