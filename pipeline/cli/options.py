"""Options of commands, made from their settings, and the settings that several commands share."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import MISSING, Field, dataclass, fields
from functools import wraps
from typing import Annotated, Any, Protocol, TypeVar

import typer

from pipeline.cli.console import AGAIN, print_json, print_lines, report_errors
from pipeline.errors import Exit, UserError
from pipeline.settings import (
    ARGUMENT,
    EXECUTION,
    FLAG,
    IMAGES,
    REPORTING,
    REQUIRED,
    InvalidSettingError,
    Settings,
    choice,
    help_texts,
    integer,
    location,
    setting,
    text,
)
from pipeline.software import leave_out_pandas

Made = TypeVar("Made", bound=Settings)


class CommandResult(Protocol):
    """Result of a command."""

    @property
    def complete(self) -> bool:
        """Whether no work is left."""

    def facts(self) -> dict[str, Any]:
        """Return the result as a JSON object."""

    def summary(self, output: str) -> Iterable[str]:
        """Return the result as lines of text; ``output`` is the folder as the user wrote it."""


@dataclass(frozen=True)
class Printing(Settings):
    """How a command prints.

    Attributes:
        as_json: Print the result as JSON on standard output.
    """

    as_json: bool = setting(False, FLAG, REPORTING, "--json")

    def show(self, lines: Iterable[str], **facts: Any) -> None:
        """Print a result as lines of text, or as JSON."""
        if self.as_json:
            print_json(**facts)
        else:
            print_lines(lines)

    def show_result(self, result: CommandResult, output: str) -> None:
        """Print the result of a command that wrote to ``output``. Raise typer.Exit with 3 if it is incomplete."""
        self.show(result.summary(output), **result.facts(), output=output)
        if not result.complete:
            raise typer.Exit(Exit.INCOMPLETE)


@dataclass(frozen=True)
class Threads(Settings):
    """The threads of a command.

    Attributes:
        threads: Number of threads. Default: one per available CPU.
    """

    threads: int | None = setting(None, integer(1), EXECUTION)


@dataclass(frozen=True)
class Reading(Printing):
    """The data set that a command reads.

    Attributes:
        data_set: Folder or URL of a data set that build, render, attack or index wrote.
        data: For an index: folder of the indexed files. For a rendered data set: its source images. Default: where this
            machine indexed or rendered them.
    """

    data_set: str = setting(REQUIRED, text("FOLDER"), option=ARGUMENT)
    data: str | None = setting(None, location(), IMAGES)


@dataclass(frozen=True)
class Job(Printing):
    """How a command that takes long reports.

    Attributes:
        log: Format of progress on standard error: text (default), or json for one JSON line per event.
        preempted_exit: Exit code when stopped by SIGTERM.
    """

    log: str = setting("text", choice("text", "json"), REPORTING)
    preempted_exit: int = setting(Exit.INCOMPLETE, integer(0, 255, "CODE"), REPORTING)

    def watcher(self, verb: str = "predict", participle: str = "predicted") -> Any:
        """Return a context that reports the progress, see ``Display``."""
        from pipeline.cli.event_log import EventLog
        from pipeline.cli.progress import Display

        return EventLog() if self.log == "json" else Display(verb, participle)


@dataclass(frozen=True)
class Making(Printing):
    """How a command that makes images ends.

    Attributes:
        allow_failures: Exit with 0 even if some images failed.
    """

    allow_failures: bool = setting(False, FLAG, EXECUTION)

    def finish(self, result: CommandResult, failed: int, output: str) -> None:
        """Print the result of a command. Raise typer.Exit if it is incomplete, or has failures that are not allowed."""
        self.show_result(result, output)
        if failed and not self.allow_failures:
            raise typer.Exit(Exit.FAULTS)


@dataclass(frozen=True)
class MakingJob(Job, Making):
    """How a command that takes long and makes images reports and ends."""


def command(
    advice: str = AGAIN, during: Callable[..., AbstractContextManager[None]] = nullcontext
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator of commands whose parameters are settings: their fields become the options.

    Args:
        advice: What the user can do after an interruption or a temporary failure.
        during: Called with the options as given; the settings are read and the command runs inside its result.
    """

    def decorate(run: Callable[..., None]) -> Callable[..., None]:
        models = [each.annotation for each in inspect.signature(run, eval_str=True).parameters.values()]
        named = [each for model in models for each in parameters(model)]

        @wraps(run)
        def invoke(**given: Any) -> None:
            as_json = bool(given.get("as_json"))
            with during(given):
                with report_errors(as_json, advice=advice):
                    made = [settings_of(model, given) for model in models]
                leave_out_pandas()
                with report_errors(as_json, getattr(made[-1], "preempted_exit", Exit.INCOMPLETE), advice):
                    run(*made)

        invoke.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]  # typer reads both
        invoke.__annotations__ = {each.name: each.annotation for each in named}
        return invoke

    return decorate


def option_names(each: Field[Any]) -> list[str]:
    """Return the names of the option of a setting, the first one for messages."""
    return each.metadata["option"].split() or [f"--{each.name.replace('_', '-')}"]


def parameters(model: type[Any]) -> Iterator[inspect.Parameter]:
    """Yield the parameters for typer: text, or flags. The settings themselves read the text."""
    texts = help_texts(model)
    for each in fields(model):
        kind, about = each.metadata["kind"], dict[str, Any](help=texts.get(each.name, ""))
        about |= {"metavar": kind.metavar or None, "rich_help_panel": each.metadata["section"] or None}
        about["show_default"] = isinstance(each.default, int | float | str) and kind is not FLAG and str(each.default)
        default: Any = None if each.default is not MISSING else inspect.Parameter.empty
        value: Any = bool if kind is FLAG else list[str] if kind.many or kind.separator else str
        if each.default is False:
            default = False
        elif default is None:
            value = value | None
        if each.metadata["option"] == ARGUMENT:
            shown: Any = typer.Argument(**about)
        else:
            shown = typer.Option(*option_names(each), **about)
        yield inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[value, shown]
        )


def settings_of(model: type[Made], given: Mapping[str, Any]) -> Made:
    """Return the settings that options give. Raise UserError, which names the option, if one is invalid."""
    known, chosen = {each.name: each for each in fields(model)}, dict[str, Any]()
    for name, value in given.items():
        if name in known and value not in (None, []):
            separator = known[name].metadata["kind"].separator
            chosen[name] = separator.join(value) if separator else value
    try:
        return model(**chosen)
    except InvalidSettingError as error:
        where = known[error.name]
        name = where.metadata["kind"].metavar if where.metadata["option"] == ARGUMENT else option_names(where)[0]
        raise UserError(f"invalid {name} {error.reason}") from None
