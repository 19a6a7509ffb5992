"""The choice of the engine, and builds with local worker processes."""

import json
from pathlib import Path

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
from tests.conftest import SELECTION
from tests.factories.commands import python
from tests.factories.data_sets import data_digests
from tests.factories.faulty_workers import FaultPlan, FaultyWorker


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
    selection = (*SELECTION, "--workers", "2")
    command = ("build", "imagenet-c", "--source", small_source, "--out", tmp_path / "data", *selection, "--json")
    done = python("-c", PROGRAM, *command)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["shards_made"] == 8
    assert done.stderr.splitlines()[-1] == "[]"
    assert data_digests(tmp_path / "data") == data_digests(built_once)
