"""What commands say: tables, JSON, and errors with their exit codes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

import typer
from rich.console import Console
from rich.table import Table

from pipeline.cli.output import OutputError, writing
from pipeline.cli.signals import preempted
from pipeline.errors import Exit, UnfinishedError, UnreachableError, UserError, file_error, is_lasting
from pipeline.text import escape_controls, one_line

_out = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
_err = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)

_UsageError: Any = typer.BadParameter.__base__
"""What is raised for options that cannot be; typer has no name for it, and brings its own click or imports another."""

AGAIN = "what is finished is kept, run the same command again"


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
    """Print a line on standard output. Raises OutputError, as all that print there."""
    with writing():
        _out.print(escape_controls(text))


def say_all(lines: Iterable[str]) -> None:
    """Print lines on standard output."""
    for line in lines:
        say(line)


def show(part: Any) -> None:
    """Print anything that rich can print on standard output."""
    with writing():
        _out.print(part)


def warn(text: str) -> None:
    """Print a warning on standard error."""
    _err.print(f"warning: {one_line(text)}")


def print_json(**facts: Any) -> None:
    """Print one JSON document on standard output."""
    with writing():
        print(json.dumps(facts, indent=1), flush=True)


def tell(outcome: Told, as_json: bool, output: str) -> None:
    """Print the result of a command, as JSON or in words. Exits with 3 if it is not complete."""
    if as_json:
        print_json(**outcome.facts(), output=output)
    else:
        say_all(outcome.summary(output))
    if not outcome.complete:
        raise typer.Exit(Exit.INCOMPLETE)


def print_table(titles: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table on standard output, and a blank line after it."""
    table = Table(*titles, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*map(str, row))
    with writing():
        _out.print(table)
        _out.print()


@contextmanager
def errors_told(as_json: bool, preempted_exit: int = Exit.INCOMPLETE) -> Iterator[None]:
    """Print expected errors as one line and exit; let unexpected ones raise, which :func:`bugs_told` reports."""
    try:
        yield
    except UnfinishedError as error:
        _end(str(error), Exit.INCOMPLETE, as_json)
    except UserError as error:
        _end(str(error), Exit.USAGE, as_json)
    except OSError as error:
        _end_of_file_error(error, as_json)
    except UnreachableError as error:
        _end(f"{error}; {AGAIN}", Exit.INCOMPLETE, as_json)
    except MemoryError:
        _end("this machine has too little memory for what was asked for", Exit.USAGE, as_json)
    except KeyboardInterrupt:
        what, code = _ended_by(preempted_exit)
        _end(f"{what}; {AGAIN}", code, as_json)


def _ended_by(preempted_exit: int = Exit.INCOMPLETE) -> tuple[str, int]:
    """Return what has ended the command, and the exit code for it."""
    return ("stopped by SIGTERM", preempted_exit) if preempted() else ("interrupted", Exit.INTERRUPTED)


@contextmanager
def misuse_told(as_json: bool) -> Iterator[None]:
    """Print what is wrong with the options of a command as one line, and exit with 2."""
    try:
        yield
    except _UsageError as error:
        message, context = error.format_message(), error.ctx
        if "\n" in message or not message:  # the help, since nothing was given
            error.show()
            raise SystemExit(Exit.USAGE) from None
        command = context.command_path if context else "robustshards"
        _say_error(f"{message[0].lower()}{message[1:].rstrip('.')}; {command} --help says more", Exit.USAGE, as_json)
        raise SystemExit(Exit.USAGE) from None
    except (typer.Abort, KeyboardInterrupt):  # outside of a command
        what, code = _ended_by()
        _say_error(f"{what}; {AGAIN}", code, as_json)
        raise SystemExit(code) from None


@contextmanager
def bugs_told() -> Iterator[None]:
    """Print an unexpected error as one line and exit with 70; with ROBUSTSHARDS_TRACEBACK=1, let it raise."""
    try:
        yield
    except (OutputError, OSError):  # outside of a command, only what is printed can fail so
        raise
    except Exception as error:
        if os.environ.get("ROBUSTSHARDS_TRACEBACK") == "1":
            raise
        what = one_line(f"{type(error).__name__}: {error}")
        _err.print(f"error: a bug: {what}; please report it with what ROBUSTSHARDS_TRACEBACK=1 shows")
        raise SystemExit(Exit.BUG) from None


def _end_of_file_error(error: OSError, as_json: bool) -> NoReturn:
    """End with 2 for a file that is not as it must be, with 3 where the machine is to blame and may recover."""
    if is_lasting(error):
        _end(file_error(error), Exit.USAGE, as_json)
    _end(f"{file_error(error)}; {AGAIN}", Exit.INCOMPLETE, as_json)


def _end(message: str, code: int, as_json: bool) -> NoReturn:
    _say_error(message, code, as_json)
    raise typer.Exit(code)


def _say_error(message: str, code: int, as_json: bool) -> None:
    message = one_line(message)
    if as_json:
        print_json(error=message, exit_code=int(code))
    _err.print(f"error: {message}")
