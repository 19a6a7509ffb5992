"""The choice of the engine, and builds with local worker processes."""

import json
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from pipeline.errors import UserError
from pipeline.execution.pools import (
    CLUSTER_EXECUTORS,
    IN_PROCESS,
    POOLS,
    SMALL_WORK,
    Crew,
    Executor,
    choose_executor,
    open_pool,
    parse_executor,
)
from tests.conftest import Run
from tests.factories.data_sets import data_digests
from tests.factories.faulty_workers import FaultPlan, FaultyWorker
from tests.factories.processes import is_local_worker

SELECTION = ("--only", "contrast,gaussian_noise", "--severities", "1,3", "--shard-size", "4", "--workers", "2")


@pytest.mark.parametrize(
    ("executor", "address", "outputs", "engine"),
    [
        ("auto", None, SMALL_WORK, Executor.LOCAL),
        ("auto", None, SMALL_WORK + 1, Executor.RAY),
        ("auto", "10.0.0.1:6379", 1, Executor.RAY),
        ("local", None, 10**9, Executor.LOCAL),
        ("ray", None, 1, Executor.RAY),
    ],
)
def test_auto_uses_local_processes_for_small_work(
    executor: str, address: str | None, outputs: int, engine: Executor
) -> None:
    assert choose_executor(executor, address, outputs) == engine


def test_invalid_executors_are_refused() -> None:
    with pytest.raises(UserError, match=r"--executor local .*--address 10\.0\.0\.1:6379"):
        choose_executor("local", "10.0.0.1:6379", 1)
    with pytest.raises(UserError, match="invalid executor 'dask': use auto, ray, local"):
        choose_executor("dask", None, 1)


def test_every_executor_has_a_pool() -> None:
    assert set(POOLS) == {*Executor, IN_PROCESS} - {Executor.AUTO}


def test_local_executors_refuse_an_address() -> None:
    for executor in set(Executor) - CLUSTER_EXECUTORS:
        with pytest.raises(UserError, match=rf"--executor {executor} .*--address ray:1.*omit --address"):
            parse_executor(executor, "ray:1")
    assert {parse_executor(each, "ray:1") for each in CLUSTER_EXECUTORS} == {Executor.AUTO, Executor.RAY}


def test_too_many_local_workers_are_refused(tmp_path: Path) -> None:
    pool = open_pool(Crew(job=FaultPlan((), tmp_path), worker=FaultyWorker, outputs=1, executor="local", workers=10**6))
    with pytest.raises(UserError, match="invalid --workers 1000000: use at most"), pool:
        pass


def test_build_refuses_local_with_an_address_before_any_work(
    tmp_path: Path, small_source: Path, robustshards: Run
) -> None:
    locations = ("--source", small_source, "--out", tmp_path / "data")
    assert "omit --address" in robustshards.refuse(
        "build", "imagenet-c", *locations, "--executor", "local", "--address", "127.0.0.1:1"
    )
    assert not (tmp_path / "data").exists()


PROGRAM = """
import sys
from pipeline.cli.app import main
sys.argv = ["robustshards", *sys.argv[1:]]
try:
    main()
finally:
    print(sorted(name for name in sys.modules if name == "ray" or name.startswith("ray.")), file=sys.stderr)
"""


def test_a_small_build_does_not_import_ray_and_has_the_same_bytes(
    tmp_path: Path, small_source: Path, built_once: Path
) -> None:
    command = ("build", "imagenet-c", "--source", small_source, "--out", tmp_path / "data", *SELECTION, "--json")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, command)], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["shards_made"] == 8
    assert done.stderr.splitlines()[-1] == "[]"
    assert data_digests(tmp_path / "data") == data_digests(built_once)


def test_killing_the_command_leaves_no_worker(photographs: Path, tmp_path: Path) -> None:
    command = [str(Path(sys.executable).parent / "robustshards"), "build", "imagenet-c", "--source", str(photographs)]
    command += ["--out", str(tmp_path), "--executor", "local", "--workers", "2", "--shard-size", "1"]
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    limit = time.monotonic() + 300
    while len(list(tmp_path.glob("manifest/*.parquet"))) < 5:
        assert time.monotonic() < limit, "no shards were built"
        time.sleep(0.01)
    workers = [each for each in psutil.Process(driver.pid).children(recursive=True) if is_local_worker(each)]
    assert len(workers) == 2
    driver.kill()
    driver.wait()
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert not [each for each in alive if each.status() != psutil.STATUS_ZOMBIE]
    assert not (tmp_path / "manifest.parquet").exists()
