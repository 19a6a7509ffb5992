"""Reading of the images of a source by several threads."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from pipeline.storage import map_ahead

Reader = TypeVar("Reader")
Item = TypeVar("Item")
Result = TypeVar("Result")

BATCH_ITEMS = 64
"""Number of consecutive items that a thread reads at a time, because some sources read neighbours together."""


def read_in_threads(
    items: Iterable[Item], open_reader: Callable[[], Reader], read: Callable[[Reader, Item], Result], threads: int
) -> Iterator[Result]:
    """Yield the result of ``read`` for each item, in order, with a bounded number of results in memory.

    Args:
        items: What to read.
        open_reader: Returns a reader; called once in each thread, because sources keep files open.
        read: Function of a reader and an item.
        threads: Number of threads.
    """
    own, remaining = threading.local(), iter(items)

    def read_batch(batch: Sequence[Item]) -> list[Result]:
        if not hasattr(own, "reader"):
            own.reader = open_reader()
        return [read(own.reader, item) for item in batch]

    batches = iter(lambda: list(islice(remaining, BATCH_ITEMS)), [])
    for results in map_ahead(read_batch, batches, threads):
        yield from results
