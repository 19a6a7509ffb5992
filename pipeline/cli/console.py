"""Output of commands: lines, tables, JSON, and errors with their exit codes."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from pipeline.cli.help import UsageError, usage_message
from pipeline.cli.output import OutputError, writing
from pipeline.cli.signals import interrupted, preempted
from pipeline.errors import (
    Exit,
    UnfinishedError,
    UnreachableError,
    UserError,
    file_error_message,
    is_exhausted,
    is_permanent,
)
from pipeline.software import installed_versions, unmet_requirements
from pipeline.text import escape_controls, one_line

_plain = partial(Console, highlight=False, markup=False, emoji=False, soft_wrap=True)
_out, _err = _plain(), _plain(stderr=True)

WIDEST = 10_000
"""Maximum number of characters of a line of a table."""

AGAIN = "run the same command again"
"""Advice after an interruption of a command that starts from the beginning."""

TO_CONTINUE = "Run the same command to continue"
CONTINUE = f"finished files are kept. {TO_CONTINUE}"
"""Advice after an interruption of a command that resumes."""


def print_line(text: str) -> None:
    """Print a line on standard output.

    Raises:
        OutputError: Standard output cannot be written. All functions that print there raise it.
    """
    with writing():
        _out.print(escape_controls(text))


def print_lines(lines: Iterable[str]) -> None:
    """Print lines on standard output."""
    for line in lines:
        print_line(line)


def print_renderable(renderable: Any) -> None:
    """Print anything that rich can render on standard output."""
    with writing():
        _out.print(renderable)


def warn(text: str) -> None:
    """Print a warning on standard error."""
    _err.print(f"warning: {one_line(text)}")


def print_json(**facts: Any) -> None:
    """Print one JSON document on standard output."""
    with writing():
        print(json.dumps(facts, indent=1), flush=True)


def print_table(titles: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table and a blank line on standard output.

    No word is cut: the table may be wider than the terminal. In a file or pipe, each row is one line.
    """
    table = Table(box=None, header_style="bold", pad_edge=False)
    cells = [[escape_controls(str(cell)) for cell in row] for row in rows]
    for title, *column in zip(titles, *cells, strict=True):
        table.add_column(title, min_width=max(map(cell_len, " ".join([title, *column]).split()), default=0))
    for row in cells:
        table.add_row(*row)
    needed = Measurement.get(_out, _out.options.update(max_width=WIDEST), table)
    console = _plain(width=max(_out.width, needed.minimum) if _out.is_terminal else needed.maximum)
    with writing():
        console.print(table, crop=False)
        console.print()


@contextmanager
def report_errors(as_json: bool, preempted_exit: int = Exit.INCOMPLETE, advice: str = AGAIN) -> Iterator[None]:
    """Print expected errors as one line, also as JSON if asked for, and exit; :func:`report_bugs` handles the others.

    Args:
        as_json: Whether to print JSON on standard output.
        preempted_exit: Exit code after SIGTERM.
        advice: What the user can do after an interruption or a temporary failure.

    Raises:
        typer.Exit: An expected error was printed; its exit code says which kind.
    """
    try:
        with _interruptions():
            yield
    except UnfinishedError as error:
        _fail(str(error), Exit.INCOMPLETE, as_json)
    except UserError as error:
        _fail(str(error), Exit.USAGE, as_json)
    except OSError as error:
        if is_permanent(error):  # the user must fix a file; otherwise, the machine may recover
            _fail(file_error_message(error), Exit.USAGE, as_json)
        _fail(f"{file_error_message(error)}; {advice}", Exit.INCOMPLETE, as_json)
    except UnreachableError as error:
        _fail(f"{error}; {advice}", Exit.INCOMPLETE, as_json)
    except (MemoryError, RuntimeError) as error:
        if not is_exhausted(error):
            raise
        what = "not enough memory or threads: use a machine with more of them, fewer workers, or smaller images"
        _fail(f"{what}; {advice}", Exit.INCOMPLETE, as_json)
    except KeyboardInterrupt as error:  # of a job, it says what is kept
        cause, code = _interruption(preempted_exit)
        _fail(f"{cause}; {f'{error}. {TO_CONTINUE}' if str(error) else advice}", code, as_json)


@contextmanager
def _interruptions() -> Iterator[None]:
    """Raise KeyboardInterrupt for an error after a signal: a compiler drops the interruption and fails otherwise."""
    try:
        yield
    except Exception as error:
        if interrupted():
            raise KeyboardInterrupt from error
        raise


def _interruption(preempted_exit: int = Exit.INCOMPLETE) -> tuple[str, int]:
    """Return what interrupted the command, and the exit code for it."""
    return ("stopped by SIGTERM", preempted_exit) if preempted() else ("interrupted", Exit.INTERRUPTED)


@contextmanager
def report_misuse(as_json: bool) -> Iterator[None]:
    """Print an error in the arguments of a command as one line, also as JSON if asked for, and exit with 2."""
    try:
        yield
    except UsageError as error:
        message, context = usage_message(error), error.ctx
        if "\n" in message or not message:  # the help, printed because there were no arguments
            error.show()
            raise SystemExit(Exit.USAGE) from None
        command = context.command_path if context else "robustshards"
        _print_error(f"{message}; for help run {command} --help", Exit.USAGE, as_json)
        raise SystemExit(Exit.USAGE) from None
    except (typer.Abort, KeyboardInterrupt):  # before or after the command itself
        cause, code = _interruption()
        _print_error(f"{cause}; {AGAIN}", code, as_json)
        raise SystemExit(code) from None


@contextmanager
def report_bugs() -> Iterator[None]:
    """Print an unexpected error as one line and exit with 70; with ROBUSTSHARDS_TRACEBACK=1, let it raise."""
    try:
        yield
    except (OutputError, OSError):  # outside of a command, only printing raises these: checked_output reports them
        raise
    except Exception as error:
        if os.environ.get("ROBUSTSHARDS_TRACEBACK") == "1":
            raise
        what = one_line(f"{type(error).__name__}: {error}")
        if advice := unmet_requirements() or _missing_library(error):
            _err.print(f"error: {what}; {advice}")
            raise SystemExit(Exit.USAGE) from None
        _err.print(
            f"error: internal error: {what}; please report this bug with the traceback that the same command "
            "prints when the environment variable ROBUSTSHARDS_TRACEBACK is 1"
        )
        raise SystemExit(Exit.BUG) from None


def _missing_library(error: Exception) -> str:
    """Return what to do if a shared library is missing that a package needs; empty for other errors."""
    if "cannot open shared object file" not in str(error):
        return ""
    version = installed_versions(["opencv-python"]).get("opencv-python", "VERSION")
    return (
        "install this library of the system, for OpenCV on Debian by apt-get install libgl1 libglib2.0-0, or without "
        f"root by pip install --force-reinstall --no-deps opencv-python-headless=={version}"
    )


def _fail(message: str, code: int, as_json: bool) -> NoReturn:
    _print_error(message, code, as_json)
    raise typer.Exit(code)


def _print_error(message: str, code: int, as_json: bool) -> None:
    message = one_line(message)
    if as_json:
        print_json(error=message, exit_code=int(code))
    _err.print(f"error: {message}")
