"""Injectors of faults. Each one chooses a target that exists and returns its name."""

import errno
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.chaos.machines import Machines, RayMachines, send
from tests.chaos.outputs import FolderOutput, Output
from tests.chaos.proxy import FaultProxy

_PAUSE_S = (1.0, 4.0)
_HANG_S, _BACK_S = 6.0, 2.0
_UNAVAILABLE_S = (2.0, 5.0)
_FULL_S = 10.0
_SHARDS, _PARTS = "shards/*/*/*.tar", "manifest/*.parquet"


@dataclass
class Scene:
    """Possible targets of the injectors: machines, data, and running commands.

    ``touched``: ids of images whose samples may fail. ``moved``: current path -> original path of removed source files.
    """

    random: Random
    machines: Machines
    proxy: FaultProxy
    source: Path
    output: Output
    drivers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)
    moved: dict[Path, Path] = field(default_factory=dict)

    def running(self) -> list[subprocess.Popen[bytes]]:
        """Return the commands that are still running."""
        return [driver for driver in self.drivers if driver.poll() is None]


Inject = Callable[[Scene], str | None]


@dataclass(frozen=True)
class Injector:
    """An injector of one kind of fault.

    ``inject`` returns the target, or None if no target exists yet. ``running``: whether the fault is injected while a
    build runs, or between two attempts.
    """

    description: str
    inject: Inject
    running: bool = True


def _busy(scene: Scene) -> list[Any]:
    """Return the machines that have workers."""
    return [machine for machine in scene.machines.available if scene.machines.workers(machine)]


def _kill_worker(scene: Scene) -> str | None:
    workers = [process for machine in scene.machines.available for process in scene.machines.workers(machine)]
    if not workers:
        return None
    victim = scene.random.choice(workers)
    send([victim], signal.SIGKILL)
    return f"worker {victim.pid}"


def _cluster(scene: Scene) -> RayMachines:
    assert isinstance(scene.machines, RayMachines)
    return scene.machines


def _lose_machine(scene: Scene) -> str | None:
    busy, cluster = _busy(scene), _cluster(scene)
    if not busy:
        return None
    pid = cluster.lose(scene.random.choice(busy))
    # In half of the cases a machine is added at once; otherwise the remaining machines finish the build.
    if len(cluster.available) < 2 or scene.random.random() < 0.5:
        cluster.restore()
    return f"raylet {pid}"


def _to_driver(sent: signal.Signals) -> Inject:
    def inject(scene: Scene) -> str | None:
        running = scene.running()
        if not running:
            return None
        driver = scene.random.choice(running)
        driver.send_signal(sent)
        driver.wait(60)
        return f"driver {driver.pid}"

    return inject


def _pause(scene: Scene) -> str | None:
    busy = _busy(scene)
    if not busy:
        return None
    pids = scene.machines.pause(scene.machines.workers(scene.random.choice(busy)))
    time.sleep(scene.random.uniform(*_PAUSE_S))
    scene.machines.resume()
    return f"workers {pids}"


def _straggle(scene: Scene) -> str | None:
    busy = _busy(scene)
    if len(busy) < 2 or scene.machines.any_paused():
        return None
    return f"workers {scene.machines.pause(scene.machines.workers(scene.random.choice(busy)))}"


def _hang(scene: Scene) -> str | None:
    busy, cluster = _busy(scene), _cluster(scene)
    if len(busy) < 2:
        return None
    machine = scene.random.choice(busy)
    pids = cluster.pause([cluster.raylet(machine), *cluster.workers(machine)])
    time.sleep(_HANG_S)
    cluster.resume()
    time.sleep(_BACK_S)
    cluster.lose(machine)
    cluster.restore()
    return f"raylet and workers {pids}"


def _make_store_unavailable(scene: Scene) -> str | None:
    if not scene.running():
        return None
    seconds = scene.random.uniform(*_UNAVAILABLE_S)
    scene.proxy.make_unavailable(seconds)
    time.sleep(seconds)
    return f"{seconds:.1f} s"


def _folder(scene: Scene) -> Path:
    assert isinstance(scene.output, FolderOutput)
    return scene.output.folder


