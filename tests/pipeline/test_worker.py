"""Samples that are made together: the same bytes as one by one, bounded in memory, and each fails for itself."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

import manifests
from pipeline.build import worker
from pipeline.build.counts import BuildCounts
from pipeline.build.failures import Failure, failure_reason
from pipeline.build.plan import WorkItem, listing_digest, make_blocks, make_plan
from pipeline.build.records import Output, Payload, PreparedImage, SampleResult
from pipeline.build.worker import BuildJob, BuildWorker
from pipeline.errors import SampleError
from pipeline.execution.work import Attempt
from pipeline.recipes import library
from pipeline.render.renderer import Renderer
from pipeline.sources.base import SourceImage
from pipeline.sources.imagefolder import ImageFolder
from pipeline.sources.kinds import open_source
from pipeline.transforms.family import Condition
from tests.conftest import write_small_source
from tests.factories.digests import data_digests

RECIPE = library.load("imagenet-c").changed(
    transforms={"only": ["contrast", "gaussian_noise"], "levels": [1, 3]}, shards={"size": 6}
)
OUTPUT_BYTES = 224 * 224 * 3


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six made images, the second of which is cut short."""
    folder = write_small_source(tmp_path_factory.mktemp("source"))
    damaged = folder / "class0" / "image2.png"
    damaged.write_bytes(damaged.read_bytes()[:500])
    return folder


def make(source: Path, output: Path, change: Callable[[], None] = lambda: None) -> BuildCounts:
    """Build all shards, as one worker does; ``change`` is called when it is ready."""
    (output / "shards").mkdir(parents=True)
    (output / "recipe.toml").touch()
    made = BuildWorker(BuildJob(RECIPE, str(source), str(output)))
    change()
    *_, report = made.run(Attempt(only_block(source)))
    assert isinstance(report, BuildCounts)
    return report


def only_block(source: Path) -> WorkItem:
    """All there is to make."""
    opened = open_source("imagefolder", str(source))
    (block,) = make_blocks(make_plan(RECIPE, opened), opened)
    return block


def rows_of(output: Path, source: Path) -> dict[str, manifests.Row]:
    """All rows, by key."""
    parts = (manifests.read_rows(output / task.part) for task in only_block(source).tasks)
    return {row.key: row for rows in parts for row in rows}


@pytest.mark.parametrize(
    ("images", "room"), [(1, 1), (2, 2**24), (4, 5 * OUTPUT_BYTES), (3, OUTPUT_BYTES), (100, 2**30)]
)
def test_bytes_do_not_depend_on_what_is_made_together(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, images: int, room: int
) -> None:
    expected = make(source, tmp_path / "usual")
    monkeypatch.setattr(worker, "BATCH_IMAGES", images)
    monkeypatch.setattr(worker, "BATCH_BYTES", room)
    report = make(source, tmp_path / "changed")
    assert data_digests(tmp_path / "changed") == data_digests(tmp_path / "usual")
    assert report.samples == expected.samples == {"contrast": 12, "gaussian_noise": 12}
    assert (report.failed, report.shards, report.payload_bytes) == (4, 4, expected.payload_bytes)


