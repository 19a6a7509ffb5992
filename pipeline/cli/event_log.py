"""How the work goes on, as JSON lines on standard error: one for each event, with the identity of the work."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from pipeline.build.counts import BuildCounts
from pipeline.build.plan import Plan, WorkItem
from pipeline.execution.work import Event, Failed, Measure, Progress, Tally

EVERY_S = 10.0
"""Seconds between two lines that only say how far the work has come."""


class Log:
    """Writes lines. ``time`` is in UTC; whatever runs the command may keep them."""

    def __init__(self) -> None:
        self._said = monotonic()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left to do: each line is written at once."""

    def line(self, event: str, **facts: Any) -> None:
        """Write one event."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        print(json.dumps({"time": time, "event": event, **facts}), file=sys.stderr, flush=True)

    def preparing(self, what: str) -> None:
        """Write that a step before the work begins."""
        self.line("preparing", what=what)

    def on_event(self, event: Event[Any, Any]) -> None:
        """Write what has become of a work item."""
        told = {"piece": event.index, **self.identity(event.work), "place": event.place}
        if isinstance(event, Progress):
            self.line("finished", **told, **summed(event.counts.measures()))
        elif isinstance(event, Failed):
            self.line("failed", **told, attempt=event.attempt, reason=event.reason)
        else:
            self.line("given up", **told, reason=event.reason)

    def identity(self, work: Any) -> dict[str, Any]:
        """Return what a work item is known by."""
        raise NotImplementedError

    def due(self) -> bool:
        """Whether it is time to say again how far the work has come."""
        if monotonic() - self._said < EVERY_S:
            return False
        self._said = monotonic()
        return True


class BuildLog(Log):
    """Watches a build."""

    def started(self, plan: Plan, todo: Counter[str], shards: int) -> None:
        """Write what is to be done."""
        self.line("started", recipe=plan.recipe.name, images=plan.images, shards=shards, samples=dict(todo))

    def reported(self, tally: Tally[BuildCounts]) -> None:
        """How far the work has come, now and then."""
        if self.due():
            done = tally.total()
            self.line("progress", shards=done.shards, **summed(done.measures()))

    def identity(self, work: WorkItem) -> dict[str, Any]:
        """Return the block, and the shards that are made of it."""
        return {"block": work.index, "shards": [task.name for task in work.tasks]}


class EvaluationLog(Log):
    """Watches an evaluation."""

    def counting(self, frames: int, there: int) -> None:
        """Write what is to be done."""
        self.line("started", frames=frames, there=there)

    def advanced(self, frames: int) -> None:
        """How far the work has come, now and then."""
        if self.due():
            self.line("progress", frames=frames)

    def identity(self, work: Iterable[Any]) -> dict[str, Any]:
        """Return the shards."""
        return {"shards": [chunk.name for chunk in work]}


def summed(measures: Iterable[Measure]) -> dict[str, float]:
    """Return the measures by name, over all their labels."""
    sums: Counter[str] = Counter()
    for measure in measures:
        sums[measure.name] += measure.value  # type: ignore[assignment]  # Counter is typed for whole numbers
    return {name: round(value, 3) for name, value in sums.items()}
