"""Events of a build or evaluation as JSON lines on standard error."""

import json
import sys
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Self

from pipeline.builder.counts import BuildCounts
from pipeline.builder.plan import Plan, WorkItem
from pipeline.execution.work import Event, Failed, Progress, Reading, Tally

EVERY_S = 10.0
"""Seconds between two ``progress`` lines."""


class EventLog:
    """Writer of JSON lines, each with its event and the time in UTC."""

    def __init__(self) -> None:
        self._last_progress = monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: each line is flushed when it is written."""

    def line(self, event: str, **facts: Any) -> None:
        """Write one event."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        print(json.dumps({"time": time, "event": event, **facts}), file=sys.stderr, flush=True)

    def preparing(self, what: str) -> None:
        """Write that a preparatory step begins."""
        self.line("preparing", what=what)

    def on_event(self, event: Event[Any, Any]) -> None:
        """Write that a work item has finished, failed or been given up."""
        work = event.work
        if isinstance(work, WorkItem):
            identity = {"block": work.index, "shards": [task.name for task in work.tasks]}
        else:
            identity = {"shards": [chunk.name for chunk in work]}
        common = {"piece": event.index, **identity, "place": event.place}
        if isinstance(event, Progress):
            self.line("finished", **common, **summed(event.counts.readings()))
        elif isinstance(event, Failed):
            self.line("failed", **common, attempt=event.attempt, reason=event.reason)
        else:
            self.line("given up", **common, reason=event.reason)

    def started(self, plan: Plan, todo: Counter[str], shards: int) -> None:
        """Write how much work of a build is left."""
        counts = {"images": plan.images, "shards": shards, "samples": dict(todo)}
        self.line("started", recipe=plan.recipe.name, **counts, warnings=list(plan.warnings))

    def reported(self, tally: Tally[BuildCounts]) -> None:
        """Write the progress of a build, at most once in ``EVERY_S`` seconds."""
        if self._is_due():
            done = tally.total()
            self.line("progress", shards=done.shards, **summed(done.readings()))

    def counting(self, frames: int, predicted: int) -> None:
        """Write how many frames there are, and how many already have predictions."""
        self.line("started", frames=frames, there=predicted)

    def advanced(self, frames: int) -> None:
        """Write the progress, at most once in ``EVERY_S`` seconds."""
        if self._is_due():
            self.line("progress", frames=frames)

    def _is_due(self) -> bool:
        """Return whether it is time for another ``progress`` line, and count it as written."""
        if monotonic() - self._last_progress < EVERY_S:
            return False
        self._last_progress = monotonic()
        return True


def summed(readings: Iterable[Reading]) -> dict[str, float]:
    """Return name -> sum over all labels, rounded to 3 decimals."""
    sums: Counter[str] = Counter()
    for reading in readings:
        sums[reading.name] += reading.value  # type: ignore[assignment]  # Counter is typed for whole numbers
    return {name: round(value, 3) for name, value in sums.items()}
