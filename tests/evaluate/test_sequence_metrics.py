"""Metrics of ImageNet-P, and the ranks that they compare: golden values, plain loops, and values by hand."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.evaluate import metrics
from pipeline.evaluate.metrics import arrays
from pipeline.evaluate.metrics.bootstrap import bootstrap_means
from tests.factories.metrics import GOLDEN_TOLERANCE

GOLDEN_PAIRS = [(kind, difficulty) for kind in ("temporal", "noise") for difficulty in (1, 2, 3)]


@pytest.fixture(scope="module")
def logits(shared: Path) -> np.ndarray:
    with np.load(shared / "golden" / "metrics.npz") as archive:
        return archive["logits"]


def ranks_by_sorting(logits: np.ndarray) -> np.ndarray:
    order = np.argsort(-logits, axis=-1, kind="stable")
    return np.argsort(order, axis=-1) + 1


def top5_by_sorting(logits: np.ndarray) -> np.ndarray:
    return np.argsort(-logits, axis=-1, kind="stable")[..., :5]


def random_logits(seed: int, *shape: int, levels: int = 7) -> np.ndarray:
    """Return random logits with few distinct values, so that many are equal."""
    return np.random.default_rng(seed).integers(-levels, levels, shape).astype(np.float32)


def pairs_by_loop(frames: int, ordered: bool, difficulty: int) -> list[tuple[int, int]]:
    if ordered:
        return [(later - difficulty, later) for later in range(difficulty, frames)]
    return [(0, later) for later in range(1, frames)]


def top5_distance_by_definition(earlier: np.ndarray, later: np.ndarray) -> int:
    """Return the paper's double sum for the ranks of two frames."""
    distance = 0
    for i in range(1, min(5, len(earlier)) + 1):
        sigma = int(later[earlier.tolist().index(i)])
        distance += sum(1 <= j - 1 <= 5 for j in range(min(i, sigma) + 1, max(i, sigma) + 1))
    return distance


def zipf_distance_by_definition(earlier: np.ndarray, later: np.ndarray) -> float:
    return sum(abs(1 / a - 1 / b) / a for a, b in zip(earlier.tolist(), later.tolist(), strict=True))


# ImageNet-P


@pytest.mark.parametrize(("kind", "difficulty"), GOLDEN_PAIRS)
def test_sequence_metrics_equal_the_golden_values(
    golden: dict[str, Any], logits: np.ndarray, kind: str, difficulty: int
) -> None:
    expected = golden["perturbation"][f"{kind}/difficulty{difficulty}"]
    how: Any = {"ordered": kind == "temporal", "difficulty": difficulty}
    ranks = metrics.ordinal_ranks(logits)
    result = {
        "flip_probability": metrics.flip_probability(logits.argmax(axis=-1), **how),
        "top5_distance": metrics.top5_distance(ranks, **how),
        "zipf_distance": metrics.zipf_distance(ranks, **how),
    }
    assert result == pytest.approx(expected, abs=GOLDEN_TOLERANCE, rel=0)
    of_lists = metrics.top5_distances_of_lists_by_sequence(top5_by_sorting(logits), **how)
    assert of_lists.mean() == result["top5_distance"]


sequences = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32),
        "count": st.integers(1, 4),
        "frames": st.integers(2, 7),
        "classes": st.integers(1, 12),
        "ordered": st.booleans(),
        "difficulty": st.integers(1, 6),
    }
)


@given(sequences)
@settings(max_examples=200)
def test_sequence_metrics_equal_plain_loops(case: Mapping[str, Any]) -> None:
    logits = random_logits(case["seed"], case["count"], case["frames"], case["classes"], levels=3)
    ordered, difficulty = case["ordered"], min(case["difficulty"], case["frames"] - 1)
    ranks = metrics.ordinal_ranks(logits)
    np.testing.assert_array_equal(ranks, ranks_by_sorting(logits))
    pairs = pairs_by_loop(case["frames"], ordered, difficulty)
    how: Any = {"ordered": ordered, "difficulty": difficulty}

    flips = [[row[a].argmax() != row[b].argmax() for a, b in pairs] for row in logits]
    distances = [[top5_distance_by_definition(row[a], row[b]) for a, b in pairs] for row in ranks]
    zipf = [[zipf_distance_by_definition(row[a], row[b]) for a, b in pairs] for row in ranks]
    predictions = logits.argmax(axis=-1)
    for result, expected in (
        (metrics.flip_probabilities_by_sequence(predictions, **how), flips),
        (metrics.top5_distances_by_sequence(ranks, **how), distances),
        (metrics.zipf_distances_by_sequence(ranks, **how), zipf),
    ):
        np.testing.assert_allclose(result, np.mean(expected, axis=1), rtol=1e-12, atol=1e-12)
    assert metrics.flip_probability(predictions, **how) == pytest.approx(np.mean(flips), abs=1e-12)
    assert metrics.top5_distance(ranks, **how) == pytest.approx(np.mean(distances), abs=1e-12)
    assert metrics.zipf_distance(ranks, **how) == pytest.approx(np.mean(zipf), abs=1e-12)

    np.testing.assert_array_equal(
        metrics.top5_distances_of_lists_by_sequence(top5_by_sorting(logits).astype(np.int16), **how),
        metrics.top5_distances_by_sequence(ranks, **how),
    )


