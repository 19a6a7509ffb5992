"""Resources shared by all trials: machines, S3 server and proxy, source images, undisturbed builds for comparison."""

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.chaos.log import Log
from tests.chaos.machines import ENGINES, Machines
from tests.chaos.proxy import FaultProxy
from tests.chaos.scenarios import Selection
from tests.conftest import ROOT, write_small_source
from tests.factories.ceph import ceph
from tests.factories.commands import PROGRAM
from tests.factories.object_store import ObjectStore, object_store, upload

MACHINES, _SHORT_MACHINES = 3, 2
"""Machines of the Ray cluster, and workers of each build; in the short version."""

REFERENCE_ENGINE = "local"
"""The engine of the undisturbed builds. Both engines must produce the same bytes."""

MARKER = b"robustshards poison "
"""Marks poisoned images: appended after the pixels, where decoders do not read, and followed by the image's id."""

_POISONED = ("class0/image2", "class1/image5")
_IMAGES, _SHORT_IMAGES, _CLASSES = 24, 10, 2
_UNDISTURBED_S = 300


class Stage:
    """The shared resources of the trials."""

    def __init__(self, work: Path, short: bool, log: Log, store: ObjectStore, proxy: FaultProxy) -> None:
        self.work = work
        self.log = log
        self.store = store
        self.proxy = proxy
        self.poison = work / "poison"
        self.source = work / "source"
        self._short = short
        self._references: dict[Selection, Path] = {}
        write_small_source(self.source, _SHORT_IMAGES if short else _IMAGES, _CLASSES)
        self.poisoned = _POISONED[:1] if short else _POISONED
        for name in self.poisoned:
            with open(self.source / f"{name}.png", "ab") as file:
                file.write(MARKER + name.encode())
        self.source_url = upload(store, self.source, "source")
        paths = os.pathsep.join(map(str, (Path(__file__).parent / "poison", ROOT)))
        # Ray workers inherit the environment of their raylet, so raylets and commands get the same one.
        self._environment = {**store.environment(proxy.endpoint), "PYTHONPATH": paths, "CHAOS_POISON": str(self.poison)}
        self._machines: dict[str, Machines] = {}

    def machines(self, engine: str) -> Machines:
        """Return the machines of an engine. They are started on first use."""
        if engine not in self._machines:
            self._machines[engine] = ENGINES[engine](_SHORT_MACHINES if self._short else MACHINES, self._environment)
        return self._machines[engine]

    def arguments(self, selection: Selection) -> Sequence[str]:
        """Return the arguments of the build command, for full or short trials."""
        return selection.short if self._short else selection.arguments

    def start(self, log: Path, *arguments: str) -> subprocess.Popen[bytes]:
        """Start the command in a process, as users do. Its output is written to ``log``."""
        command = [PROGRAM, *arguments]
        with open(log, "wb") as file:
            return subprocess.Popen(command, stdout=file, stderr=file, env={**os.environ, **self._environment})

    def build(
        self, log: Path, selection: Selection, machines: Machines, source: str, output: str, *more: str
    ) -> subprocess.Popen[bytes]:
        """Start a build on the machines."""
        recipe, *rest = self.arguments(selection)
        return self.start(log, "build", recipe, "--source", source, "--out", output, *rest, *machines.options, *more)

    def reference(self, selection: Selection) -> Path:
        """Return the folder of an undisturbed build.

        Raises:
            RuntimeError: The build fails.
        """
        if selection not in self._references:
            name, machines = f"undisturbed-{len(self._references)}", self.machines(REFERENCE_ENGINE)
            folder, log = self.work / name, self.work / f"{name}.log"
            if self.build(log, selection, machines, str(self.source), str(folder)).wait(_UNDISTURBED_S):
                raise RuntimeError(f"the undisturbed build failed: {log.read_text()}")
            self._references[selection] = folder
        return self._references[selection]

    def close(self) -> None:
        """Stop all machines."""
        for machines in self._machines.values():
            machines.close()


STORES: Mapping[str, Callable[[], AbstractContextManager[ObjectStore]]] = {"moto": object_store, "ceph": ceph}
"""S3 servers by name."""


@contextmanager
def stage(work: Path, short: bool, log: Log, store_name: str = "moto") -> Iterator[Stage]:
    """Provide the shared resources, and release them at the end."""
    work.mkdir(parents=True)
    with STORES[store_name]() as store:
        proxy = FaultProxy(store.endpoint, log)
        try:
            made = Stage(work, short, log, store, proxy)
            try:
                yield made
            finally:
                made.close()
        finally:
            proxy.close()
