"""Orders of steps, and shares of ranks and loader processes."""

from itertools import product

import numpy as np
import pytest

from pipeline.loaders.order import Share, visiting_order


@pytest.mark.parametrize(
    ("seed", "number", "order"),
    [(0, 0, [2, 7, 1, 3, 0, 4, 5, 6]), (0, 1, [2, 7, 1, 4, 0, 5, 6, 3]), (2**64 - 1, 3, [7, 4, 0, 1, 2, 6, 3, 5])],
)
def test_random_orders_stay_the_same(seed: int, number: int, order: list[int]) -> None:
    assert visiting_order([5, 3], seed, number).tolist() == order


def test_conditions_take_turns_without_a_seed() -> None:
    assert visiting_order([3, 1, 2], None, 0).tolist() == [0, 3, 4, 1, 5, 2]


def test_every_sample_is_visited_once() -> None:
    order = visiting_order([400, 600], 5, 1)
    assert np.array_equal(np.sort(order), np.arange(1000))
    assert 350 < np.flatnonzero(order < 400).mean() < 650  # mixed


@pytest.mark.parametrize(("ranks", "loaders", "origin"), list(product((1, 2, 3), (1, 2, 4), (0, 1, 5))))
def test_shares_contain_every_unit_once(ranks: int, loaders: int, origin: int) -> None:
    first, stop = 3, 31
    for rank in range(ranks):
        shares = [Share(rank, ranks, loader, loaders, origin).units(first, stop, origin) for loader in range(loaders)]
        expected = list(range(rank, stop, ranks))[origin:]
        assert sorted(unit for share in shares for unit in share) == [unit for unit in expected if unit >= first]
        for loader, share in enumerate(shares):
            assert all((unit // ranks - origin) % loaders == loader for unit in share)
    assert sum(Share(rank, ranks).length(stop) for rank in range(ranks)) == stop
