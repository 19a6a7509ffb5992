"""Full disks and unreachable stores: they fail no samples, and the work is finished by a later run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import manifests
from pipeline.builder.plan import make_blocks, make_plan
from pipeline.builder.worker import BuildJob, BuildWorker
from pipeline.errors import UnreachableError
from pipeline.execution.work import Attempt
from pipeline.recipes import library
from pipeline.sources.base import SourceImage
from pipeline.sources.imagefolder import ImageFolder
from pipeline.sources.kinds import open_source
from tests.conftest import Run, write_small_source
from tests.factories.data_sets import data_digests

SELECTION = ("--only", "gaussian_noise", "--severities", "1,5")


@pytest.mark.large
def test_a_full_disk_fails_no_sample(tmp_path: Path, small_disk: Path, robustshards: Run) -> None:
    source = write_small_source(tmp_path / "source", images=24)
    command = ("build", "imagenet-c", "--source", source, *SELECTION, "--workers", 1, "--json")
    done = robustshards(*command, "--out", small_disk / "data")
    assert done.returncode == 3, done.stderr
    assert "No space left on device" in done.stdout
    for part in (small_disk / "data" / "manifest").glob("*.parquet"):
        assert {row.status for row in manifests.read_rows(part)} == {manifests.OK}
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    done = robustshards(*command, "--out", small_disk / "data")
    assert (done.returncode, json.loads(done.stdout)["failed"]) == (0, 0), done.stderr
    assert robustshards(*command, "--out", tmp_path / "undisturbed").returncode == 0
    assert data_digests(small_disk / "data") == data_digests(tmp_path / "undisturbed")


LIMITED_WRITER = """
import os, resource, sys
from pipeline.recipes import library
from pipeline.execution.work import Attempt
from pipeline.builder.plan import make_blocks, make_plan
from pipeline.sources.kinds import open_source
from pipeline.builder.worker import BuildJob, BuildWorker
recipe = library.load("imagenet-c").changed(transforms={"only": ["gaussian_noise"], "levels": [1, 5]})
source = open_source("imagefolder", sys.argv[1])
worker = BuildWorker(BuildJob(recipe, sys.argv[1], sys.argv[2]))
(block,) = make_blocks(make_plan(recipe, source), source)
resource.setrlimit(resource.RLIMIT_FSIZE, (70_000, 70_000))
try:
    list(worker.run(Attempt(block)))
except OSError as error:
    print(error.strerror)
"""


def test_a_tar_that_cannot_be_written_leaves_no_files(small_source: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", LIMITED_WRITER, str(small_source), str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout == "File too large\n"
    assert [path for path in (tmp_path / "data").rglob("*") if path.is_file()] == []


def test_an_unreachable_store_fails_no_sample(
    small_source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(source: ImageFolder, image: SourceImage) -> bytes:
        raise UnreachableError(f"{image.origin}: no answer")

    recipe = library.load("imagenet-c").changed(transforms={"only": ["contrast"], "levels": [1]})
    source = open_source("imagefolder", str(small_source))
    (block,) = make_blocks(make_plan(recipe, source), source)
    worker = BuildWorker(BuildJob(recipe, str(small_source), str(tmp_path)))
    monkeypatch.setattr(ImageFolder, "read", read)
    with pytest.raises(UnreachableError, match=r"class0/image0\.png: no answer"):
        list(worker.run(Attempt(block)))
    assert list(tmp_path.rglob("*.tar")) == []
