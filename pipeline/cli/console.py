"""What commands say: tables, JSON, and errors with their exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import typer
from rich.console import Console
from rich.table import Table

from pipeline.cli.signals import preempted
from pipeline.errors import Exit, UnfinishedError, UnreachableError, UserError

_out = Console(highlight=False, soft_wrap=True)
_err = Console(stderr=True, highlight=False, soft_wrap=True)


class Told(Protocol):
    """What a command came to."""

    @property
    def complete(self) -> bool:
        """Whether nothing is left to do."""

    def facts(self) -> dict[str, Any]:
        """For machines."""

    def summary(self, output: str) -> Iterable[str]:
        """For people."""


def say(text: str) -> None:
    """A line on standard output."""
    _out.print(text, markup=False)


def say_all(lines: Iterable[str]) -> None:
    """Lines on standard output."""
    for line in lines:
        say(line)


def show(part: Any) -> None:
    """Anything that rich can print, on standard output."""
    _out.print(part)


def warn(text: str) -> None:
    """A warning on standard error."""
    _err.print(f"warning: {text}", markup=False)


def print_json(**facts: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(facts, indent=1))


def tell(outcome: Told, as_json: bool, output: str) -> None:
    """What a command came to, as JSON or in words. Exits with 3 where it is not complete."""
    if as_json:
        print_json(**outcome.facts(), output=output)
    else:
        say_all(outcome.summary(output))
    if not outcome.complete:
        raise typer.Exit(Exit.INCOMPLETE)


def print_table(titles: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """A table on standard output, and a blank line behind it."""
    table = Table(*titles, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*map(str, row))
    _out.print(table)
    _out.print()


@contextmanager
def errors_told(as_json: bool, preempted_exit: int = Exit.INCOMPLETE) -> Iterator[None]:
    """Errors of the user's world become one line and an exit code; a bug keeps its traceback."""
    try:
        yield
    except UnfinishedError as error:
        _end(str(error), Exit.INCOMPLETE, as_json)
    except UserError as error:
        _end(str(error), Exit.USAGE, as_json)
    except (OSError, UnreachableError) as error:
        _end(f"{error}; what is finished is kept, run the same command again", Exit.INCOMPLETE, as_json)
    except KeyboardInterrupt:
        what, code = ("told to end", preempted_exit) if preempted() else ("interrupted", Exit.INTERRUPTED)
        _end(f"{what}; what is finished is kept, run the same command again", code, as_json)


def _end(message: str, code: int, as_json: bool) -> None:
    if as_json:
        print_json(error=message, exit_code=int(code))
    _err.print(f"error: {message}", markup=False)
    raise typer.Exit(code)
