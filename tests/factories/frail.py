"""Workers that crash, hang or raise where a test says so, or tell about their process."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.errors import UnreachableError, UserError
from pipeline.execution.base import Pool
from pipeline.execution.work import At, Attempt, Failed, Lost, Measure, Tally

SAMPLES = ("left", "right")
ITEMS = (("a", "b", "c"), ("d", "e", "f"))
ALL = {f"{image}.{sample}" for item in ITEMS for image in item for sample in SAMPLES}


@dataclass
class Done:
    """The samples that were done."""

    samples: Counter[str] = field(default_factory=Counter)

    def add(self, other: Done) -> None:
        self.samples.update(other.samples)

    def measures(self) -> Iterator[Measure]:
        yield from ()


@dataclass(frozen=True)
class Fate:
    """What happens at an image, a sample, or the ``end``: a signal in every attempt, or where ``once`` in the first.

    ``signal`` None stands for an exception, 0 for an exit of the process.
    """

    at: str
    signal: signal.Signals | int | None
    once: bool = False


@dataclass(frozen=True)
class Trouble:
    """All that happens, and a folder to remember it in."""

    fates: tuple[Fate, ...]
    folder: Path


class Frail:
    """Does each sample of each image, unless its process ends before."""

    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble

    def run(self, attempt: Attempt[tuple[str, ...]]) -> Iterator[Done | At]:
        done = Done()
        for image in attempt.work:
            if image in attempt.condemned:
                continue
            if attempt.careful:
                yield At(image)
            self._meet(image)
            for sample in (f"{image}.{name}" for name in SAMPLES):
                if sample in attempt.condemned:
                    continue
                if image in attempt.suspects:
                    yield At(sample)
                self._meet(sample)
                done.samples[sample] += 1
            yield done
        if attempt.careful:
            yield At(None)
        self._meet("end")
        yield done

    def _meet(self, what: str) -> None:
        for fate in self._trouble.fates:
            memory = self._trouble.folder / f"{fate.at} {fate.signal}"
            if fate.at == what and not (fate.once and memory.exists()):
                memory.touch()
                if fate.signal is None:
                    raise UnreachableError("no answer")
                if fate.signal == 0:
                    os._exit(0)
                os.kill(os.getpid(), fate.signal)


@dataclass
class Told:
    """What a pool reported."""

    done: Done
    failed: list[Failed[tuple[str, ...]]]
    lost: list[Lost[tuple[str, ...]]]


def run_all(pool: Pool[tuple[str, ...], Done]) -> Told:
    """Run ITEMS on a pool of frail workers."""
    tally, told = Tally(Done), Told(Done(), [], [])
    for event in pool.run(iter(ITEMS)):
        tally.take(event)
        if isinstance(event, Failed):
            told.failed.append(event)
        elif isinstance(event, Lost):
            told.lost.append(event)
    told.done = tally.total()
    return told


class Found(dict[str, str]):
    """What a worker has found."""

    def add(self, other: Found) -> None:
        self.update(other)

    def measures(self) -> Iterator[Measure]:
        yield from ()


class Facts:
    """Tells about its process; a work item is ignored, but for its length."""

    def __init__(self, folder: str) -> None:
        print("this is no answer")
        print("nor is this", file=sys.stderr)

    def run(self, attempt: Attempt[bytes]) -> Iterator[Found]:
        os.kill(os.getpid(), signal.SIGINT)
        found = {**os.environ, "folder": os.getcwd(), "path": os.pathsep.join(sys.path)}
        yield Found({**found, "modules": " ".join(sys.modules), "length": str(len(attempt.work))})


class Refusing:
    """A worker that cannot be made."""

    def __init__(self, mistake: bool) -> None:
        if mistake:
            raise UserError("the frost textures are missing")
        print("it crashes now", file=sys.stderr, flush=True)
        os.abort()

    def run(self, attempt: Attempt[str]) -> Iterator[Done]:
        yield Done()
