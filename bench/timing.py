"""Medians of repeated calls. The calls take turns, so that load on the machine affects all of them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from time import perf_counter

ROUNDS = 3
LEAST_CALLS = 4


def medians(calls: Mapping[str, Callable[[], object]], seconds: float, least: int = LEAST_CALLS) -> dict[str, float]:
    """Return the median milliseconds of each call.

    In each round, each call is repeated for ``seconds``, and at least ``least`` times. The first call of a turn is not
    counted, because it may compile and because the caches hold data of the previous turn.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            times[name] += _turn(call, seconds, least)
    return {name: statistics.median(spent) for name, spent in times.items()}


def _turn(call: Callable[[], object], seconds: float, least: int) -> list[float]:
    call()
    spent: list[float] = []
    end = perf_counter() + seconds
    while perf_counter() < end or len(spent) < least:
        start = perf_counter()
        call()
        spent.append((perf_counter() - start) * 1e3)
    return spent
