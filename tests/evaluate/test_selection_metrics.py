"""Overlaps, categories, balanced benchmarks, spread, substitution, predictiveness: reference values and properties."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pipeline.evaluate import selection
from tests.factories.selections import BLOCK_OF, BLOCKS, trained

CATEGORIES = tuple(tuple(range(start, start + 7)) for start in range(0, 42, 7))
"""Six categories of seven corruptions."""

PUBLISHED_SPREADS = {0.6, 0.8, 1.0, 1.2, 1.4, 1.5, 1.8, 2.2}


@pytest.fixture(scope="module")
def golden(shared: Path) -> dict[str, Any]:
    with np.load(shared / "golden" / "syn2nat.npz") as archive:
        return json.loads(bytes(archive["analysis"]))


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# Reference values


def test_overlaps_equal_the_reference(golden: dict[str, Any]) -> None:
    for name, normalised in (("overlap", True), ("overlap_unnormalised", False)):
        found = selection.overlap_scores(golden["accuracies"], normalised=normalised)
        np.testing.assert_allclose(found, golden[name], rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_categories_equal_the_reference(golden: dict[str, Any], seed: int) -> None:
    expected = tuple(map(tuple, golden["categories"]))
    assert selection.categories(golden["overlap"], seed=seed) == expected
    means = selection.category_correlations(golden["overlap"], expected)
    assert means == pytest.approx((golden["same"], golden["different"]), rel=0, abs=1e-12)


def test_predictiveness_equals_the_reference(golden: dict[str, Any]) -> None:
    found = selection.predictiveness(golden["clean"], golden["natural"], golden["candidates"], golden["benchmarks"])
    assert found[0] == pytest.approx(golden["mean_r"], rel=0, abs=1e-12)
    assert found[1] == pytest.approx(golden["mean_p"], rel=1e-9)


def test_spreads_equal_the_reference(golden: dict[str, Any]) -> None:
    found = [selection.spread(each, golden["categories"]) for each in golden["spread_benchmarks"]]
    assert found == pytest.approx(golden["spreads"], rel=0, abs=1e-12)


# Overlaps


@st.composite
def tables(draw: Any) -> np.ndarray:
    """Return accuracies (C + 1, C + 1) of models that are better under their own corruption than the clean one."""
    count = draw(st.integers(1, 6))
    table = draw(arrays(np.float64, (count + 1, count + 1), elements=st.floats(0, 0.5)))
    table[:, 0] = draw(arrays(np.float64, count + 1, elements=st.floats(0.8, 0.9)))
    table[range(1, count + 1), range(1, count + 1)] = 0.8
    return table


@given(tables(), st.booleans())
def test_overlaps_are_symmetric_with_1_on_the_diagonal_and_never_negative(table: np.ndarray, normalised: bool) -> None:
    overlaps = selection.overlap_scores(table, normalised=normalised)
    np.testing.assert_array_equal(overlaps, overlaps.T)
    assert (np.diagonal(overlaps) == 1).all()
    assert (overlaps >= 0).all()


# Categories


@pytest.mark.parametrize("seed", range(5))
def test_blocks_become_categories(seed: int) -> None:
    overlaps = selection.overlap_scores(trained(seed))
    found = selection.categories(overlaps, threshold=0.8, seed=seed)
    assert found == tuple(tuple(np.flatnonzero(block == BLOCK_OF)) for block in range(len(BLOCKS)))
    same, different = selection.category_correlations(overlaps, found)
    assert same > 0.9
    assert different < 0
    assert len(selection.categories(overlaps, threshold=-1, seed=seed)) == 2  # as few as exceed the threshold


def test_equal_corruptions_are_one_category() -> None:
    assert selection.categories(np.kron(np.eye(2), np.ones((3, 3)))) == ((0, 1, 2), (3, 4, 5))


def test_corruptions_without_structure_have_many_categories() -> None:
    places = np.random.default_rng(0).normal(size=(30, 3))
    counts: list[int] = []
    found = selection.categories(np.exp(-np.square(places[:, None] - places).sum(axis=2) / 2), 0.9, 0, counts.append)
    assert counts == list(range(10, 18))
    assert [len(members) for members in found] == [2, 2, 4, 1, 2, 1, 1, 3, 3, 3, 1, 2, 1, 1, 1, 1, 1]


def test_category_correlations_without_pairs_are_nan() -> None:
    overlaps = [[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]]
    means = [selection.category_correlations(overlaps, each) for each in ([[0], [1], [2]], [[0, 1, 2]])]
    assert np.isnan(means).tolist() == [[True, False], [False, True]]


# Benchmarks


@given(st.integers(1, 6), st.integers(1, 7), st.integers(0, 99))
def test_balanced_benchmarks_have_k_corruptions_of_n_categories(n: int, k: int, seed: int) -> None:
    benchmark = selection.balanced_benchmark(CATEGORIES, n, k, rng(seed))
    counts = Counter(each // 7 for each in benchmark)
    assert sorted(counts.values()) == [k] * n
    assert list(benchmark) == sorted(set(benchmark))
    assert selection.spread(benchmark, CATEGORIES) == 0
    assert benchmark == selection.balanced_benchmark(CATEGORIES, n, k, rng(seed))


def test_balanced_benchmarks_are_uniform() -> None:
    source = rng()
    counts = Counter(selection.balanced_benchmark([(0, 1, 2), (3, 4, 5), (6,)], 1, 2, source) for _ in range(6000))
    assert len(counts) == 6
    expected = 1000
    assert sum((count - expected) ** 2 / expected for count in counts.values()) < 20.5  # 0.1 % of chi-square, 5 degrees


def test_substitutions_reach_the_published_spreads() -> None:
    source = rng()
    reached = set()
    for _ in range(100):
        benchmark = selection.balanced_benchmark(CATEGORIES, 6, 2, source)
        for _ in range(5):
            benchmark = selection.substituted(benchmark, CATEGORIES, source)
            reached.add(round(selection.spread(benchmark, CATEGORIES), 1))
    assert reached == PUBLISHED_SPREADS


@given(st.sets(st.integers(0, 41), min_size=1, max_size=20), st.integers(0, 9))
def test_substitution_replaces_one_and_raises_the_spread_or_changes_nothing(benchmark: set[int], seed: int) -> None:
    found = selection.substituted(tuple(benchmark), CATEGORIES, rng(seed))
    if found == tuple(sorted(benchmark)):
        counts = Counter(each // 7 for each in benchmark)
        possible = [a for a in counts for b in counts if a != b and counts[b] >= counts[a] >= 2 and counts[b] < 7]
        assert not possible
        return
    assert len(found) == len(benchmark)
    assert len(set(found) - benchmark) == 1
    assert {each // 7 for each in found} == {each // 7 for each in benchmark}
    assert selection.spread(found, CATEGORIES) > selection.spread(tuple(benchmark), CATEGORIES)


def test_mean_overlap_is_over_pairs_of_one_category() -> None:
    overlaps = [[1, 0.6, 0.2, 0.1], [0.6, 1, 0.3, 0.1], [0.2, 0.3, 1, 0.4], [0.1, 0.1, 0.4, 1]]
    categories = [(0, 1), (2, 3)]
    assert selection.mean_overlap((0, 1, 2, 3), overlaps, categories) == pytest.approx(0.5)
    assert selection.mean_overlap((0, 1, 2), overlaps, categories) == pytest.approx(0.6)
    assert np.isnan(selection.mean_overlap((0, 2), overlaps, categories))
    assert selection.spread((0, 1, 2), categories) == 0.5  # of numbers of corruptions, 2 and 1
    assert selection.spread((0, 1), categories) == 0  # over represented categories only


# Predictiveness


CLEAN = np.array([0.80, 0.78, 0.76, 0.79])
NATURAL = CLEAN - [0.5, 0.4, 0.3, 0.1]
CANDIDATES = CLEAN[:, None] - np.array([[0.5, 0.4, 0.3, 0.1], [0.1, 0.3, 0.4, 0.5], [0.2, 0.2, 0.2, 0.2]]).T


def test_predictiveness_of_equal_and_opposite_losses() -> None:
    r, p = selection.predictiveness(CLEAN, NATURAL, CANDIDATES, [(0,)])
    assert (r, p) == pytest.approx((1, 0), abs=1e-7)
    r, p = selection.predictiveness(CLEAN, CLEAN - (1 - CLEAN + NATURAL) / 2, CANDIDATES, [(0,)])
    assert r == pytest.approx(-1)


def test_predictiveness_is_the_mean_over_benchmarks() -> None:
    singles = [selection.predictiveness(CLEAN, NATURAL, CANDIDATES, [each]) for each in ((0,), (1,), (0, 2))]
    together = selection.predictiveness(CLEAN, NATURAL, CANDIDATES, [(0,), (1,), (0, 2)])
    assert together == pytest.approx(tuple(np.mean(singles, axis=0)))


@given(st.integers(3, 30), st.integers(0, 99))
@settings(max_examples=30)
def test_predictiveness_is_within_its_bounds(models: int, seed: int) -> None:
    source = rng(seed)
    r, p = selection.predictiveness(
        source.random(models), source.random(models), source.random((models, 4)), [(0, 1), (2,), (0, 3)]
    )
    assert -1 <= r <= 1
    assert 0 <= p <= 1


# Invalid arguments


TABLE = trained()


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (selection.overlap_scores, (TABLE[:-1],), r"shape \(12, 13\)"),
        (selection.overlap_scores, (TABLE[0],), r"shape \(13,\)"),
        (selection.overlap_scores, (TABLE[:1, :1],), r"shape \(1, 1\)"),
        (selection.overlap_scores, (TABLE * 100,), "not percent"),
        (selection.overlap_scores, (np.where(TABLE[0, 0] == TABLE, np.nan, TABLE),), "nan"),
        (selection.overlap_scores, (np.where(np.arange(13) == 0, 0, TABLE),), "normalised=False"),
        (selection.overlap_scores, (np.vstack([TABLE[:3], TABLE[:1], TABLE[4:]]),), "corruption 2 does not change"),
        *(
            (selection.categories, (overlaps,), "invalid overlaps")
            for overlaps in ([[1, 0]], [1, 0], [[1, np.nan], [np.nan, 1]], [[1]])
        ),
        (selection.categories, (np.eye(5),), r"2\.\.4 of 5 corruptions .* 0\.5: use a lower threshold"),
        (selection.categories, (np.ones((4, 4)),), "all values of corruption 0 are equal"),
        (selection.category_correlations, (np.eye(3), [[0, 1], [1]]), "in several"),
        (selection.category_correlations, (np.eye(3), [[0, 7]]), "unknown corruption 7"),
        *(
            (selection.balanced_benchmark, (CATEGORIES, n, k, rng()), f"{n} categories with {k} corruptions each")
            for n, k in ((0, 1), (1, 0), (7, 1), (1, 8), (-1, 1))
        ),
        *(
            (function, (benchmark, CATEGORIES, *generator), message)
            for function, generator in ((selection.spread, ()), (selection.substituted, (rng(),)))
            for benchmark, message in (((), "at least one"), ((1, 1), "each once"), ((99,), "corruption 99"))
        ),
        *(
            (selection.predictiveness, arguments, message)
            for *arguments, message in (
                (CLEAN[:2], NATURAL[:2], CANDIDATES[:2], [(0,)], "2 models are too few"),
                (CLEAN, NATURAL[:3], CANDIDATES, [(0,)], "do not match"),
                (CLEAN[:3], NATURAL, CANDIDATES, [(0,)], "do not match"),
                (CLEAN, NATURAL, CANDIDATES, [], "no benchmarks"),
                (CLEAN, NATURAL, CANDIDATES, [()], "at least one"),
                (CLEAN, NATURAL, CANDIDATES, [(3,)], "corruption 3"),
                (CLEAN, NATURAL, CANDIDATES, [(-1,)], "corruption -1"),
                (CLEAN, NATURAL, CANDIDATES, [(0, 0)], "each once"),
                (CLEAN, CLEAN - 0.3, CANDIDATES, [(0,)], "same score on natural images"),
                (CLEAN, NATURAL, CANDIDATES, [(0,), (2,)], "same score on a synthetic benchmark"),
                (CLEAN * 100, NATURAL, CANDIDATES, [(0,)], "not percent"),
                (CLEAN, NATURAL * np.nan, CANDIDATES, [(0,)], "nan"),
            )
        ),
    ],
)
def test_invalid_arguments_are_refused(function: Callable[..., Any], arguments: Sequence[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        function(*arguments)
