"""The command ``robustshards``: arguments, progress, exit codes; no logic.

What a command works with is loaded by the command itself, so that help, and a mistyped option, take no time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import typer

from pipeline.cli import signals
from pipeline.cli.commands.build import build
from pipeline.cli.commands.doctor import doctor
from pipeline.cli.commands.evaluate import evaluate
from pipeline.cli.commands.export import export
from pipeline.cli.commands.index import index
from pipeline.cli.commands.list_ import list_all
from pipeline.cli.commands.plan import plan
from pipeline.cli.commands.preview import preview
from pipeline.cli.commands.report import report
from pipeline.cli.commands.verify import verify
from pipeline.cli.console import bugs_told, misuse_told
from pipeline.cli.output import checked_output

COMMANDS: Mapping[str, Callable[..., None]] = {
    "list": list_all,
    "doctor": doctor,
    "plan": plan,
    "build": build,
    "verify": verify,
    "export": export,
    "index": index,
    "preview": preview,
    "evaluate": evaluate,
    "report": report,
}
"""Command -> what it does, in the order of the help."""

app = typer.Typer(
    name="robustshards",
    help="Regenerate ImageNet-C, -P and -S from your own photographs, as checkable WebDataset shards.",
    epilog="Exit codes: 0 all well, 1 failed samples or faults found, 2 bad input, 3 unfinished (run it again), "
    "70 a bug, 130 interrupted (run it again).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _command in COMMANDS.items():
    app.command(_name)(_command)


def main() -> None:
    """Run the command line, and exit."""
    with checked_output(), bugs_told(), misuse_told(as_json="--json" in sys.argv[1:]):
        signals.handle()
        sys.exit(app(standalone_mode=False))
