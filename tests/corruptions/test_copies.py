"""The step of numba's compiler that removes copies of variables."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import njit

from corruptions.kernels.copies import Compiler


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function as kernels are, without caching it."""
    return njit(error_model="numpy", pipeline_class=Compiler)(function)


def last(count: int) -> int:
    """``i`` is a copy of the iterator's value, which has none after the loop."""
    for i in range(count):
        found = i
    return found + i


def differences(count: int) -> int:
    """``before`` is a copy of an earlier ``now``."""
    total, before = 0, 1
    for i in range(count):
        now = i * i
        total += (now - before) * i
        before = now
    return total


def swapped(count: int) -> int:
    first, second = 0, 1
    for _ in range(count):
        first, second = second, first + second
    return first


@pytest.mark.parametrize("function", [last, differences, swapped])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_results_stay_the_same(function: Callable[[int], int], count: int) -> None:
    assert compiled(function)(count) == function(count)


@njit(inline="always")
def append(out: Any, end: int, value: float) -> int:
    out[end] = value
    if value > 1:
        end += 1
        out[end] = 0
    return end + 1


@njit(inline="always")
def append_down(values: Any, out: Any, end: int) -> int:
    for value in values:
        rest = value
        while rest > 3:
            end = append(out, end, rest)
            rest -= 1
        end = append(out, end, rest)
    return end


def twice(values: Any, out: Any) -> int:
    end = 0
    for _ in range(2):
        end = append_down(values, out, end)
    return end


def test_references_to_arguments_of_inlined_functions_are_not_counted() -> None:
    values, counts = np.array([1.0, 5.0]), []
    for function in (compiled(twice), njit(error_model="numpy")(twice)):
        out = np.empty(14)
        assert function(values, out) == 14
        assert out.tolist() == [1, 5, 0, 4, 0, 3, 0] * 2
        code, *_ = function.inspect_llvm().values()
        counts.append(code.count("call void @NRT_incref"))
    assert counts[0] == 0 < counts[1]
