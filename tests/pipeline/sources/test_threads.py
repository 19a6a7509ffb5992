"""Reading by several threads: the order of the results, and the end after an error."""

import threading
import time
from pathlib import Path

import pytest

from pipeline.sources.base import Source, SourceImage, readers_of
from pipeline.sources.kinds import open_source
from pipeline.sources.threads import BATCH_ITEMS, ReadAhead, read_in_threads
from pipeline.storage import LARGEST_AHEAD, READERS
from tests.factories import layouts


def test_what_was_not_started_is_not_read_after_an_error() -> None:
    started = list[int]()

    def read(_: Source, item: int) -> int:
        started.append(item)
        if item == 0:
            raise OSError("damaged")
        time.sleep(0.001)
        return item

    with pytest.raises(OSError, match="damaged"):
        list(read_in_threads(range(100 * BATCH_ITEMS), lambda: source_of(Recording(1)), read, 1))
    assert len(started) <= 2 * BATCH_ITEMS


class Recording:
    """A source whose reads are recorded. Each needs a while; those of "damaged" images fail."""

    location = "s3://bucket/images"

    def __init__(self, readers: int) -> None:
        self.readers, self.begun, self.threads = readers, list[str](), set[int]()

    def read(self, image: SourceImage) -> bytes:
        self.begun.append(image.id)
        self.threads.add(threading.get_ident())
        time.sleep(0.01)
        if "damaged" in image.id:
            raise OSError(image.id)
        return image.id.encode()


def images(count: int, size: int = 1) -> list[SourceImage]:
    return [SourceImage(f"i{number:02}", 0, "", "", size) for number in range(count)]


def source_of(recording: Recording) -> Source:
    return recording  # type: ignore[return-value]  # it only reads


def ahead_of(recording: Recording) -> ReadAhead:
    return ReadAhead(source_of(recording))


@pytest.mark.parametrize("readers", [1, 4])
def test_results_have_the_order_of_the_items_and_threads_share_sources_that_allow_it(readers: int) -> None:
    opened, barrier = list[Source](), threading.Barrier(3)

    def opening() -> Source:
        opened.append(source_of(Recording(readers)))
        return opened[-1]

    def read(source: Source, item: int) -> tuple[Source, int]:
        if item % BATCH_ITEMS == 0 and item < 3 * BATCH_ITEMS:
            barrier.wait(10)  # each thread reads
        return source, 10 * item

    count = 5 * BATCH_ITEMS + 3
    sources, results = zip(*read_in_threads(range(count), opening, read, 3), strict=True)
    assert results == tuple(10 * item for item in range(count))
    assert len({*map(id, sources)}) == (3 if readers == 1 else 1)
    assert (len(opened) == 1) == (readers > 1)


@pytest.mark.parametrize("readers", [1, 4])
def test_images_are_read_once_each_in_order_before_they_are_needed(readers: int) -> None:
    recording, expected = Recording(readers), images(30)
    ahead, seen = ahead_of(recording), []
    with ahead.expecting(expected):
        for number, image in enumerate(expected):
            seen.append(ahead.read(image))
            assert len(recording.begun) <= number + 1 + 2 * readers, "memory is limited"
    assert seen == [image.id.encode() for image in expected]
    assert sorted(recording.begun) == [image.id for image in expected]
    assert threading.get_ident() not in recording.threads
    assert 1 <= len(recording.threads) <= readers


def test_an_error_is_raised_for_its_image_only() -> None:
    recording, expected = Recording(2), images(6)
    expected[2] = SourceImage("damaged", 0, "", "", 1)
    ahead, seen = ahead_of(recording), []
    with ahead.expecting(expected):
        for image in expected:
            try:
                seen.append(bytes(ahead.read(image)).decode())
            except OSError as error:
                seen.append(f"error: {error}")
    assert seen == ["i00", "i01", "error: damaged", "i03", "i04", "i05"]


def test_large_and_unexpected_images_are_read_when_they_are_needed() -> None:
    recording, (first, second, other) = Recording(1), images(3)
    large = SourceImage("large", 0, "", "", LARGEST_AHEAD + 1)
    ahead = ahead_of(recording)
    with ahead.expecting([large, first, second]):
        assert "large" not in recording.begun
        assert [ahead.read(each) for each in (other, large, first)] == [b"i02", b"large", b"i00"]
    recording.begun.clear()
    assert ahead.read(second) == b"i01"
    assert recording.begun == ["i01"], "after the block, it is read anew"


def test_sources_that_keep_a_file_open_are_read_by_one_thread(tmp_path: Path) -> None:
    for kind, write in (("imagefolder", layouts.imagefolder), ("ilsvrc2012-val", layouts.ilsvrc_val)):
        assert readers_of(open_source(kind, str(write(tmp_path / kind)))) == READERS
    assert readers_of(open_source("webdataset", str(layouts.webdataset(tmp_path / "tars")))) == READERS
    assert readers_of(open_source("hf-parquet", str(layouts.hf_parquet(tmp_path / "parquet")))) == 1
