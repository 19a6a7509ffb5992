"""Help texts of the commands, and errors for missing arguments. Plain text, sections with headings, one example."""

import textwrap
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from pipeline.errors import Exit
from pipeline.settings import EXECUTION, REPORTING

UsageError: Any = typer.BadParameter.__base__
"""Error in the arguments of a command. typer does not export it, and has its own copy of click or imports click."""

EXIT_CODES: Mapping[Exit, str] = {
    Exit.OK: "Success.",
    Exit.FAULTS: "Some samples failed or are damaged.",
    Exit.USAGE: "Invalid input. The message says what to change.",
    Exit.INCOMPLETE: "Unfinished. Run the same command to continue.",
    Exit.BUG: "Internal error. Please report it.",
    Exit.INTERRUPTED: "Interrupted by Ctrl-C. Run the same command to continue.",
}
"""Exit code -> its meaning, for help texts."""

REQUIRED = "Required"
"""Title of the first section of a command."""

NAMES_WIDTH = 30
"""Maximum number of characters of names beside which a text starts on the same line."""


class Command(TyperCommand):
    """A command whose help lists its options in sections and ends with an example, which is its ``epilog``."""

    allow_extra_args = True  # parse_args refuses them, with a message in the style of the others

    def required(self) -> list[Any]:
        """Return the required arguments and options."""
        return [each for each in self.params if each.required]

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line after the name of the command."""
        optional = [f"[{each.metavar}]" for each in self.params if _is_argument(each) and not each.required]
        return [*map(usage_of, self.required()), *optional, "[OPTIONS]"]

    def sections(self, ctx: Any) -> dict[str, list[Any]]:
        """Return title -> parameters, the required ones first."""
        sections: dict[str, list[Any]] = {REQUIRED: self.required()} if self.required() else {}
        for each in self.get_params(ctx):
            if not each.required:
                sections.setdefault(getattr(each, "rich_help_panel", None) or REPORTING, []).append(each)
        last = {title: sections.pop(title) for title in (EXECUTION, REPORTING) if title in sections}
        return sections | last

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the sections of the help."""
        for title, parameters in self.sections(ctx).items():
            with formatter.section(title):
                _write_rows(formatter, [(name_of(each), text_of(each)) for each in parameters])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the example, unwrapped, so that it can be copied."""
        with formatter.section("Example"):
            formatter.write(f"{'':>{formatter.current_indent}}{self.epilog}\n")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments.

        Raises:
            UsageError: An argument is invalid, or some are missing; the message then names all that are missing.
        """
        given = list(args)  # the parser empties its list
        try:
            if extra := super().parse_args(ctx, args):
                raise UsageError(f"unexpected arguments: {' '.join(extra)}", ctx)
            return extra
        except typer.BadParameter as error:
            values, _, _ = self.make_parser(ctx).parse_args(args=given)
            missing = [each for each in self.required() if values.get(each.name) in (None, (), [])]
            if error.param not in missing:
                raise
            *first, names = map(usage_of, missing)
            if first:
                names = f"{', '.join(first)} and {names}"
            raise UsageError(f"missing {names}; for example: {self.epilog}", ctx) from None
        except UsageError as error:
            error.ctx = ctx  # None if an option lacks its value
            raise


class Group(TyperGroup):
    """The program, whose help lists the commands in groups and ends with the exit codes."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line after the name of the program."""
        return ["COMMAND", "[OPTIONS]"]

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Return the name of a command, the command and its arguments. Raise UsageError if it is unknown."""
        if args[0] not in self.commands and not args[0].startswith("-"):
            similar = ", ".join(map(repr, get_close_matches(args[0], self.commands)))
            hint = f" (did you mean {similar}?)" if similar else ""
            raise UsageError(f"no such command {args[0]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def groups(self) -> dict[str, dict[str, Any]]:
        """Return title -> name -> command."""
        groups: dict[str, dict[str, Any]] = {}
        for name, command in self.commands.items():
            groups.setdefault(command.rich_help_panel or "", {})[name] = command  # type: ignore[attr-defined]
        return groups

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the groups of commands."""
        for title, commands in self.groups().items():
            with formatter.section(title):
                _write_rows(formatter, [(name, command.help.partition("\n")[0]) for name, command in commands.items()])
        with formatter.section("Options"):
            _write_rows(formatter, [(name_of(each), text_of(each)) for each in self.get_params(ctx)])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the exit codes."""
        with formatter.section("Exit codes"):
            _write_rows(formatter, [(str(int(code)), meaning) for code, meaning in EXIT_CODES.items()])
        formatter.write_paragraph()
        formatter.write_text("For the options of a command and an example, run robustshards COMMAND --help.")


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def name_of(parameter: Any) -> str:
    """Return an argument or option as help texts list it: its names, and the placeholder of its value."""
    if _is_argument(parameter):
        return str(parameter.metavar)
    positive = sorted(parameter.opts, key=lambda name: (name == "-h", len(name)))
    names = ", ".join([*positive, *parameter.secondary_opts])
    return names if parameter.is_flag else f"{names} {parameter.metavar}"


def usage_of(parameter: Any) -> str:
    """Return a required argument or option as in a command line."""
    if _is_argument(parameter):
        return str(parameter.metavar)
    return f"{parameter.opts[0]} {parameter.metavar}"


def text_of(parameter: Any) -> str:
    """Return the text of an argument or option, and its default where the text does not say it."""
    default = default_of(parameter)
    return parameter.help if not default or "efault" in parameter.help else f"{parameter.help} Default: {default}."


def default_of(parameter: Any) -> str:
    """Return the default of an option as it would be typed; empty where there is none."""
    shown = getattr(parameter, "show_default", None)
    return shown if isinstance(shown, str) else ""


def usage_message(error: Any) -> str:
    """Return a usage error as one clause in lower case, without a full stop."""
    if possible := getattr(error, "possibilities", None):
        return f"no such option: {error.option_name} (possible options: {', '.join(sorted(possible))})"
    text = error.format_message().rstrip(".")
    return f"{text[:1].lower()}{text[1:]}"


def _write_rows(formatter: Any, rows: Sequence[tuple[str, str]]) -> None:
    """Write names and their texts in two columns. Unlike click, never break a name at a hyphen."""
    left = min(max(len(name) for name, _ in rows), NAMES_WIDTH)
    start = formatter.current_indent + left + 2
    for name, text in rows:
        lines = textwrap.wrap(text, max(formatter.width - start, 20), break_on_hyphens=False) or [""]
        head = f"{'':>{formatter.current_indent}}{name:<{left}}  "
        if len(name) > left:
            formatter.write(f"{head.rstrip()}\n")
            head = f"{'':>{start}}"
        formatter.write(f"{head}{lines[0]}\n")
        for line in lines[1:]:
            formatter.write(f"{'':>{start}}{line}\n")
