"""Workers that crash, hang or raise an exception on demand, or report facts about their process."""

import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.errors import UnreachableError, UserError
from pipeline.execution.base import Pool
from pipeline.execution.work import Attempt, CurrentItem, Failed, Lost, Reading, Tally

SAMPLES = ("left", "right")
ITEMS = (("a", "b", "c"), ("d", "e", "f"))
ALL = {f"{image}.{sample}" for item in ITEMS for image in item for sample in SAMPLES}
"""All samples of all images."""

UNREACHABLE = -1


@dataclass
class Done:
    """The samples that were made."""

    samples: Counter[str] = field(default_factory=Counter)

    @property
    def parts(self) -> int:
        """Each sample is a part."""
        return self.samples.total()

    def add(self, other: "Done") -> None:
        self.samples.update(other.samples)

    def readings(self) -> Iterator[Reading]:
        yield from ()


@dataclass(frozen=True)
class Fault:
    """A fault at an image, at a sample, or at the ``end`` of a work item.

    ``signal`` is sent to the worker process. None raises an OSError instead, UNREACHABLE an UnreachableError, and 0
    exits the process. The fault occurs in every attempt, or only in the first if ``once``.
    """

    at: str
    signal: signal.Signals | int | None
    once: bool = False


@dataclass(frozen=True)
class FaultPlan:
    """All faults, and a folder that records which have occurred."""

    faults: tuple[Fault, ...]
    folder: Path


class FaultyWorker:
    """A worker that makes each sample of each image, and fails as planned."""

    def __init__(self, plan: FaultPlan) -> None:
        self._plan = plan

    def run(self, attempt: Attempt[tuple[str, ...]]) -> Iterator[Done | CurrentItem]:
        done = Done()
        for image in attempt.work:
            if image in attempt.quarantined:
                continue
            if attempt.report_items:
                yield CurrentItem(image)
            self._fail_if_planned(image)
            for sample in (f"{image}.{name}" for name in SAMPLES):
                if sample in attempt.quarantined:
                    continue
                if image in attempt.suspects:
                    yield CurrentItem(sample)
                self._fail_if_planned(sample)
                done.samples[sample] += 1
            yield done
        if attempt.report_items:
            yield CurrentItem(None)
        self._fail_if_planned("end")
        yield done

    def _fail_if_planned(self, position: str) -> None:
        for fault in self._plan.faults:
            record = self._plan.folder / f"{fault.at} {fault.signal}"
            if fault.at == position and not (fault.once and record.exists()):
                record.touch()
                if fault.signal is None:
                    raise OSError("no answer")
                if fault.signal == UNREACHABLE:
                    raise UnreachableError("the store does not answer")
                if fault.signal == 0:
                    os._exit(0)
                os.kill(os.getpid(), fault.signal)


@dataclass
class PoolReport:
    """The events of a pool."""

    done: Done
    failed: list[Failed[tuple[str, ...]]]
    lost: list[Lost[tuple[str, ...]]]


def run_all(pool: Pool[tuple[str, ...], Done]) -> PoolReport:
    """Run ITEMS on a pool of faulty workers, and return its events."""
    tally, report = Tally(Done), PoolReport(Done(), [], [])
    for event in pool.run(iter(ITEMS)):
        tally.add(event)
        if isinstance(event, Failed):
            report.failed.append(event)
        elif isinstance(event, Lost):
            report.lost.append(event)
    report.done = tally.total()
    return report


class WorkerFacts(dict[str, str]):
    """Facts about a worker process."""

    parts = 0

    def add(self, other: "WorkerFacts") -> None:
        self.update(other)

    def readings(self) -> Iterator[Reading]:
        yield from ()


class ReportingWorker:
    """A worker that reports facts about its process. Of the work item only the length is used."""

    def __init__(self, folder: str) -> None:
        print("text on standard output")
        print("text on standard error", file=sys.stderr)

    def run(self, attempt: Attempt[bytes]) -> Iterator[WorkerFacts]:
        os.kill(os.getpid(), signal.SIGINT)
        facts = {**os.environ, "folder": os.getcwd(), "path": os.pathsep.join(sys.path)}
        yield WorkerFacts({**facts, "modules": " ".join(sys.modules), "length": str(len(attempt.work))})


class BrokenWorker:
    """A worker whose constructor fails: with an expected error, or with a crash."""

    def __init__(self, is_expected: bool) -> None:
        if is_expected:
            raise UserError("the frost textures are missing")
        print("it crashes now", file=sys.stderr, flush=True)
        os.abort()

    def run(self, attempt: Attempt[str]) -> Iterator[Done]:
        yield Done()
