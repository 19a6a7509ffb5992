"""Medians of repeated calls, taken in turns so that a noisy moment of the machine hits all alike."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from time import perf_counter

ROUNDS = 3
LEAST_CALLS = 4


def medians(calls: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Name -> median milliseconds. In each round every call has its turn of ``seconds``, and four calls at least.

    The first call of a turn is not counted: it compiles, and fills the caches that another's turn has emptied.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            times[name] += _turn(call, seconds)
    return {name: statistics.median(spent) for name, spent in times.items()}


def _turn(call: Callable[[], object], seconds: float) -> list[float]:
    call()
    spent: list[float] = []
    end = perf_counter() + seconds
    while perf_counter() < end or len(spent) < LEAST_CALLS:
        start = perf_counter()
        call()
        spent.append((perf_counter() - start) * 1e3)
    return spent
