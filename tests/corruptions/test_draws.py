"""The fast generator: known answers, its distributions, and independence of its calls."""

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

import corruptions
from corruptions.catalogue import PROFILE_SIDES, SEVERITIES
from corruptions.draws import DrawSource, FastDraws, PublishedDraws
from corruptions.kernels.random import philox as random

ALL_ONES = 0xFFFFFFFF
MIN_P = 1e-4
"""Smallest accepted p-value. Seeds are fixed, so a correct generator always passes. A biased one is far below."""

MAX_SIGMAS = 5


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ALL_ONES,) * 4, (ALL_ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_equals_the_published_answers(
    counter: tuple[int, ...], key: tuple[int, ...], words: tuple[int, ...]
) -> None:
    stream = (*key, *counter[1:])
    assert tuple(random.block_words(counter[0], stream)) == words


def test_seeds_and_calls_are_independent() -> None:
    seeds = (0, 1, 2**32, 2**64, 2**96, 2**128 - 1)
    drawn = [source.normal(0.0, 1.0, (4096,)) for source in map(FastDraws, seeds) for _ in range(3)]
    correlations = np.corrcoef(drawn) - np.eye(len(drawn))
    assert np.abs(correlations).max() < 6 / np.sqrt(4096)


def test_a_longer_call_begins_like_a_shorter_one() -> None:
    for count in (1, 3, 1023, 1024, 1025):
        assert np.array_equal(FastDraws(9).normal(0, 1, (count,)), FastDraws(9).normal(0, 1, (5000,))[:count])
        assert np.array_equal(FastDraws(9).integers(0, 7, (count,)), FastDraws(9).integers(0, 7, (5000,))[:count])


@pytest.mark.parametrize("source", [lambda: FastDraws(9), lambda: PublishedDraws(np.random.RandomState(9))])
@pytest.mark.parametrize(("top", "end"), [(0, 40), (3, 4), (7, 33), (39, 40)])
def test_a_part_equals_that_part_of_the_full_array(source: Callable[[], DrawSource], top: int, end: int) -> None:
    shape, part = (40, 210), (slice(top, end), slice(5, 90))
    assert np.array_equal(source().normal(0.1, 0.3, shape, part), source().normal(0.1, 0.3, shape)[part])


def test_normal_moments_and_distribution(fewer: int) -> None:
    values = FastDraws(11).normal(0.0, 1.0, (4_000_000 // fewer,)).astype(np.float64)
    error = 5 / np.sqrt(values.size)
    assert abs(values.mean()) < error
    assert abs(values.var() - 1) < error * np.sqrt(2)
    assert abs(stats.skew(values)) < error * np.sqrt(6)
    assert abs(stats.kurtosis(values)) < error * np.sqrt(24)
    assert stats.kstest(values, "norm").pvalue > MIN_P
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < error
    assert abs(np.corrcoef(values[:-512], values[512:])[0, 1]) < error  # both numbers of a Box-Muller pair


def test_normal_tails(fewer: int) -> None:
    values = FastDraws(12).normal(0.0, 1.0, (20_000_000 // fewer,))
    for sigmas in (3.0, 3.5, 4.0, 4.5, 5.0):
        for tail in (values > sigmas, values < -sigmas):
            expected = stats.norm.sf(sigmas) * values.size
            assert stats.poisson.cdf(tail.sum(), expected) > MIN_P
            assert stats.poisson.sf(tail.sum() - 1, expected) > MIN_P


def test_normal_mean_and_deviation() -> None:
    values = FastDraws(13).normal(0.55, 0.3, (1_000_000,))
    assert stats.kstest(values, "norm", (0.55, 0.3)).pvalue > MIN_P


@pytest.mark.parametrize("name", ["gaussian_noise", "speckle_noise"])
@pytest.mark.parametrize("severity", SEVERITIES)
def test_noise_draws_have_the_published_distribution(name: str, severity: int) -> None:
    row = corruptions.get(name)
    image = np.zeros((224, 224, 3), np.uint8)
    parameters = row.parameters("imagenet", severity)
    fast = row.draw(FastDraws(severity), image, parameters).ravel()
    published = row.draw(PublishedDraws(np.random.RandomState(severity)), image, parameters).ravel()
    assert stats.ks_2samp(fast, published).pvalue > MIN_P
    assert fast.std() == pytest.approx(parameters.sigma, rel=0.01)


def test_uniform_distribution_and_range(fewer: int) -> None:
    values = FastDraws(14).uniform(-1.0, 1.0, (4_000_000 // fewer,))
    assert values.min() >= -1.0
    assert values.max() <= 1.0
    assert stats.kstest(values, "uniform", (-1.0, 2.0)).pvalue > MIN_P
    angles = [FastDraws(seed).angle(-45.0, 45.0) for seed in range(4000)]
    assert stats.kstest(angles, "uniform", (-45.0, 90.0)).pvalue > MIN_P


@pytest.mark.parametrize(("low", "high"), [(-1, 1), (-3, 3), (-5, 5), (0, 5), (0, 7), (0, 1), (3, 2003)])
def test_integers_are_uniform(low: int, high: int, fewer: int) -> None:
    values = FastDraws(15).integers(low, high, (2_000_000 // fewer,))
    assert values.min() >= low
    assert values.max() < high
    if high - low > 1:
        assert stats.chisquare(np.bincount(values - low, minlength=high - low)).pvalue > MIN_P


@pytest.mark.parametrize("source", [FastDraws, lambda seed: PublishedDraws(np.random.RandomState(seed))])
def test_permutations_are_uniform(source: Callable[[int], DrawSource], fewer: int) -> None:
    orders = [tuple(source(seed).permutation(4).tolist()) for seed in range(4800 // fewer)]
    counts = {order: orders.count(order) for order in set(orders)}
    assert sorted(counts) == sorted(permutations(range(4)))
    assert stats.chisquare(list(counts.values())).pvalue > MIN_P
    assert sorted(source(0).permutation(100)) == list(range(100))


def test_a_published_child_is_seeded_by_one_word_of_its_parent() -> None:
    source, rng = PublishedDraws(np.random.RandomState(9)), np.random.RandomState(9)
    child = source.child()
    expected = np.random.RandomState(int(rng.randint(0, 2**32, dtype=np.int64)))
    assert np.array_equal(source.uniform(0, 1, (5,)), rng.uniform(0, 1, 5))
    assert np.array_equal(child.normal(0, 1, (5,)), expected.normal(0, 1, 5))


def test_a_fast_child_draws_other_numbers_than_its_parent() -> None:
    source = FastDraws(9)
    first = source.uniform(0, 1, (1000,))
    inner = source.child().uniform(0, 1, (1000,))
    last = source.uniform(0, 1, (1000,))
    assert np.abs(np.corrcoef([first, inner, last]) - np.eye(3)).max() < 6 / np.sqrt(1000)


@pytest.mark.parametrize("mean", [0.0, 0.3, 7.5, 80.0, 900.0])
def test_counts_have_the_distribution_of_poisson(mean: float) -> None:
    values = FastDraws(16).counts(mean, (1000, 200))
    assert values.shape == (1000, 200)
    low, high = (int(stats.poisson.ppf(p, mean)) for p in (0.001, 0.999))
    levels = np.arange(low, high)
    expected = np.diff([0.0, *stats.poisson.cdf(levels, mean), 1.0]) * values.size
    found = np.bincount(np.clip(values.ravel().astype(int), low, high) - low, minlength=high - low + 1)
    assert found.sum() == values.size
    if mean:
        assert stats.chisquare(found, expected).pvalue > MIN_P
    else:
        assert not values.any()


@pytest.mark.parametrize("span", [2, 6, 10, 16])
def test_small_integers_of_one_word_are_independent(span: int, fewer: int) -> None:
    words = random.CHUNK
    values = FastDraws(18).integers(0, span, (200 // fewer * 4 * words,)).reshape(-1, 4, words)
    assert values.dtype == np.int8
    for first in range(4):
        for second in range(first):
            pairs = np.bincount((values[:, first].astype(int) * span + values[:, second]).ravel(), minlength=span**2)
            assert stats.chisquare(pairs).pvalue > MIN_P
    correlation = np.corrcoef(values.reshape(-1)[1:], values.reshape(-1)[:-1])[0, 1]
    assert abs(correlation) < MAX_SIGMAS / np.sqrt(values.size)


def test_integers_are_uniform_when_many_words_are_redrawn() -> None:
    span = 3 * 2**29  # a quarter of all words is redrawn
    values = FastDraws(16).integers(0, span, (400_000,))
    assert stats.kstest(values / span, "uniform").pvalue > MIN_P
    assert stats.chisquare(np.bincount(values % 3)).pvalue > MIN_P
    assert np.unique(values).size > 0.999 * values.size


def photon_means() -> list[float]:
    table = corruptions.get("shot_noise").levels
    return sorted({row.lam for profile in PROFILE_SIDES for row in table[profile]})


@pytest.mark.slow
@pytest.mark.parametrize("lam", photon_means())
def test_poisson_distribution_of_every_intensity(lam: float, fewer: int) -> None:
    count = 40_000 // fewer
    levels = np.repeat(np.arange(256, dtype=np.uint8), count)
    drawn = FastDraws(int(lam)).poisson(levels, lam).reshape(256, count)
    means = np.arange(256) / 255 * lam
    assert (drawn[0] == 0).all()
    deviations = (drawn.mean(axis=1) - means)[1:] / np.sqrt(means[1:] / count)
    assert np.abs(deviations).max() < MAX_SIGMAS
    assert stats.kstest(deviations, "norm").pvalue > MIN_P
    for level in range(1, 256):
        assert frequency_p(drawn[level], means[level]) > MIN_P / 10, level


def frequency_p(counts: np.ndarray, mean: float) -> float:
    """Return the chi-squared p-value of Poisson counts. Rare counts are pooled at both ends."""
    low, high = stats.poisson.ppf((0.001, 0.999), mean)
    edges = np.arange(low, high)
    expected = np.diff(np.concatenate([[0], stats.poisson.cdf(edges, mean), [1]])) * counts.size
    observed = np.bincount(np.searchsorted(edges, counts), minlength=edges.size + 1)
    return float(stats.chisquare(observed, expected).pvalue) if edges.size else 1.0


@pytest.mark.parametrize("severity", SEVERITIES)
def test_poisson_draws_have_the_published_distribution(severity: int) -> None:
    lam = corruptions.get("shot_noise").parameters("imagenet", severity).lam
    image = np.repeat(np.arange(256, dtype=np.uint8), 1000)
    fast = FastDraws(severity).poisson(image, lam)
    published = PublishedDraws(np.random.RandomState(severity)).poisson(image, lam)
    assert stats.ks_2samp(fast, published).pvalue > MIN_P


@pytest.mark.parametrize("severity", SEVERITIES)
def test_impulses_affect_the_given_fraction_and_half_are_salt(severity: int) -> None:
    amount = corruptions.get("impulse_noise").parameters("imagenet", severity).amount
    for source in (FastDraws(severity), PublishedDraws(np.random.RandomState(severity))):
        codes = source.salt_and_pepper(amount, (1000, 1000, 3))
        observed = np.bincount(codes.ravel(), minlength=3)
        expected = np.array([1 - amount, amount / 2, amount / 2]) * codes.size
        assert stats.chisquare(observed, expected).pvalue > MIN_P
