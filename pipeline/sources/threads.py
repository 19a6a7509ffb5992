"""Reading of the images of a source by threads."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

from pipeline.sources.base import Pixels, Source, SourceImage, readers_of
from pipeline.storage import LARGEST_AHEAD, is_url, map_ahead, thread_pool

Item = TypeVar("Item")
Result = TypeVar("Result")

BATCH_ITEMS = 64
"""Number of consecutive items that a thread reads at a time, because some sources read neighbours together."""


class ReadAhead:
    """A source. If it is in an object store, threads read the next images while others are processed."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._readers = readers_of(source) if is_url(source.location) else 0
        self._threads: Executor | None = None
        self._expected: Iterator[SourceImage] = iter(())
        self._begun: dict[str, Future[bytes | Pixels]] = {}

    @contextmanager
    def expecting(self, images: Iterable[SourceImage]) -> Iterator[None]:
        """Read these images in advance, in this order, until the block ends; large ones only when they are needed."""
        if not self._readers:
            yield
            return
        with thread_pool(self._readers) as threads:
            self._threads, self._expected = threads, (image for image in images if image.size <= LARGEST_AHEAD)
            self._begin(threads)
            try:
                yield
            finally:
                self._begun.clear()
                self._threads = None

    def read(self, image: SourceImage) -> bytes | Pixels:
        """Return what the source reads. Raises as that does."""
        if (threads := self._threads) is None:
            return self._source.read(image)
        begun = self._begun.pop(image.id, None) or threads.submit(self._source.read, image)
        self._begin(threads)
        return begun.result()

    def _begin(self, threads: Executor) -> None:
        for image in islice(self._expected, max(2 * self._readers - len(self._begun), 0)):
            if image.id not in self._begun:
                self._begun[image.id] = threads.submit(self._source.read, image)


def read_in_threads(
    items: Iterable[Item], opened: Callable[[], Source], read: Callable[[Source, Item], Result], threads: int
) -> Iterator[Result]:
    """Yield the result of ``read`` for each item, in order, with a bounded number of results in memory.

    Args:
        items: What to read.
        opened: Opens the source; each thread opens its own one, unless several threads may read one.
        read: Function of a source and an item.
        threads: Number of threads.
    """
    own, remaining, first = threading.local(), iter(items), opened()
    shared = readers_of(first) > 1

    def read_batch(batch: Sequence[Item]) -> list[Result]:
        if not hasattr(own, "source"):
            own.source = first if shared else opened()
        return [read(own.source, item) for item in batch]

    batches = iter(lambda: list(islice(remaining, BATCH_ITEMS)), [])
    for results in map_ahead(read_batch, batches, threads):
        yield from results
