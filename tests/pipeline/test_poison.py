"""Photographs that end the process which decodes them: their samples fail, and all others are what they always are."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

import manifests
from tests.conftest import ROOT, Run, write_small_source
from tests.digests import data_digests

MARK = b"this photograph ends processes"

DECODER = f"""
import ctypes, PIL.Image
sound = PIL.Image.open
def open_(file, *rest, **named):
    if {MARK!r} in file.getvalue():
        ctypes.string_at(0)
    return sound(file, *rest, **named)
PIL.Image.open = open_
"""
"""A decoder with a fault, as the workers of one cluster have it."""

SELECTION = ("--only", "contrast,gaussian_noise", "--severities", "1,3", "--shard-size", 5)
POISONED = {"class0/image2", "class1/image3", "class1/image7"}


@pytest.fixture(scope="module")
def faulty_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("faulty")
    (folder / "sitecustomize.py").write_text(DECODER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{folder}:{ROOT}")
        place = {"num_cpus": 2, "node_ip_address": "127.0.0.1", "object_store_memory": 100 * 2**20}
        faulty = Cluster(initialize_head=True, head_node_args=place)
    yield faulty.address
    faulty.shutdown()


def test_the_rest_goes_on(tmp_path: Path, faulty_cluster: str, robustshards: Run) -> None:
    source = write_small_source(tmp_path / "source", images=10)
    for id_ in POISONED:
        with open(source / f"{id_}.png", "ab") as file:
            file.write(MARK)
    command = ("build", "imagenet-c", "--source", source, *SELECTION)
    assert robustshards(*command, "--out", tmp_path / "sound").returncode == 0
    sound = {row.key: row for row in manifests.read_rows(tmp_path / "sound" / "manifest.parquet")}
    digests = []
    for workers in (1, 2):
        folder = tmp_path / f"poisoned {workers}"
        done = robustshards(*command, "--out", folder, "--workers", workers, "--address", faulty_cluster)
        assert done.returncode == 1, done.stderr
        assert "12 of 40 samples failed" in done.stdout
        digests.append(data_digests(folder))
    assert digests[0] == digests[1]
    rows = list(manifests.read_rows(folder / "manifest.parquet"))
    assert {row.source_id for row in rows if row.status == manifests.FAILED} == POISONED
    for row in rows:
        if row.source_id in POISONED:
            assert row.error == f"{row.source_id}.png: ends the process that works on it, in every attempt"
        else:
            assert row.payload_sha256 == sound[row.key].payload_sha256
    assert robustshards("verify", folder).returncode == 0
    # with a sound decoder
    done = robustshards(*command, "--out", folder, "--retry-failed")
    assert done.returncode == 0, done.stderr
    assert data_digests(folder) == data_digests(tmp_path / "sound")
    shutil.rmtree(folder)
