"""Progress on standard error: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from time import monotonic
from typing import Any, Self

from rich.console import Console, RenderableType
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

from pipeline.builder.counts import BuildCounts
from pipeline.builder.plan import Plan
from pipeline.cli import signals
from pipeline.datasets.findings import Findings
from pipeline.execution.scheduler import MAX_ATTEMPTS
from pipeline.execution.work import Event, Failed, Tally
from pipeline.text import LONGEST_MESSAGE, counted, duration, printable, rate

LINE_EVERY_S = 10.0
"""Seconds between two progress lines where standard error is not a terminal."""

SHOW_EVERY_S = 0.2
"""Seconds between two updates of the bars."""


_error_console = partial(Console, stderr=True, highlight=False, markup=False, emoji=False)
"""Console on standard error; names that look like markup are printed literally."""


class _Bars(Progress):
    """Progress bars above which the handler of Ctrl-C prints its line."""

    def start(self) -> None:
        """Show the bars."""
        super().start()
        signals.displays.append(self.console.print)

    def stop(self) -> None:
        """Leave or remove the bars."""
        signals.displays.clear()
        super().stop()

    def get_renderables(self) -> Iterator[RenderableType]:
        """Yield the bars, and an empty line to which the terminal writes ``^C``, because a full one would be broken."""
        yield from super().get_renderables()
        if signals.displays:
            yield ""


class _Rate(ProgressColumn):
    """Column with the mean speed, as in the lines and in the result."""

    def render(self, task: Task) -> Text:
        return Text(rate(int(task.completed), task.elapsed) if task.completed and task.elapsed else "", style="cyan")


class _Printer:
    """What displays of the progress on standard error share."""

    def __init__(self) -> None:
        self._console = _error_console()
        self._first_line: tuple[int, float] | None = None

    def __enter__(self) -> Self:
        return self

    def preparing(self, what: str) -> None:
        """Print a preparatory step."""
        self._console.print(f"{printable(what, LONGEST_MESSAGE)} ...", style="dim")

    def on_event(self, event: Event[Any, Any]) -> None:
        """Print failed attempts."""
        if isinstance(event, Failed):
            # There are more than MAX_ATTEMPTS where images in quarantine explain the failures.
            limit = f" of {MAX_ATTEMPTS}" if event.attempt < MAX_ATTEMPTS else ""
            where = f"{event.place}: " if event.place else ""
            text = f"work item {event.index} failed (attempt {event.attempt}{limit}), retrying: {where}{event.reason}"
            self._console.print(printable(text, LONGEST_MESSAGE), style="yellow", soft_wrap=True)

    def _left(self, done: int, todo: int) -> str:
        """Return the time left at the speed since the first line with an image, which the start of workers delays.

        With a comma in front; empty if nothing is left.
        """
        if done and self._first_line is None:
            self._first_line = done, monotonic()
        before, since = self._first_line or (0, 0.0)
        if before < done < todo:
            return f", about {duration((todo - done) * (monotonic() - since) / (done - before))} left"
        return "" if done >= todo else ", time left unknown"


class Display(_Printer):
    """Progress of a build: on a terminal one bar per transform and one for all, elsewhere a line every few seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._bars = _Bars(
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
        self._started = self._last_shown = monotonic()

    def __exit__(self, *_: object) -> None:
        if self._shards_todo:
            self._show()
        if self._console.is_terminal:
            self._bars.stop()

    def started(self, plan: Plan, todo: Counter[str], shards: int) -> None:
        """Print how many shards are finished and how many are left, and start the bars."""
        self._started = self._last_shown = monotonic()
        self._shards_todo, self._samples_todo = shards, todo.total()
        finished = plan.shards - shards
        self._console.print(
            f"{counted(plan.images, 'image')}, {counted(plan.shards, 'shard')}: {finished:,} already finished, "
            f"{shards:,} to build",
        )
        for warning in plan.warnings if shards else ():
            self._console.print(f"warning: {printable(warning, LONGEST_MESSAGE)}", style="yellow", soft_wrap=True)
        if self._console.is_terminal and shards:
            self._rows = {name: self._bars.add_task(name, total=count, note="") for name, count in todo.items()}
            self._all = self._bars.add_task("[bold]total", total=todo.total(), note=f"0/{shards} shards")
            self._bars.start()

    def reported(self, tally: Tally[BuildCounts]) -> None:
        """Show the progress, unless it was shown a moment ago."""
        self._tally = tally
        if monotonic() - self._last_shown > (SHOW_EVERY_S if self._rows else LINE_EVERY_S):
            self._show()

    def _show(self) -> None:
        self._last_shown = monotonic()
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
        spent = max(self._last_shown - self._started, 1e-9)
        left = self._left(done, self._samples_todo)
        latest = "; " * bool(samples) + ", ".join(f"{name} {count:,}" for name, count in samples.items())
        self._console.print(
            f"{done:,}/{self._samples_todo:,} images, {note}, {rate(done, spent)}{left}{latest}",
            soft_wrap=True,
        )


@contextmanager
def counting(verb: str) -> Iterator[Callable[[Findings], None]]:
    """Show a counter of samples on a terminal, nothing elsewhere.

    Args:
        verb: What is done with the samples, in the past tense.

    Yields:
        A function to call with the findings so far.
    """
    console = _error_console()
    with _Bars(
        TextColumn("{task.description}"), console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        row = bar.add_task(f"{verb} 0 samples")

        def update(found: Findings) -> None:
            text = f"{verb} {found.samples:,} samples in {found.shards:,} shards, {len(found.faults)} faults"
            bar.update(row, description=text)

        yield update


@contextmanager
def current_step(first: str) -> Iterator[Callable[[str], None]]:
    """Show the current step: on a terminal all the time, elsewhere as a line every few seconds.

    Args:
        first: The first step.

    Yields:
        A function to call with each further step.
    """
    console, last_shown = _error_console(), monotonic()

    def show(step: str) -> None:
        nonlocal last_shown
        if status:
            status.update(step)
        elif monotonic() - last_shown > LINE_EVERY_S:
            last_shown = monotonic()
            console.print(step, soft_wrap=True)

    with console.status(first) if console.is_terminal else nullcontext() as status:
        yield show


class FrameCount(_Printer):
    """Progress of an evaluation or a search: one bar on a terminal, a line every few seconds elsewhere."""

    def __init__(self, verb: str = "predict", participle: str = "predicted") -> None:
        """Start without a bar. ``verb`` and its participle say what is done with the images."""
        super().__init__()
        self._verb, self._participle = verb, participle
        self._bar = _Bars(
            BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn(), console=self._console, transient=True
        )
        self._row = TaskID(0)
        self._frames_todo = 0
        self._started = self._last_shown = monotonic()

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._bar.stop()

    def counting(self, frames: int, predicted: int) -> None:
        """Print how many images are finished and how many are left, and start the bar."""
        self._frames_todo, self._started, self._last_shown = frames - predicted, monotonic(), monotonic()
        self._console.print(
            f"{counted(frames, 'image')}: {predicted:,} already {self._participle}, "
            f"{self._frames_todo:,} to {self._verb}"
        )
        if self._console.is_terminal and self._frames_todo:
            self._row = self._bar.add_task("", total=self._frames_todo)
            self._bar.start()

    def advanced(self, frames: int) -> None:
        """Show the progress, unless it was shown a moment ago."""
        if monotonic() - self._last_shown <= (SHOW_EVERY_S if self._console.is_terminal else LINE_EVERY_S):
            return
        self._last_shown = monotonic()
        if self._console.is_terminal:
            self._bar.update(self._row, completed=frames)
        elif frames:
            spent = self._last_shown - self._started
            left = self._left(frames, self._frames_todo)
            self._console.print(f"{frames:,}/{self._frames_todo:,} images, {rate(frames, spent)}{left}")
