"""Progress on standard error: bars on a terminal, plain lines elsewhere."""

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


class Display:
    """Progress of a job: on a terminal a bar, and one per transform of a build; elsewhere a line now and then."""

    def __init__(self, verb: str = "predict", participle: str = "predicted") -> None:
        """Start without a bar. ``verb`` and its participle say what is done with images that are not built."""
        self._verb, self._participle = verb, participle
        self._console = _error_console()
        self._bars = _Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=self._console,
        )
        self._transforms: list[str] = []
        self._rows: dict[str, TaskID] = {}
        self._total = TaskID(0)
        self._shards_todo = self._images_todo = 0
        self._unit = ""
        self._tally = Tally(BuildCounts)
        self._started = self._last_shown = monotonic()
        self._first_line: tuple[int, float] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shards_todo:
            self._show_build()
        if self._console.is_terminal:
            self._bars.stop()

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

    def started(self, plan: Plan, todo: Counter[str], shards: int) -> None:
        """Print how many shards of a build are finished and how many are left, and start the bars."""
        self._shards_todo, self._unit = shards, plan.unit
        self._console.print(
            f"{counted(plan.images, 'image')}, {counted(plan.shards, self._unit)}: {plan.shards - shards:,} already "
            f"finished, {shards:,} to build"
        )
        for warning in plan.warnings if shards else ():
            self._console.print(f"warning: {printable(warning, LONGEST_MESSAGE)}", style="yellow", soft_wrap=True)
        self._start(todo, "[bold]total", f"0/{shards} {self._unit}s")

    def counting(self, frames: int, predicted: int) -> None:
        """Print how many images are finished and how many are left, and start the bar, which disappears at the end."""
        todo = frames - predicted
        self._console.print(
            f"{counted(frames, 'image')}: {predicted:,} already {self._participle}, {todo:,} to {self._verb}"
        )
        self._bars.live.transient = True
        self._start(Counter({"": todo}))

    def _start(self, todo: Counter[str], description: str = "", note: str = "") -> None:
        self._images_todo = todo.total()
        self._transforms = list(todo) if len(todo) > 1 else []  # the count of a single one is the total
        self._started = self._last_shown = monotonic()
        if self._console.is_terminal and self._images_todo:
            self._rows = {name: self._bars.add_task(name, total=todo[name], note="") for name in self._transforms}
            self._total = self._bars.add_task(description, total=self._images_todo, note=note)
            self._bars.start()

    def reported(self, tally: Tally[BuildCounts]) -> None:
        """Show the progress of a build, unless it was shown a moment ago."""
        self._tally = tally
        if self._is_due():
            self._show_build()

    def advanced(self, frames: int) -> None:
        """Show the progress, unless it was shown a moment ago."""
        if self._is_due() and frames:
            self._show(Counter({"": frames}))

    def _is_due(self) -> bool:
        return monotonic() - self._last_shown > (SHOW_EVERY_S if self._console.is_terminal else LINE_EVERY_S)

    def _show_build(self) -> None:
        done = self._tally.total()
        failed = f", {done.failed} failed" if done.failed else ""
        self._show(done.samples, f"{done.shards}/{self._shards_todo} {self._unit}s{failed}")

    def _show(self, done: Counter[str], note: str = "") -> None:
        self._last_shown, images = monotonic(), done.total()
        if self._bars.tasks:
            for name, row in self._rows.items():
                self._bars.update(row, completed=done[name])
            self._bars.update(self._total, completed=images, note=note)
            return
        speed = rate(images, self._last_shown - self._started)
        latest = ", ".join(f"{name} {count:,}" for name, count in done.items() if name in self._transforms)
        counts = ", ".join(filter(None, (f"{images:,}/{self._images_todo:,} images", note, speed)))
        self._console.print(counts + self._left(images) + (latest and f"; {latest}"), soft_wrap=True)

    def _left(self, done: int) -> str:
        """Return the time left at the speed since the first line with an image, which the start of workers delays.

        With a comma in front; empty if nothing is left.
        """
        todo = self._images_todo
        if done and self._first_line is None:
            self._first_line = done, monotonic()
        before, since = self._first_line or (0, 0.0)
        if before < done < todo:
            return f", about {duration((todo - done) * (monotonic() - since) / (done - before))} left"
        return "" if done >= todo else ", time left unknown"


@contextmanager
def counting() -> Iterator[Callable[[Findings], None]]:
    """Show a counter of checked samples on a terminal, nothing elsewhere. Yield a function of the findings so far."""
    console = _error_console()
    with _Bars(
        TextColumn("{task.description}"), console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        row = bar.add_task("checked 0 samples")

        def update(found: Findings) -> None:
            text = f"checked {found.samples:,} samples in {found.shards:,} files, {len(found.faults)} faults"
            bar.update(row, description=text)

        yield update


@contextmanager
def current_step(first: str) -> Iterator[Callable[[str], None]]:
    """Show the current step: on a terminal all the time, elsewhere as a line every few seconds.

    Yields:
        A function to call with each step after the first.
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
