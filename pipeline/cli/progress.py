"""How a build shows itself: a live table on a terminal, plain lines elsewhere. Always on standard error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from time import monotonic
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from pipeline.build.counts import BuildCounts
from pipeline.build.plan import Plan
from pipeline.datasets.findings import Findings
from pipeline.execution.work import Event, Failed, Tally
from pipeline.text import LONGEST_MESSAGE, printable

LINE_EVERY_S = 10.0
"""Seconds between two lines where there is no terminal."""

SHOW_EVERY_S = 0.2
"""Seconds between two states of the bars."""


_to_error = partial(Console, stderr=True, highlight=False, markup=False, emoji=False)
"""A console on standard error that shows names as they are."""


class _Rate(ProgressColumn):
    """Samples per second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f} images/s" if task.speed else "", style="cyan")


class Display:
    """Watches a build. On a terminal: a bar for each transform and one for all; elsewhere a line now and then."""

    def __init__(self) -> None:
        self._console = _to_error()
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=self._console,
        )
        self._rows: dict[str, TaskID] = {}
        self._all = TaskID(0)
        self._shards_todo = self._samples_todo = 0
        self._tally = Tally(BuildCounts)
        self._started = self._said = monotonic()

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shards_todo:
            self._show()
        if self._console.is_terminal:
            self._bars.stop()

    def preparing(self, what: str) -> None:
        """Say what goes on before the work."""
        self._console.print(f"{printable(what, LONGEST_MESSAGE)} ...", style="dim")

    def started(self, plan: Plan, todo: Counter[str], shards: int) -> None:
        """Say what is there and what is missing."""
        self._started = self._said = monotonic()
        self._shards_todo, self._samples_todo = shards, todo.total()
        there = plan.shards - shards
        self._console.print(
            f"{plan.images:,} images, {plan.shards:,} shards: {there:,} already there, {shards:,} to make",
        )
        if self._console.is_terminal and shards:
            self._rows = {name: self._bars.add_task(name, total=count, note="") for name, count in todo.items()}
            self._all = self._bars.add_task("[bold]all", total=todo.total(), note=f"0/{shards} shards")
            self._bars.start()

    def reported(self, tally: Tally[BuildCounts]) -> None:
        """Show what has been done, now and then."""
        self._tally = tally
        if monotonic() - self._said > (SHOW_EVERY_S if self._rows else LINE_EVERY_S):
            self._show()

    def on_event(self, event: Event[Any, Any]) -> None:
        """Say that work is lost and done again."""
        _say_failed(self._console, event)

    def _show(self) -> None:
        self._said = monotonic()
        done = self._tally.total()
        failed = f", {done.failed} failed" if done.failed else ""
        note = f"{done.shards}/{self._shards_todo} shards{failed}"
        if self._rows:
            for name, row in self._rows.items():
                self._bars.update(row, completed=done.samples[name])
            self._bars.update(self._all, completed=done.samples.total(), note=note)
        else:
            self._line(done.samples, note)

    def _line(self, samples: Counter[str], note: str) -> None:
        done = samples.total()
        rate = done / max(self._said - self._started, 1e-9)
        left = f"{(self._samples_todo - done) / rate:,.0f} s left" if rate else "no estimate yet"
        latest = ", ".join(f"{name} {count:,}" for name, count in samples.items())
        self._console.print(
            f"{done:,}/{self._samples_todo:,} images, {note}, {rate:,.0f} images/s, {left}; {latest}",
            soft_wrap=True,
        )


@contextmanager
def counting(verb: str) -> Iterator[Callable[[Findings], None]]:
    """Show a counter of samples on a terminal, nothing elsewhere. Gives the function to call with the findings."""
    console = _to_error()
    with Progress(
        TextColumn("{task.description}"), console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        row = bar.add_task(f"{verb} nothing yet")

        def update(found: Findings) -> None:
            text = f"{verb} {found.samples:,} samples in {found.shards:,} shards, {len(found.faults)} faults"
            bar.update(row, description=text)

        yield update


@contextmanager
def conditions_shown() -> Iterator[Callable[[str], None]]:
    """Show the current condition on a terminal, nothing elsewhere. Gives the function to call with each condition."""
    console = _to_error()
    with console.status("looking ...") if console.is_terminal else nullcontext() as status:
        yield lambda condition: status.update(condition) if status else None


class FrameCount:
    """Watches an evaluation: one bar of frames on a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        self._console = _to_error()
        self._bar = Progress(
            BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn(), console=self._console, transient=True
        )
        self._row = TaskID(0)
        self._all = 0
        self._started = self._said = monotonic()

    def __enter__(self) -> FrameCount:
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._bar.stop()

    def preparing(self, what: str) -> None:
        """Say what goes on before the work."""
        self._console.print(f"{printable(what, LONGEST_MESSAGE)} ...", style="dim")

    def counting(self, frames: int, there: int) -> None:
        """Say how many frames there are, and how many of them are done already."""
        self._all, self._started, self._said = frames - there, monotonic(), monotonic()
        self._console.print(f"{frames:,} images: {there:,} already there, {self._all:,} to predict")
        if self._console.is_terminal and self._all:
            self._row = self._bar.add_task("", total=self._all)
            self._bar.start()

    def advanced(self, frames: int) -> None:
        """Show how many have been done so far, now and then."""
        if monotonic() - self._said <= (SHOW_EVERY_S if self._console.is_terminal else LINE_EVERY_S):
            return
        self._said = monotonic()
        if self._console.is_terminal:
            self._bar.update(self._row, completed=frames)
        elif frames:
            rate = frames / (self._said - self._started)
            left = (self._all - frames) / max(rate, 1e-9)
            text = f"{frames:,}/{self._all:,} images, {rate:,.0f} images/s, {left:,.0f} s left"
            self._console.print(text)

    def on_event(self, event: Event[Any, Any]) -> None:
        """Say that work is lost and done again."""
        _say_failed(self._console, event)


def _say_failed(console: Console, event: Event[Any, Any]) -> None:
    if isinstance(event, Failed):
        where = f"{event.place}: " if event.place else ""
        text = f"attempt {event.attempt} at a part of the work has failed; it is tried again: {where}{event.reason}"
        console.print(printable(text, LONGEST_MESSAGE), style="yellow", soft_wrap=True)
