"""A build from and to a real object store whose gateway and whose own process are killed."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import s3fs

from tests.chaos.outputs import BucketOutput
from tests.conftest import Run
from tests.factories.ceph import Ceph, ceph
from tests.factories.commands import PROGRAM
from tests.factories.data_sets import data_digests
from tests.factories.object_store import upload
from tests.factories.processes import wait_until

pytestmark = pytest.mark.large

SELECTION = (
    *("imagenet-c", "--severities", "1,3", "--shard-size", "1", "--encoder", "png"),
    *("--executor", "local", "--workers", "2"),
)
SHARDS = 6 * 15 * 2
"""One for each image and condition."""

DOWN_S, LIMIT_S = 3, 240


@pytest.fixture(scope="module")
def servers() -> Iterator[Ceph]:
    with ceph() as started:
        yield started


@contextmanager
def running(command: tuple[object, ...], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Run the command while the block runs."""
    variables = {**os.environ, **environment}
    process = subprocess.Popen([*map(str, command)], stderr=subprocess.PIPE, text=True, env=variables)
    try:
        yield process
    finally:
        process.kill()


def test_a_build_is_complete_after_its_gateway_and_itself_were_killed(
    servers: Ceph, small_source: Path, tmp_path: Path, robustshards: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    robustshards.succeed("build", *SELECTION, "--source", small_source, "--out", tmp_path / "near")
    source, output = upload(servers, small_source, "photographs"), BucketOutput(servers, "data")
    command = (PROGRAM, "build", *SELECTION, "--source", source, "--out", output.location)
    with running(command, servers.environment()) as build:
        wait_until(lambda: output.committed() > 20)
        servers.kill()
        time.sleep(DOWN_S)
        servers.start_gateway()
        after = output.committed()
        wait_until(lambda: output.committed() > after + 20)
        assert build.poll() is None
        build.kill()
    assert output.committed() < SHARDS
    with running(command, servers.environment()) as build:
        errors = build.communicate(timeout=LIMIT_S)[1]
    assert build.returncode == 0, errors
    assert data_digests(output.fetched(tmp_path / "far")) == data_digests(tmp_path / "near")
    for name, value in servers.environment().items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    robustshards.succeed("verify", output.location)