@pytest.mark.parametrize("ordered", [True, False])
def test_sequence_metrics_ignore_the_order_of_sequences_and_classes(ordered: bool) -> None:
    logits = random_logits(3, 6, 9, 30, levels=1000)
    order = np.random.default_rng(1).permutation(6)
    classes = np.random.default_rng(2).permutation(30)
    assert len(np.unique(logits[0, 0])) == 30  # no ties, which renaming classes would break differently
    ranks = metrics.ordinal_ranks(logits)
    for figure in (metrics.top5_distance, metrics.zipf_distance):
        expected = figure(ranks, ordered=ordered)
        assert figure(ranks[order], ordered=ordered) == pytest.approx(expected, abs=1e-12)
        assert figure(ranks[:, :, classes], ordered=ordered) == pytest.approx(expected, abs=1e-12)
        assert figure(np.repeat(ranks[:, :1], 4, axis=1), ordered=ordered) == 0
    predictions = logits.argmax(axis=-1)
    expected = metrics.flip_probability(predictions, ordered=ordered)
    assert metrics.flip_probability(predictions[order], ordered=ordered) == pytest.approx(expected, abs=1e-12)
    assert metrics.flip_probability(classes[predictions], ordered=ordered) == expected
    shuffled = np.concatenate([ranks[:, :1], ranks[:, :0:-1]], axis=1)
    # Only the first frame of a noise sequence has a fixed position.
    assert metrics.top5_distance(shuffled, ordered=False) == metrics.top5_distance(ranks, ordered=False)


def test_top5_distance_is_not_symmetric() -> None:
    ranks = np.array([[[1, 2, 3, 4, 5, 6, 7], [7, 1, 2, 3, 4, 5, 6]]])
    assert metrics.top5_distance(ranks, ordered=True) != metrics.top5_distance(ranks[:, ::-1], ordered=True)


def test_row_slices_do_not_change_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = random_logits(8, 7, 4, 11)
    ranks = metrics.ordinal_ranks(logits)
    figures: list[Callable[[], object]] = [
        lambda: metrics.ordinal_ranks(logits).tolist(),
        lambda: metrics.top5_distance(ranks, ordered=True),
        lambda: metrics.zipf_distance(ranks, ordered=False),
        lambda: bootstrap_means(ranks[:, 0], resamples=30).tolist(),
    ]
    before = [figure() for figure in figures]
    monkeypatch.setattr(arrays, "SLICE_VALUES", 50)
    assert [figure() for figure in figures] == before


# Ranks


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@given(st.integers(0, 2**32), st.integers(1, 300))
@settings(max_examples=50)
def test_ranks_of_every_dtype_break_ties_by_index(dtype: type, seed: int, classes: int) -> None:
    logits: np.ndarray = random_logits(seed, 3, classes, levels=20).astype(dtype)
    logits[logits == 19] = np.inf
    logits[logits == -20] = -np.inf
    logits[logits == 1] = -0.0
    ranks = metrics.ordinal_ranks(logits)
    assert ranks.dtype == (np.uint8 if classes < 256 else np.uint16)
    np.testing.assert_array_equal(ranks, ranks_by_sorting(logits))


def test_ranks_distinguish_adjacent_floats() -> None:
    assert metrics.ordinal_ranks(np.array([1.0, np.nextafter(1.0, 2)])).tolist() == [2, 1]
    near = np.nextafter(np.float32(-1), np.float32(0))
    assert metrics.ordinal_ranks(np.array([-1, near, 1e-45, 0], np.float32)).tolist() == [4, 3, 1, 2]


def test_ranks_have_the_shape_of_the_logits_and_do_not_modify_them() -> None:
    logits = random_logits(1, 2, 3, 4, 5)
    before = logits.copy()
    assert metrics.ordinal_ranks(logits).shape == (2, 3, 4, 5)
    assert metrics.ordinal_ranks(logits[:0]).shape == (0, 3, 4, 5)
    np.testing.assert_array_equal(logits, before)