@pytest.mark.parametrize(("room", "most"), [(1, 1), (2 * OUTPUT_BYTES, 2), (2 * OUTPUT_BYTES + 1, 3), (2**24, 12)])
def test_no_more_outputs_are_held_than_there_is_room_for(
    small_source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, most: int
) -> None:
    monkeypatch.setattr(worker, "BATCH_IMAGES", 3)
    monkeypatch.setattr(worker, "BATCH_BYTES", room)
    stages: list[str] = []

    def listen() -> None:
        for stage in ("transform", "encode"):
            monkeypatch.setattr(Renderer, stage, said(stage, getattr(Renderer, stage)))

    def said(stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            stages.append(stage)
            return function(*arguments)

        return call

    make(small_source, tmp_path / "data", listen)
    runs = [(stage, len(list(run))) for stage, run in groupby(stages)]
    assert max(length for stage, length in runs if stage == "transform") == most
    assert stages.count("transform") == stages.count("encode") == 24


@pytest.mark.parametrize(
    ("stage", "gives", "error"),
    [
        ("transform", ZeroDivisionError("spoilt"), "ZeroDivisionError: spoilt"),
        ("encode", RuntimeError("spoilt"), "RuntimeError: spoilt"),
        ("encode", {".jpg": b"no JPEG"}, "ValueError: "),
    ],
)
def test_a_sample_that_fails_in_a_stage_fails_alone(
    small_source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
    gives: Exception | dict[str, bytes],
    error: str,
) -> None:
    make(small_source, tmp_path / "sound")
    calls: list[Any] = []

    def spoil() -> None:
        sound = getattr(Renderer, stage)

        def call(*arguments: Any) -> Any:
            calls.append(arguments)
            if len(calls) != 7:
                return sound(*arguments)
            if isinstance(gives, Exception):
                raise gives
            return gives

        monkeypatch.setattr(Renderer, stage, call)

    report = make(small_source, tmp_path / "spoilt", spoil)
    assert (report.failed, report.samples.total()) == (1, 24)
    expected, rows = rows_of(tmp_path / "sound", small_source), rows_of(tmp_path / "spoilt", small_source)
    (failed,) = (key for key, row in rows.items() if row.status == manifests.FAILED)
    assert str(rows[failed].error).startswith(error)
    assert rows[failed].payload_sha256 is None
    where = {"shard_sha256": None, "offset": None}
    for key in rows.keys() - {failed}:
        assert rows[key]._replace(**where) == expected[key]._replace(**where)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (MemoryError(), "MemoryError: no reason was given"),
        (ValueError("in /usr/lib/x/y.so, line 3"), "ValueError: in y.so, line 3"),
        (RecursionError("too deep"), "RecursionError: too deep"),
        (OSError(22, "it is a pipe: regular files are allowed", "/somewhere/pipe"), "OSError: it is a pipe: regular"),
        (SampleError("bad: <x at 0x7f00aa>, /tmp/a/b.png"), "bad: <x>, b.png"),
    ],
)
def test_a_photograph_that_cannot_be_read_fails_alone_and_names_no_machine(
    small_source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    sound = ImageFolder.read

    def read(source: ImageFolder, image: SourceImage) -> Any:
        if image.id == "class0/image2":
            raise error
        return sound(source, image)

    monkeypatch.setattr(ImageFolder, "read", read)
    report = make(small_source, tmp_path / "data")
    assert report.failed == 4
    errors = {row.error for row in rows_of(tmp_path / "data", small_source).values() if row.error}
    (reason,) = errors
    assert reason.startswith(f"class0/image2.png: {told}")


def test_the_places_of_a_build_are_no_part_of_a_reason() -> None:
    error = ValueError("/my photos/all/class 0/a b.png and /my photos/x: 1/2 of s3://bucket/key/name, in /usr/lib/y.so")
    roots = ["/my photos/all", "/my photos"]
    assert failure_reason(error, roots) == "ValueError: class 0/a b.png and x: 1/2 of s3://bucket/key/name, in y.so"


def test_a_reason_names_neither_source_nor_output(
    small_source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(source: ImageFolder, image: SourceImage) -> bytes:
        raise ValueError(f"{small_source}/class 0/a b.png and {tmp_path / 'data'}/x y")

    monkeypatch.setattr(ImageFolder, "read", read)
    make(small_source, tmp_path / "data")
    for row in rows_of(tmp_path / "data", small_source).values():
        assert row.error == f"{row.origin}: ValueError: class 0/a b.png and x y"


def test_a_job_is_small_and_can_be_pickled() -> None:
    job = BuildJob(RECIPE, "/photographs", "s3://bucket/data")
    data = pickle.dumps(job)
    assert pickle.loads(data) == job
    assert len(data) < 4096


def test_what_crosses_stages_cannot_be_changed() -> None:
    source = SourceImage("a", 0, "", "a.png", 1)
    failure, condition = Failure("unreadable"), Condition("fog", 3)
    image = PreparedImage(source, None, failure)
    payload = Payload(members={}, payload_sha256="", pixel_sha256="", frames=1, height=1, width=1)
    for record in (
        failure,
        image,
        Output(image, condition, failure),
        payload,
        SampleResult(source, None, condition, payload),
    ):
        with pytest.raises(FrozenInstanceError):
            setattr(record, fields(record)[0].name, None)


def test_a_file_of_gigabytes_is_not_read(tmp_path: Path) -> None:
    source = write_small_source(tmp_path / "source", images=2)
    with open(source / "class0" / "sparse.jpg", "wb") as file:
        file.truncate(3 * 2**30)
    report = make(source, tmp_path / "data")
    assert (report.failed, report.samples.total()) == (4, 12)
    errors = {row.error for row in rows_of(tmp_path / "data", source).values() if row.error}
    assert errors == {f"class0/sparse.jpg: refused: {3 * 2**30} bytes exceed the limit of {2**28} bytes"}


def test_a_part_tells_of_which_images_its_block_was(small_source: Path, tmp_path: Path) -> None:
    """A later build tells growth from other photographs by it."""
    make(small_source, tmp_path / "data")
    block = only_block(small_source)
    for task in block.tasks:
        facts = manifests.read_facts(tmp_path / "data" / task.part)
        assert (facts["images"], facts["listing"]) == ("6", listing_digest(block.images))
