"""``robustshards attack``."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.cli.attack_options import ATTACKS, AttackOptions
from pipeline.cli.console import CONTINUE, print_result, report_errors
from pipeline.cli.options import (
    AllowFailuresOption,
    JsonOption,
    LogFormat,
    LogOption,
    PreemptedOption,
    RetryFailedOption,
    with_options,
    words,
)
from pipeline.errors import Exit, UserError


@with_options(AttackOptions)
def attack(
    options: AttackOptions,
    attacks: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Attack recipe: robustart, robustart-transfer, ares-white-box, ares-transfer, or the path of a .toml "
            "file. Or comma-separated attacks, with --budgets: see robustshards list.",
        ),
    ],
    out: Annotated[str, typer.Option(metavar="FOLDER", help="Folder or URL to write the data set to.")],
    budgets: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBERS",
            rich_help_panel=ATTACKS,
            help="Budgets of attacks that are named one by one, for pixel values 0..1, e.g. 1/255,4/255.",
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(metavar="NAMES", rich_help_panel=ATTACKS, help="Attacks of the recipe to run. Default: all."),
    ] = None,
    bits: Annotated[
        int,
        typer.Option(
            metavar="16|8",
            rich_help_panel=ATTACKS,
            help="Bits of a stored value. 8 needs L-inf budgets in whole levels.",
        ),
    ] = 16,
    retry_failed: RetryFailedOption = False,
    allow_failures: AllowFailuresOption = False,
    log: LogOption = LogFormat.TEXT,
    preempted_exit: PreemptedOption = Exit.INCOMPLETE,
    as_json: JsonOption = False,
) -> None:
    """Attack a model, and write the adversarial images as a data set that any model can be evaluated on.

    Finished shards are kept: run the same command again to continue after an interruption. To add to a finished data
    set, run it with more attacks, larger budgets or a larger --limit.
    """
    with report_errors(as_json, preempted_exit, CONTINUE):
        from pipeline.evaluate.predict.requirements import set_up_process

        set_up_process()
        from pipeline.attack import attack_recipe
        from pipeline.attack.attack import run_attack
        from pipeline.cli.event_log import BuildLog
        from pipeline.cli.progress import Display

        if not attack_recipe.is_recipe(attacks):
            recipe = attack_recipe.named(words(attacks) or [], words(budgets) or [])
        elif budgets is None:
            recipe = attack_recipe.load(attacks)
        else:
            raise UserError(
                f"--budgets {budgets} cannot be combined with the attack recipe {attacks}, which has budgets"
            )
        request = options.request(recipe, out, only=words(only), bits=bits, retry_failed=retry_failed)
        watcher = BuildLog() if log == LogFormat.JSON else Display()
        with watcher:
            result = run_attack(request, watcher)
        print_result(result, as_json, out)
        if result.built.failed and not allow_failures:
            raise typer.Exit(Exit.FAULTS)
