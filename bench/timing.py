"""Medians of repeated calls. The calls take turns, so that load on the machine affects all of them."""

import statistics
from collections.abc import Callable, Mapping
from itertools import count
from time import perf_counter
from typing import TypeVar

ROUNDS = 3
LEAST_CALLS = 4

Call = Callable[[], object]
Name = TypeVar("Name")


def with_seeds(corrupt: Callable[..., object], *arguments: object, **options: object) -> Call:
    """Return a call of a function with the same arguments, but with a new seed each time, as in a build."""
    seeds = count()
    return lambda: corrupt(*arguments, seed=next(seeds), **options)


def medians(calls: Mapping[Name, Call], seconds: float) -> dict[Name, float]:
    """Return the median milliseconds of each call.

    In each round, each call is repeated for ``seconds``, and at least LEAST_CALLS times. The first call of a turn does
    not count, because it may compile and because the caches hold data of the previous turn.
    """
    times: dict[Name, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            times[name] += _turn(call, seconds)
    return {name: statistics.median(spent) for name, spent in times.items()}


def _turn(call: Call, seconds: float) -> list[float]:
    call()
    spent: list[float] = []
    end = perf_counter() + seconds
    while perf_counter() < end or len(spent) < LEAST_CALLS:
        start = perf_counter()
        call()
        spent.append((perf_counter() - start) * 1e3)
    return spent
