"""Images behind URLs are read by threads before they are needed, each once; their values are those of local files."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import robustshards as rs
from corruptions import ccc
from manifests import Row
from pipeline.datasets.with_clean import with_clean
from pipeline.storage.retry import with_retries
from robustshards.torch import CCC, Images, Stream

CONDITIONS = [("contrast", 1), ("gaussian_noise", 3)]


class Reads:
    """The reads of image files: ``.jpg``, ``.png`` and ``.tar``."""

    def __init__(self) -> None:
        self.ranges: list[tuple[str, int]] = []
        self.threads: set[int] = set()

    def check(self, count: int) -> None:
        """Assert that so many images were read, none twice and none by this thread."""
        assert len(self.ranges) == len(set(self.ranges)) == count
        assert threading.get_ident() not in self.threads
        self.ranges.clear()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    recorded, retry = Reads(), with_retries

    def recording(what: str, call: Callable[..., object], *arguments: object) -> object:
        if isinstance(call, partial) and str(call.args[0]).endswith((".jpg", ".png", ".tar")):
            recorded.ranges.append((call.args[0], call.keywords.get("start", 0)))
            recorded.threads.add(threading.get_ident())
        return retry(what, call, *arguments)

    monkeypatch.setattr("pipeline.storage.urls.with_retries", recording)
    return recorded


def url(folder: Path) -> str:
    return f"file://{folder}"


def values(items: Iterator[tuple]) -> list[tuple]:  # type: ignore[type-arg]
    return [(np.asarray(image).tolist(), np.asarray(label).tolist()) for image, label in items]


STREAMS: dict[str, Callable[[object], Iterator[tuple]]] = {  # type: ignore[type-arg]
    "batches": lambda data: iter(Stream(data, CONDITIONS, batch_size=4)),
    "single": lambda data: iter(Stream(data, CONDITIONS)),
    "transformed": lambda data: iter(Stream(data, CONDITIONS, input_transform=np.array, batch_size=4)),
    "images": lambda data: iter(Images(data).__getitems__([2, 20, 3])),
}


@pytest.mark.parametrize(("form", "count"), [("batches", 12), ("single", 12), ("transformed", 12), ("images", 3)])
def test_samples_of_shards(built_once: Path, reads: Reads, form: str, count: int) -> None:
    expected = values(STREAMS[form](built_once))
    found = values(STREAMS[form](url(built_once)))
    assert found == expected
    reads.check(count)


def test_large_samples_are_read_one_by_one(built_once: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.datasets.stored.LARGEST_AHEAD", 1000)
    assert len(list(STREAMS["batches"](url(built_once)))) == 4
    assert reads.threads == {threading.get_ident()}


@pytest.mark.parametrize("form", ["batches", "single", "transformed"])
def test_photographs_of_rendered_data_sets(
    rendered: rs.DataSet, small_source: Path, tmp_path: Path, reads: Reads, form: str
) -> None:
    folder = rendered.store.root
    expected = values(STREAMS[form](rs.open(folder, data=small_source, cache="off")))
    cached = rs.open(folder, data=url(small_source), cache=tmp_path)
    assert values(STREAMS[form](cached)) == expected
    reads.check(6)
    assert values(STREAMS[form](replace(cached))) == expected
    reads.check(6)  # a process compares each photograph once


def test_few_rows_are_in_memory(rendered: rs.DataSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.datasets.base.SAMPLES_TOGETHER", 5)
    rows, taken = [*rendered.rows()], list[Row]()
    samples = rendered.intact_samples(taken.append(row) or row for row in rows)  # type: ignore[func-returns-value]
    assert next(samples).row == rows[0]
    assert taken == rows[:5]
    assert [sample.row for sample in samples] == rows[1:]


def test_clean_images_beside_corrupted_ones(built_once: Path, small_source: Path, tmp_path: Path, reads: Reads) -> None:
    rs.build("imagenet-c-clean", small_source, tmp_path, executor="local", workers=1)
    both = with_clean(rs.open(url(built_once)), rs.open(url(tmp_path)))
    rows = [*both.rows({"level": [0, 3]})]
    rows = [*rows[10:], *rows[:10]]
    assert [sample.row for sample in both.picked(rows)] == rows
    assert len(rows) == 18
    reads.check(18)


@pytest.mark.parametrize("batch_size", [None, 4])
def test_photographs_of_continuously_changing_corruptions(
    small_source: Path, reads: Reads, batch_size: int | None
) -> None:
    matrix = dict.fromkeys(ccc.pair_keys(ccc.HARD).values(), np.add.outer(np.arange(21), np.arange(21))[::-1] * 2.0)
    local, remote = (
        CCC(source, matrix, baseline=0, speed=6, seed=44, images=6, batch_size=batch_size)
        for source in (small_source, url(small_source))
    )
    assert values(iter(remote)) == values(iter(local))
    reads.check(6)


def test_a_changed_sample_is_an_error_in_its_place(built: Path) -> None:
    data = rs.open(url(built))
    rows = [*data.rows({"transform": ["contrast"], "level": [1]})]
    with (built / rows[2].shard).open("r+b") as file:
        file.seek(rows[2].offset or 0)
        file.write(b"changed")
    samples = data.picked(rows)
    assert [next(samples).row, next(samples).row] == rows[:2]
    with pytest.raises(rs.UserError, match=f"{rows[2].key} in .* was changed"):
        next(samples)
