"""Commands that are killed: none of their processes and temporary folders stays."""

import os
import signal
import subprocess
import tempfile
from getpass import getuser
from pathlib import Path

import psutil
import pytest

from tests.conftest import ROOT
from tests.factories.commands import PROGRAM
from tests.factories.processes import is_loader, is_local_worker, wait_until

pytestmark = pytest.mark.large

STUCK = ("--model", "tests.factories.small_models:stuck", "--batch-size", 1)
IN_WORKERS = ("--executor", "local", "--workers", 2, "--loaders", 1)


@pytest.mark.parametrize(
    ("options", "end", "loaders", "workers"),
    [
        (("--loaders", 2), signal.SIGKILL, 2, 0),
        (("--loaders", 2), signal.SIGHUP, 2, 0),
        (IN_WORKERS, signal.SIGKILL, 2, 2),
    ],
)
def test_a_killed_evaluation_leaves_no_process_and_no_folder(
    built_once: Path, tmp_path: Path, options: tuple[object, ...], end: int, loaders: int, workers: int
) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored under nohup, which children inherit
    command = [PROGRAM, "evaluate", built_once, *STUCK, *options, "--out", tmp_path / "out"]
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:  # the path of a socket must be short
        environment = {**os.environ, "TMPDIR": temporary, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(list(map(str, command)), cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
        wait_until(lambda: any((tmp_path / "out").glob("parts/*.parquet")) or process.poll() is not None)
        family = psutil.Process(process.pid).children(recursive=True)
        assert (len(list(filter(is_loader, family))), len(list(filter(is_local_worker, family)))) == (loaders, workers)
        scores = [Path(f"/proc/{each.pid}/oom_score_adj") for each in filter(is_loader, family)]
        # if memory runs out, the kernel kills a loader, and the command can say so
        wait_until(lambda: all(score.read_text() == "1000\n" for score in scores), 60)
        assert any(each.is_socket() for each in Path(temporary).rglob("*"))
        process.send_signal(end)
        assert process.wait(300) == -end
        wait_until(lambda: not any(each.is_running() for each in family), 60)
        wait_until(lambda: set(os.listdir(temporary)) <= {f"torchinductor_{getuser()}"}, 60)  # a cache of PyTorch
