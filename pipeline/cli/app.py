"""The program ``robustshards``: its commands, their groups and examples.

Each command imports the modules it needs when it runs, so that help and argument errors stay fast.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Annotated, NamedTuple

import typer

from pipeline.cli import signals
from pipeline.cli.commands.attack import attack, budgets
from pipeline.cli.commands.build import build, mirror
from pipeline.cli.commands.ccc import ccc_matrix, ccc_stream
from pipeline.cli.commands.doctor import doctor
from pipeline.cli.commands.evaluate import evaluate
from pipeline.cli.commands.export import export
from pipeline.cli.commands.index import index
from pipeline.cli.commands.list_ import list_all
from pipeline.cli.commands.plan import plan
from pipeline.cli.commands.preview import preview
from pipeline.cli.commands.render import render
from pipeline.cli.commands.report import report
from pipeline.cli.commands.roots import compare, prove, roots
from pipeline.cli.commands.select import select
from pipeline.cli.commands.stream import stream, streams
from pipeline.cli.commands.verify import verify
from pipeline.cli.console import print_line, report_bugs, report_misuse
from pipeline.cli.help import Command, Group
from pipeline.cli.output import checked_output

MAKE, CHECK, EVALUATE = "Make data", "Check and look", "Evaluate"
"""Groups of commands in the help."""


class CommandEntry(NamedTuple):
    """A command: its function, its group in the help, and an example that runs after those above it."""

    function: Callable[..., None]
    group: str
    example: str


COMMANDS: Mapping[str, CommandEntry] = {
    "plan": CommandEntry(plan, MAKE, "robustshards plan imagenet-c --source imagenet-val"),
    "build": CommandEntry(
        build, MAKE, "robustshards build imagenet-c --source imagenet-val --out imagenet-c --limit 2"
    ),
    "mirror": CommandEntry(mirror, MAKE, "robustshards mirror photographs --out photographs-c --limit 2"),
    "render": CommandEntry(
        render, MAKE, "robustshards render imagenet-c-clean --source imagenet-val --out clean --limit 2"
    ),
    "export": CommandEntry(export, MAKE, "robustshards export imagenet-c --to imagefolder --out folders"),
    "index": CommandEntry(index, MAKE, "robustshards index folders --out folders-index"),
    "verify": CommandEntry(verify, CHECK, "robustshards verify imagenet-c"),
    "roots": CommandEntry(roots, CHECK, "robustshards roots imagenet-c"),
    "compare": CommandEntry(compare, CHECK, "robustshards compare imagenet-c imagenet-c/roots.json"),
    "prove": CommandEntry(prove, CHECK, "robustshards prove imagenet-c n02123045/chelsea --transform fog --level 3"),
    "preview": CommandEntry(preview, CHECK, "robustshards preview imagenet-c --out preview.html"),
    "list": CommandEntry(list_all, CHECK, "robustshards list"),
    "streams": CommandEntry(streams, CHECK, "robustshards streams"),
    "stream": CommandEntry(stream, CHECK, "robustshards stream temporal imagenet-c --parameters order=5,gamma=0.1"),
    "doctor": CommandEntry(doctor, CHECK, "robustshards doctor"),
    "evaluate": CommandEntry(
        evaluate, EVALUATE, "robustshards evaluate imagenet-c --model timm:resnet50 --out results/resnet50"
    ),
    "report": CommandEntry(report, EVALUATE, "robustshards report results/resnet50 --out report"),
    "attack": CommandEntry(
        attack, EVALUATE, "robustshards attack clean --model timm:resnet50 --attacks fgsm --budgets 4/255 --out attacks"
    ),
    "budgets": CommandEntry(
        budgets,
        EVALUATE,
        "robustshards budgets clean --model timm:resnet50 --attack fgsm --largest 8/255 --out budgets",
    ),
    "ccc-matrix": CommandEntry(
        ccc_matrix,
        EVALUATE,
        "robustshards ccc-matrix --model timm:resnet50 --source imagenet-val --out matrix.npz --baseline 0 --nodes 3",
    ),
    "ccc": CommandEntry(
        ccc_stream,
        EVALUATE,
        "robustshards ccc imagenet-val --matrix matrix.npz --baseline 0 --speed 2 --images 6 --out ccc",
    ),
    "select": CommandEntry(
        select,
        EVALUATE,
        "robustshards select --trained trained.csv --candidates candidates.csv --natural natural.csv --out selection",
    ),
}
"""Name -> command, in the order of the help."""

app = typer.Typer(
    name="robustshards",
    cls=Group,
    help="Build ImageNet-C, -C-bar, -P, -S and -Syn2Nat from your own images as WebDataset shards, check them, and "
    "evaluate image classifiers on them.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
for _name, _entry in COMMANDS.items():
    app.command(_name, cls=Command, epilog=_entry.example, rich_help_panel=_entry.group)(_entry.function)


def _print_version(wanted: bool) -> None:
    if wanted:
        print_line(f"robustshards {metadata.version('robustshards')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Options of the program itself; the commands do the work."""


def main() -> None:
    """Run the command line and exit."""
    with checked_output(), report_bugs(), report_misuse(as_json="--json" in sys.argv[1:]):
        signals.install()
        sys.exit(app(standalone_mode=False))
