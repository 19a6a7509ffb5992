"""What can be done to a build: each injector hits something that is there, and says what it hit."""

from __future__ import annotations

import errno
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
_AWAY_S = (2.0, 5.0)
_FULL_S = 10.0
_SHARDS, _PARTS = "shards/*/*/*.tar", "manifest/*.parquet"


@dataclass
class Scene:
    """What the injectors find: machines, data, and the commands that run.

    ``touched``: ids of images whose samples may fail. ``moved``: where removed source files lie -> where they belong.
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
        """The commands that have not ended."""
        return [driver for driver in self.drivers if driver.poll() is None]


Inject = Callable[[Scene], str | None]


@dataclass(frozen=True)
class Injector:
    """``inject`` returns what was hit, None where there is nothing to hit yet. ``running``: while a build runs, or else
    between the end of one and the next attempt."""

    words: str
    inject: Inject
    running: bool = True


def _busy(scene: Scene) -> list[Any]:
    """The machines on which there are workers."""
    return [machine for machine in scene.machines.here if scene.machines.workers(machine)]


def _kill_worker(scene: Scene) -> str | None:
    workers = [process for machine in scene.machines.here for process in scene.machines.workers(machine)]
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
    # Sometimes another machine comes at once; else those that are left finish, as long as there is one.
    if len(cluster.here) < 2 or scene.random.random() < 0.5:
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
    pids = scene.machines.freeze(scene.machines.workers(scene.random.choice(busy)))
    time.sleep(scene.random.uniform(*_PAUSE_S))
    scene.machines.thaw()
    return f"workers {pids}"


def _straggle(scene: Scene) -> str | None:
    busy = _busy(scene)
    if len(busy) < 2 or scene.machines.any_frozen():
        return None
    return f"workers {scene.machines.freeze(scene.machines.workers(scene.random.choice(busy)))}"


def _hang(scene: Scene) -> str | None:
    busy, cluster = _busy(scene), _cluster(scene)
    if len(busy) < 2:
        return None
    machine = scene.random.choice(busy)
    pids = cluster.freeze([cluster.raylet(machine), *cluster.workers(machine)])
    time.sleep(_HANG_S)
    cluster.thaw()
    time.sleep(_BACK_S)
    cluster.lose(machine)
    cluster.restore()
    return f"raylet and workers {pids}"


def _store_away(scene: Scene) -> str | None:
    if not scene.running():
        return None
    seconds = scene.random.uniform(*_AWAY_S)
    scene.proxy.away(seconds)
    time.sleep(seconds)
    return f"{seconds:.1f} s"


def _folder(scene: Scene) -> Path:
    assert isinstance(scene.output, FolderOutput)
    return scene.output.folder


def _fill_disk(scene: Scene) -> str | None:
    """A file takes all room until the build has given up, or for ten seconds."""
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


def _tear(pattern: str) -> Inject:
    """Cut one of the files off, as a machine does that loses power before the disk has all."""

    def inject(scene: Scene) -> str | None:
        files = sorted(_folder(scene).glob(pattern))
        if not files:
            return None
        torn = scene.random.choice(files)
        with open(torn, "r+b") as file:
            file.truncate(scene.random.randrange(torn.stat().st_size))
        return torn.name

    return inject


def _lose_file(pattern: str) -> Inject:
    def inject(scene: Scene) -> str | None:
        files = sorted(_folder(scene).glob(pattern))
        if not files:
            return None
        lost = scene.random.choice(files)
        lost.unlink()
        return lost.name

    return inject


def _remove_source(last_class: bool) -> Inject:
    """A file of a class that the build is in the middle of listing, or of the one that it comes to last."""

    def inject(scene: Scene) -> str | None:
        classes = sorted(path for path in scene.source.iterdir() if path.is_dir())
        files = sorted(classes[-1 if last_class else 0].iterdir())
        if not _busy(scene) or len(files) < 3:
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
    "machine": Injector("`kill -9` of a raylet: the machine is lost; another joins at once or later", _lose_machine),
    "driver": Injector("`kill -9` of the command itself", _to_driver(signal.SIGKILL)),
    "preemption": Injector("SIGTERM to the command, as schedulers send it", _to_driver(signal.SIGTERM)),
    "pause": Injector("SIGSTOP of a machine's workers, or of one local worker, for one to four seconds", _pause),
    "hang": Injector("SIGSTOP of a raylet and its workers until the cluster has given them up, then SIGCONT", _hang),
    "straggler": Injector(
        "SIGSTOP of a machine's workers, or of one local worker, until the build has ended", _straggle
    ),
    "s3-away": Injector("S3 answers every request with 503 for two to five seconds", _store_away),
    "disk-full": Injector("a file takes all room that the disk has left", _fill_disk),
    "torn-shard": Injector("a finished tar is cut off somewhere after its build was killed", _tear(_SHARDS), False),
    "torn-part": Injector("a finished manifest part is cut off somewhere, likewise", _tear(_PARTS), False),
    "lost-shard": Injector("a finished tar is removed, likewise", _lose_file(_SHARDS), False),
    "lost-part": Injector("a finished manifest part is removed, likewise", _lose_file(_PARTS), False),
    "source-gone": Injector("a source file disappears after it was listed, before it is read", _remove_source(False)),
    "source-changed": Injector("a source file disappears while the source is being listed", _remove_source(True)),
}
"""Kind of fault -> how it is injected."""

POISON, SECOND_BUILD = "poison", "second-build"

BEFOREHAND: Mapping[str, str] = {
    POISON: "an image at which the decoder dies with a segmentation fault, every time; each death is counted",
    SECOND_BUILD: "a second build into the same output, started together with the first",
}
"""Kind -> what it is, for faults that are there when a build starts."""