def _fill_disk(scene: Scene) -> str | None:
    """Fill the disk with a file until the build has ended, or for ten seconds."""
    ballast = _folder(scene).parent / "ballast"
    written = 0
    try:
        with open(ballast, "wb", buffering=0) as file:
            while True:
                written += file.write(bytes(2**16))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    limit = time.monotonic() + _FULL_S
    while scene.running() and time.monotonic() < limit:
        time.sleep(0.1)
    ballast.unlink()
    return f"{written / 2**20:.1f} MiB of ballast"


def _damage(pattern: str, damage: Callable[[Path, Random], object]) -> Inject:
    """Damage one of the files."""

    def inject(scene: Scene) -> str | None:
        files = sorted(_folder(scene).glob(pattern))
        if not files:
            return None
        chosen = scene.random.choice(files)
        damage(chosen, scene.random)
        return chosen.name

    return inject


def _truncate(file: Path, random: Random) -> None:
    """Truncate a file, as a power failure before a flush does."""
    os.truncate(file, random.randrange(file.stat().st_size))


def _lose(file: Path, random: Random) -> None:
    file.unlink()


def _remove_source(last_class: bool) -> Inject:
    """Remove a source file of the first class, or of the last one, which the build lists last.

    The build lists its source twice: before ``recipe.toml``, and while it hands out work. The first class is listed
    for the second time once a worker writes a file.
    """

    def inject(scene: Scene) -> str | None:
        classes = sorted(path for path in scene.source.iterdir() if path.is_dir())
        files = sorted(classes[-1 if last_class else 0].iterdir())
        folder = _folder(scene)
        is_listed = (folder / "recipe.toml").exists() and any(folder.glob(".partial/*"))
        if not _busy(scene) or not (last_class or is_listed) or len(files) < 3:
            return None
        file = scene.random.choice(files[len(files) // 2 :])
        aside = scene.source.parent / f"{scene.source.name}-{len(scene.moved)}-{file.name}"
        file.rename(aside)
        scene.moved[aside] = file
        scene.touched.add(str(file.relative_to(scene.source).with_suffix("")))
        return file.name

    return inject


INJECTORS: Mapping[str, Injector] = {
    "worker": Injector("`kill -9` of a worker (a Ray actor, or a child process of the command)", _kill_worker),
    "machine": Injector(
        "`kill -9` of a raylet: the machine is lost; another one joins at once or later", _lose_machine
    ),
    "driver": Injector("`kill -9` of the command itself", _to_driver(signal.SIGKILL)),
    "preemption": Injector("SIGTERM to the command, as sent by schedulers", _to_driver(signal.SIGTERM)),
    "pause": Injector("SIGSTOP of a machine's workers, or of one local worker, for one to four seconds", _pause),
    "hang": Injector("SIGSTOP of a raylet and its workers until Ray marks it as dead, then SIGCONT", _hang),
    "straggler": Injector(
        "SIGSTOP of a machine's workers, or of one local worker, until the build has ended", _straggle
    ),
    "s3-unavailable": Injector("S3 answers every request with 503 for two to five seconds", _make_store_unavailable),
    "disk-full": Injector("a file takes all free space of the disk", _fill_disk),
    "torn-shard": Injector("after a kill, a finished tar is truncated", _damage(_SHARDS, _truncate), False),
    "torn-part": Injector("after a kill, a finished manifest part is truncated", _damage(_PARTS, _truncate), False),
    "lost-shard": Injector("after a kill, a finished tar is removed", _damage(_SHARDS, _lose), False),
    "lost-part": Injector("after a kill, a finished manifest part is removed", _damage(_PARTS, _lose), False),
    "source-gone": Injector("a source file disappears after it was listed, before it is read", _remove_source(False)),
    "source-changed": Injector("a source file disappears while the source is being listed", _remove_source(True)),
}
"""The injectors by kind of fault."""

POISON, SECOND_BUILD = "poison", "second-build"

BEFOREHAND: Mapping[str, str] = {
    POISON: "an image that always crashes the decoder with a segmentation fault; each crash counts",
    SECOND_BUILD: "a second build into the same output, started at the same time",
}
"""Descriptions of the faults that exist before a build starts."""
