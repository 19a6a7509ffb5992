"""Builds that are killed or run at the same time: committed shards are kept and incomplete ones are not used."""

import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from pipeline.execution.processes import WORKER_ENVIRONMENT
from tests.conftest import Run
from tests.factories.commands import PROGRAM
from tests.factories.data_sets import data_digests
from tests.factories.processes import check_ended, is_ray_worker, is_worker, wait_until

pytestmark = pytest.mark.large

SELECTION = ("--only", "noise,speckle_noise,contrast,pixelate", "--shard-size", "1", "--workers", "2")
SHARDS = 360

KEPT = r"error: (?:interrupted|stopped by SIGTERM); (\d+) of (\d+) shards are kept. Run the same command to continue"

RAY, LOCAL = ("--executor", "ray"), ("--executor", "local")


@pytest.fixture(scope="module")
def undisturbed(photographs: Path, tmp_path_factory: pytest.TempPathFactory, robustshards: Run) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("undisturbed")
    robustshards.succeed("build", "imagenet-c", "--source", photographs, "--out", folder, *SELECTION)
    return data_digests(folder)


def start(photographs: Path, folder: Path, *more: str) -> subprocess.Popen[str]:
    command = [str(PROGRAM), "build", "imagenet-c"]
    command += ["--source", str(photographs), "--out", str(folder), *SELECTION, *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def committed(folder: Path) -> int:
    return len(list(folder.glob("manifest/*.parquet")))


def written(folder: Path) -> dict[str, tuple[int, int]]:
    """Return modification time and inode of each committed part and shard. A remade file has other values."""
    parts = [part.stem for part in folder.glob("manifest/*.parquet")]
    paths = [f"manifest/{name}.parquet" for name in parts]
    paths += [f"shards/{'/'.join(name.rsplit('-', 2)[:2])}/{name}.tar" for name in parts]
    return {path: ((folder / path).stat().st_mtime_ns, (folder / path).stat().st_ino) for path in paths}


def test_killing_the_command_while_ray_starts_leaves_no_process(photographs: Path, tmp_path: Path) -> None:
    driver = start(photographs, tmp_path, *RAY)
    here, family = psutil.Process(driver.pid), list[psutil.Process]()
    wait_until(lambda: any(each.name() == "raylet" for each in here.children()))
    family = here.children(recursive=True)
    driver.kill()
    driver.communicate()
    check_ended(family)
    assert not [each for each in psutil.process_iter() if is_orphan(each, family)]


def is_orphan(process: psutil.Process, family: list[psutil.Process]) -> bool:
    """Return whether a process was started by a process of a killed cluster."""
    try:
        return process.ppid() in {each.pid for each in family} and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def test_killing_a_command_on_a_cluster_ends_only_its_workers(
    photographs: Path, tmp_path: Path, ray_address: str
) -> None:
    before = {each.pid for each in psutil.Process().children(recursive=True) if is_ray_worker(each)}
    driver = start(photographs, tmp_path, "--address", ray_address)
    wait_until(lambda: committed(tmp_path) > 5)
    children = psutil.Process().children(recursive=True)
    workers = [each for each in children if is_ray_worker(each) and each.pid not in before]
    assert workers
    driver.kill()
    driver.communicate()
    check_ended(workers)
    assert [each for each in psutil.Process().children(recursive=True) if each.name() == "raylet"]


def test_stopped_builds_leave_no_process_and_keep_shards(
    photographs: Path, tmp_path: Path, robustshards: Run, undisturbed: dict[str, str]
) -> None:
    """Four commands on one data set are stopped in different ways, and a fifth one finishes it."""
    _, ended = end_at(20, start(photographs, tmp_path, *RAY), tmp_path, killed)
    assert ended == -signal.SIGKILL
    there, before = committed(tmp_path), written(tmp_path)
    errors, ended = end_at(there + 20, start(photographs, tmp_path, *RAY), tmp_path, preempted)
    check_continued(errors, there)
    assert ended == 3
    check_kept(errors, tmp_path)
    errors, ended = end_at(committed(tmp_path) + 5, start(photographs, tmp_path, *RAY), tmp_path, interrupted_twice)
    assert ended == 130
    assert "stopped at once" in errors
    errors, ended = end_at(committed(tmp_path) + 20, start(photographs, tmp_path, *LOCAL), tmp_path, interrupted)
    assert ended == 130
    check_kept(errors, tmp_path)
    there = committed(tmp_path)
    driver = start(photographs, tmp_path, *LOCAL)
    wait_until(lambda: committed(tmp_path) > there + 5)
    driver.send_signal(signal.SIGSTOP)  # or it would finish before the second build starts
    second = robustshards("build", "imagenet-c", "--source", photographs, "--out", tmp_path, *SELECTION)
    driver.send_signal(signal.SIGCONT)
    _, errors = driver.communicate(timeout=300)
    assert second.returncode == 2
    assert "another run is writing" in second.stderr
    assert driver.returncode == 0, errors
    check_continued(errors, there)
    assert before.items() <= written(tmp_path).items(), "committed shards were made again"
    assert data_digests(tmp_path) == undisturbed
    assert not (tmp_path / ".partial").exists()


def check_continued(errors: str, there: int) -> None:
    """Check that a build found at least these shards. A killed cluster may publish more before it ends."""
    finished, to_build = re.search(r" (\d+) already finished, (\d+) to build", errors).group(1, 2)  # type: ignore[union-attr]
    assert there <= int(finished) == SHARDS - int(to_build)


def check_kept(errors: str, folder: Path) -> None:
    """Check that the last line of a stopped build says how much is kept."""
    kept, total = re.fullmatch(KEPT, errors.splitlines()[-1]).group(1, 2)  # type: ignore[union-attr]
    assert int(total) == SHARDS
    assert 0 < int(kept) <= committed(folder)  # workers may publish more until they are killed


def end_at(
    shards: int, driver: subprocess.Popen[str], folder: Path, end: Callable[[subprocess.Popen[str]], str]
) -> tuple[str, int]:
    """Stop a build after it has committed more than ``shards`` shards; return its standard error and exit code.

    Check that all of its processes end, that committed shards are kept, and that the build was not finished.
    """
    wait_until(lambda: committed(folder) > shards or driver.poll() is not None)
    assert driver.poll() is None, driver.communicate()
    before, family = written(folder), psutil.Process(driver.pid).children(recursive=True)
    workers = [process for process in family if is_worker(process)]
    assert workers
    if any(is_ray_worker(process) for process in workers):
        assert {process.name() for process in family} >= {"raylet", "gcs_server"}
        for name, value in WORKER_ENVIRONMENT.items():
            assert all(starts_with(process, f"{name}={value}") for process in workers)
    errors = end(driver)
    check_ended(family)
    assert "Traceback" not in errors
    assert not (folder / "manifest.parquet").exists()
    assert committed(folder) < SHARDS, "the build finished before it was stopped"
    assert before.items() <= written(folder).items()
    return errors, driver.returncode


def starts_with(process: psutil.Process, variable: str) -> bool:
    """Return whether a process was started with a variable. glibc replaces the colons of its variable by null bytes."""
    content = Path(f"/proc/{process.pid}/environ").read_bytes().replace(b":", b"\0")
    return variable.encode().replace(b":", b"\0") + b"\0" in content


def killed(driver: subprocess.Popen[str]) -> str:
    driver.kill()
    return driver.communicate()[1]


def preempted(driver: subprocess.Popen[str]) -> str:
    driver.terminate()
    return driver.communicate(timeout=300)[1]


def interrupted(driver: subprocess.Popen[str]) -> str:
    driver.send_signal(signal.SIGINT)
    return driver.communicate(timeout=300)[1]


def interrupted_twice(driver: subprocess.Popen[str]) -> str:
    for process in psutil.Process(driver.pid).children(recursive=True):
        if is_worker(process):
            process.suspend()  # the command waits for it, so that it has not ended before the second Ctrl-C
    driver.send_signal(signal.SIGINT)
    assert driver.stderr is not None
    while "Ctrl-C again to stop at once" not in (line := driver.stderr.readline()):
        assert line, "the command did not confirm the first Ctrl-C"
    return interrupted(driver)
