"""Batches of samples: bytes do not depend on the batch, memory is bounded, and each sample fails alone."""

import pickle
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

import manifests
from pipeline.builder import worker
from pipeline.builder.counts import BuildCounts
from pipeline.builder.plan import WorkItem, make_blocks, make_plan
from pipeline.builder.worker import BuildJob, BuildWorker
from pipeline.errors import SampleError
from pipeline.execution.work import Attempt
from pipeline.recipes import library
from pipeline.render.renderer import Renderer
from pipeline.sources.base import SourceImage
from pipeline.sources.imagefolder import ImageFolder
from pipeline.sources.kinds import open_source
from tests.conftest import write_small_source
from tests.factories.data_sets import data_digests

RECIPE = library.load("imagenet-c").changed(
    transforms={"only": ["contrast", "gaussian_noise"], "levels": [1, 3]}, shards={"size": 6}
)
OUTPUT_BYTES = 224 * 224 * 3


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of six generated images, the second of which is truncated."""
    folder = write_small_source(tmp_path_factory.mktemp("source"))
    damaged = folder / "class0" / "image2.png"
    damaged.write_bytes(damaged.read_bytes()[:500])
    return folder


def build(source: Path, output: Path, change: Callable[[], None] = lambda: None) -> BuildCounts:
    """Build all shards in one worker. Call ``change`` when the worker is ready."""
    (output / "shards").mkdir(parents=True)
    (output / "recipe.toml").touch()
    build_worker = BuildWorker(BuildJob(RECIPE, str(source), str(output)))
    change()
    *_, report = build_worker.run(Attempt(only_block(source)))
    assert isinstance(report, BuildCounts)
    return report


def only_block(source: Path) -> WorkItem:
    """Return the only work item of the source."""
    opened = open_source("imagefolder", str(source))
    (block,) = make_blocks(make_plan(RECIPE, opened), opened)
    return block


def rows_of(output: Path, source: Path) -> dict[str, manifests.Row]:
    """Return all manifest rows by key."""
    parts = (manifests.read_rows(output / task.part) for task in only_block(source).tasks)
    return {row.key: row for rows in parts for row in rows}


@pytest.mark.parametrize(
    ("images", "byte_limit"), [(1, 1), (2, 2**24), (4, 5 * OUTPUT_BYTES), (3, OUTPUT_BYTES), (100, 2**30)]
)
def test_bytes_do_not_depend_on_the_batch(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, images: int, byte_limit: int
) -> None:
    expected = build(source, tmp_path / "default")
    monkeypatch.setattr(worker, "BATCH_IMAGES", images)
    monkeypatch.setattr(worker, "BATCH_BYTES", byte_limit)
    report = build(source, tmp_path / "changed")
    assert data_digests(tmp_path / "changed") == data_digests(tmp_path / "default")
    assert report.samples == expected.samples == {"contrast": 12, "gaussian_noise": 12}
    assert (report.failed, report.shards, report.payload_bytes) == (4, 4, expected.payload_bytes)


@pytest.mark.parametrize(("kept_bytes", "shards", "reads"), [(6 * OUTPUT_BYTES, [1, 2, 3, 4], 6), (1, [4], 7)])
def test_shards_are_published_one_by_one_where_prepared_images_are_kept(
    small_source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_bytes: int, shards: list[int], reads: int
) -> None:
    build(small_source, tmp_path / "default")
    read: list[str] = []
    original = ImageFolder.read
    monkeypatch.setattr(worker, "SHARDS_AT_ONCE", 1)
    monkeypatch.setattr(worker, "KEPT_BYTES", kept_bytes)
    monkeypatch.setattr(worker, "REPORT_EVERY_S", 1e9)

    def record(source: ImageFolder, image: SourceImage) -> Any:
        read.append(image.id)
        return original(source, image)

    monkeypatch.setattr(ImageFolder, "read", record)
    (tmp_path / "data" / "shards").mkdir(parents=True)
    maker = BuildWorker(BuildJob(RECIPE, str(small_source), str(tmp_path / "data")))
    reports = maker.run(Attempt(only_block(small_source)))
    assert [report.parts for report in reports if isinstance(report, BuildCounts)] == shards
    assert len(read) == reads
    (tmp_path / "data" / "recipe.toml").touch()
    assert data_digests(tmp_path / "data") == data_digests(tmp_path / "default")


@pytest.mark.parametrize(
    ("byte_limit", "largest_batch"), [(1, 1), (2 * OUTPUT_BYTES, 2), (2 * OUTPUT_BYTES + 1, 3), (2**24, 12)]
)
def test_a_batch_has_no_more_outputs_than_its_byte_limit(
    small_source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, byte_limit: int, largest_batch: int
) -> None:
    monkeypatch.setattr(worker, "BATCH_IMAGES", 3)
    monkeypatch.setattr(worker, "BATCH_BYTES", byte_limit)
    stages: list[str] = []

    def record_stages() -> None:
        for stage in ("transform", "encode"):
            monkeypatch.setattr(Renderer, stage, recorded(stage, getattr(Renderer, stage)))

    def recorded(stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            stages.append(stage)
            return function(*arguments)

        return call

    build(small_source, tmp_path / "data", record_stages)
    runs = [(stage, len(list(run))) for stage, run in groupby(stages)]
    assert max(length for stage, length in runs if stage == "transform") == largest_batch
    assert stages.count("transform") == stages.count("encode") == 24


@pytest.mark.parametrize(
    ("stage", "failure", "error"),
    [
        ("transform", ZeroDivisionError("injected"), "ZeroDivisionError: injected"),
        ("encode", RuntimeError("injected"), "RuntimeError: injected"),
        ("encode", {".jpg": b"no JPEG"}, "ValueError: "),
    ],
)
def test_a_sample_that_fails_in_a_stage_fails_alone(
    small_source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
    failure: Exception | dict[str, bytes],
    error: str,
) -> None:
    build(small_source, tmp_path / "intact")
    calls: list[Any] = []

    def inject_failure() -> None:
        original = getattr(Renderer, stage)

        def call(*arguments: Any) -> Any:
            calls.append(arguments)
            if len(calls) != 7:
                return original(*arguments)
            if isinstance(failure, Exception):
                raise failure
            return failure

        monkeypatch.setattr(Renderer, stage, call)

    report = build(small_source, tmp_path / "failed", inject_failure)
    assert (report.failed, report.samples.total()) == (1, 24)
    expected, rows = rows_of(tmp_path / "intact", small_source), rows_of(tmp_path / "failed", small_source)
    (failed,) = (key for key, row in rows.items() if row.status == manifests.FAILED)
    assert str(rows[failed].error).startswith(error)
    assert rows[failed].payload_sha256 is None
    positions = {"shard_sha256": None, "offset": None}
    for key in rows.keys() - {failed}:
        assert rows[key]._replace(**positions) == expected[key]._replace(**positions)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "MemoryError: no reason was given"),
        (ValueError("in /usr/lib/x/y.so, line 3"), "ValueError: in y.so, line 3"),
        (RecursionError("too deep"), "RecursionError: too deep"),
        (OSError(22, "it is a pipe: regular files are allowed", "/somewhere/pipe"), "OSError: it is a pipe: regular"),
        (SampleError("bad: <x at 0x7f00aa>, /tmp/a/b.png"), "bad: <x>, b.png"),
    ],
)
def test_an_unreadable_image_fails_alone_without_machine_paths(
    small_source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    original = ImageFolder.read

    def read(source: ImageFolder, image: SourceImage) -> Any:
        if image.id == "class0/image2":
            raise error
        return original(source, image)

    monkeypatch.setattr(ImageFolder, "read", read)
    report = build(small_source, tmp_path / "data")
    assert report.failed == 4
    errors = {row.error for row in rows_of(tmp_path / "data", small_source).values() if row.error}
    (reason,) = errors
    assert reason.startswith(f"class0/image2.png: {message}")


def test_reasons_in_rows_omit_source_and_output_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "my photos"
    photos = write_small_source(data / "all")

    def read(source: ImageFolder, image: SourceImage) -> bytes:
        raise ValueError(f"{photos}/class 0/a b.png and {data}/x: 1/2 of s3://b/k, in /usr/lib/y.so")

    monkeypatch.setattr(ImageFolder, "read", read)
    build(photos, data)
    for row in rows_of(data, photos).values():
        assert row.error == f"{row.origin}: ValueError: class 0/a b.png and x: 1/2 of s3://b/k, in y.so"


def test_a_job_pickles_to_few_bytes() -> None:
    job = BuildJob(RECIPE, "/photographs", "s3://bucket/data")
    data = pickle.dumps(job)
    assert pickle.loads(data) == job
    assert len(data) < 4096


def test_a_file_of_gigabytes_fails_without_being_read(tmp_path: Path) -> None:
    source = write_small_source(tmp_path / "source", images=2)
    with open(source / "class0" / "sparse.jpg", "wb") as file:
        file.truncate(3 * 2**30)
    report = build(source, tmp_path / "data")
    assert (report.failed, report.samples.total()) == (4, 12)
    errors = {row.error for row in rows_of(tmp_path / "data", source).values() if row.error}
    assert errors == {f"class0/sparse.jpg: refused: {3 * 2**30} bytes exceed the limit of {2**28} bytes"}
