"""A progress bar for functions that take long."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from time import monotonic
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pipeline.execution.resumable import SilentWatcher
from pipeline.text import printable

REDRAW_EVERY_S = 0.5
"""Seconds between two updates of a bar in a notebook."""


class ProgressBar(SilentWatcher):
    """A watcher of an evaluation that shows a bar: on standard error, or in the output of a notebook's cell."""

    def __init__(self, text: str) -> None:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        console = Console(stderr=True, markup=False, emoji=False)
        self._in_notebook = console.is_jupyter
        # rich needs another package to update the output of a cell; IPython can do this alone.
        self._bars = Progress(*columns, console=console, disable=self._in_notebook)
        self._row = self._bars.add_task(printable(text), total=None)
        self._before, self._drawn = 0, 0.0
        self._handle: Any = None

    def counting(self, frames: int, predicted: int) -> None:
        """Set the number of images, and the number that earlier calls have predicted."""
        self._before = predicted
        self._bars.update(self._row, total=frames, completed=predicted)
        self._redraw()

    def advanced(self, frames: int) -> None:
        """Set the number of images predicted so far in this call."""
        self._bars.update(self._row, completed=self._before + frames)
        if monotonic() - self._drawn > REDRAW_EVERY_S:
            self._redraw()

    def __enter__(self) -> Self:
        self._bars.start()
        self._redraw()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Stop updating the bar, and fill that of finished work that counts no images."""
        if kind is None and self._bars.tasks[0].total is None:
            self._bars.update(self._row, total=1, completed=1)
        self._redraw()
        self._bars.stop()

    def _redraw(self) -> None:
        """Update the output of the cell. On a terminal, the bar is updated by a thread of its own."""
        if not self._in_notebook:
            return
        from IPython.display import display

        self._drawn = monotonic()
        if self._handle is None:
            self._handle = display(self._bars, display_id=True)
        else:
            self._handle.update(self._bars)


def progress_bar(shown: bool, text: str) -> AbstractContextManager[SilentWatcher]:
    """Return a context that shows a progress bar, if it is wanted, and gives a watcher for the work, named ``text``."""
    return ProgressBar(text) if shown else nullcontext(SilentWatcher())
