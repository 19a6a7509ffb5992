"""Reading by several threads: the order of the results, and the end after an error."""

import time

import pytest

from pipeline.sources.threads import BATCH_ITEMS, read_in_threads


def test_results_have_the_order_of_the_items() -> None:
    count = 5 * BATCH_ITEMS + 3
    assert list(read_in_threads(range(count), lambda: 10, lambda reader, item: reader * item, 3)) == [
        10 * item for item in range(count)
    ]


def test_what_was_not_started_is_not_read_after_an_error() -> None:
    started = list[int]()

    def read(_: None, item: int) -> int:
        started.append(item)
        if item == 0:
            raise OSError("damaged")
        time.sleep(0.001)
        return item

    with pytest.raises(OSError, match="damaged"):
        list(read_in_threads(range(100 * BATCH_ITEMS), lambda: None, read, 1))
    assert len(started) <= 2 * BATCH_ITEMS
