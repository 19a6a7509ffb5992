"""Images that crash the process that decodes them: their samples fail, and all other samples are made as usual."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import manifests
from pipeline.builder.counts import BuildCounts
from pipeline.builder.plan import make_blocks, make_plan
from pipeline.builder.sample_maker import CRASHES_WORKER
from pipeline.builder.worker import BuildJob, BuildWorker
from pipeline.execution.work import Attempt, CurrentItem
from pipeline.recipes import library
from pipeline.sources.kinds import open_source
from tests.conftest import ROOT, Run, write_small_source
from tests.factories.data_sets import data_digests

MARK = b"this photograph ends processes"
"""Bytes that make the decoder crash."""

DECODER = f"""
import ctypes, PIL.Image
original_open = PIL.Image.open
def open_(file, *rest, **named):
    if {MARK!r} in file.getvalue():
        ctypes.string_at(0)
    return original_open(file, *rest, **named)
PIL.Image.open = open_
"""
"""A faulty decoder, installed in the workers."""

SELECTION = ("--only", "contrast,gaussian_noise", "--severities", "1,3", "--shard-size", 5)

POISONED = {"class1/image3", "class1/image7"}
"""Images that contain the mark."""


def test_images_that_crash_workers_are_quarantined(
    tmp_path: Path, robustshards: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Build with a decoder that crashes in the workers, then again with a working one."""
    source = write_small_source(tmp_path / "source", images=10)
    for id_ in POISONED:
        with open(source / f"{id_}.png", "ab") as file:
            file.write(MARK)
    (tmp_path / "faulty").mkdir()
    (tmp_path / "faulty" / "sitecustomize.py").write_text(DECODER)
    faulty = f"{tmp_path / 'faulty'}{os.pathsep}{ROOT}"
    command = ("build", "imagenet-c", "--source", source, *SELECTION, "--workers", 2)
    assert robustshards(*command, "--out", tmp_path / "sound").returncode == 0
    sound = {row.key: row for row in manifests.read_rows(tmp_path / "sound" / "manifest.parquet")}
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", faulty)
        done = robustshards(*command, "--out", tmp_path / "local", "--executor", "local")
        assert "SIGSEGV" in done.stderr
    check_poisoned(tmp_path / "local", done, sound)
    assert robustshards("verify", tmp_path / "local").returncode == 0
    robustshards.succeed(*command, "--out", tmp_path / "local", "--retry-failed")
    assert data_digests(tmp_path / "local") == data_digests(tmp_path / "sound")


def check_poisoned(folder: Path, done: subprocess.CompletedProcess[str], sound: dict[str, manifests.Row]) -> None:
    """Check that samples of the poisoned images failed and that all others are as with a working decoder."""
    assert done.returncode == 1, done.stderr
    assert "8 of 40 samples failed" in done.stdout
    rows = list(manifests.read_rows(folder / "manifest.parquet"))
    assert {row.source_id for row in rows if row.status == manifests.FAILED} == POISONED
    for row in rows:
        if row.source_id in POISONED:
            assert row.error == f"{row.source_id}.png: {CRASHES_WORKER}"
        else:
            assert row.payload_sha256 == sound[row.key].payload_sha256


def test_a_worker_reports_items_and_skips_quarantined_ones(small_source: Path, tmp_path: Path) -> None:
    recipe = library.load("imagenet-c").changed(transforms={"only": ["contrast"], "levels": [1, 3]})
    source = open_source("imagefolder", str(small_source))
    (block,) = make_blocks(make_plan(recipe, source), source)
    block = replace(block, images=block.images[:3])
    first, second, third = (image.id for image in block.images)
    attempt = Attempt(block, True, frozenset({first, second}), frozenset({first, f"{second}.contrast-3"}))
    reports = list(BuildWorker(BuildJob(recipe, str(small_source), str(tmp_path))).run(attempt))
    items = [event.item for event in reports if isinstance(event, CurrentItem)]
    assert items == [second, f"{second}.contrast-1", third, None]
    assert isinstance(reports[-1], BuildCounts)
    assert (reports[-1].samples, reports[-1].failed, reports[-1].shards) == ({"contrast": 6}, 3, 2)
    rows = [row for task in block.tasks for row in manifests.read_rows(tmp_path / task.part)]
    failed = {row.key: (row.error, row.source_sha256 is None) for row in rows if row.status == manifests.FAILED}
    assert failed == {
        f"{first}-contrast-1": (f"{first}.png: {CRASHES_WORKER}", True),
        f"{first}-contrast-3": (f"{first}.png: {CRASHES_WORKER}", True),
        f"{second}-contrast-3": (f"{second}.png: {CRASHES_WORKER}", False),
    }
