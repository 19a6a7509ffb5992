"""The page ``docs/cli.md``, generated from the help texts of the commands."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import typer

from pipeline.cli.app import app
from pipeline.cli.help import EXIT_CODES, Command, Group, default_of, name_of

INTRODUCTION = """\
# Command line

<!-- Generated from the help texts in pipeline/cli by `make docs`. Do not edit. -->

`robustshards COMMAND --help` prints what this page says about a command. The examples build on each other: run them in
order, in a folder that holds `imagenet-val`, images in one folder per class, named by WordNet id (`n01440764` ...). The
example of `select` also needs the tables of [selection](selection.md#input).

Options with comma-separated values can also be repeated. Results go to standard output; progress, warnings and errors
go to standard error. `robustshards --version` prints the version. `robustshards --install-completion` installs the
completion of commands and options by Tab for your shell."""


DEFAULT = re.compile(r" Default: (?P<value>.*?)\.(?= |$)")
"""The sentence of a help text that states the default."""


def page() -> str:
    """Return the page as Markdown."""
    program = typer.main.get_command(app)
    assert isinstance(program, Group)
    parts = [INTRODUCTION]
    for title, commands in program.groups().items():
        parts.append(f"## {title}")
        for name, command in commands.items():
            parts += _command(name, command)
    parts.append("## Exit codes")
    parts.append(_table(("Code", "Meaning"), ((str(int(code)), meaning) for code, meaning in EXIT_CODES.items())))
    return "\n\n".join(parts) + "\n"


def _command(name: str, command: Command) -> Iterator[str]:
    context = typer.Context(command, info_name=f"robustshards {name}")
    yield f"### {name}"
    yield str(command.help)
    yield f"```text\n{' '.join([f'robustshards {name}', *command.collect_usage_pieces(context)])}\n```"
    for title, parameters in command.sections(context).items():
        rows = [_row(each) for each in parameters if each.name != "help"]
        if rows:
            yield _table((title, "Description", "Default"), rows)
    yield "Example:"
    yield f"```bash\n{command.epilog}\n```"


def _row(parameter: Any) -> tuple[str, str, str]:
    """Return name, description and default. A default that the help text states in a sentence moves to its column."""
    stated = DEFAULT.search(parameter.help)
    default = default_of(parameter)
    shown = stated["value"] if stated else f"`{default}`" if default else ""
    return f"`{name_of(parameter)}`", DEFAULT.sub("", parameter.help), shown


def _table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(titles)
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
