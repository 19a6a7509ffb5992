"""``robustshards budgets``."""

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
    with_options,
)
from pipeline.errors import Exit
from pipeline.settings import EXECUTION


@with_options(AttackOptions)
def budgets(
    options: AttackOptions,
    attack: Annotated[
        str, typer.Option(metavar="NAME", help="Attack, for example autoattack_linf: see robustshards list.")
    ],
    largest: Annotated[
        str, typer.Option(metavar="NUMBER", help="Largest budget, for pixel values 0..1, for example 16/255.")
    ],
    out: Annotated[str, typer.Option(metavar="FOLDER", help="Folder or URL to write the budgets to.")],
    steps: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            rich_help_panel=ATTACKS,
            help="Number of times that the range of budgets is halved. ddn_l2, cw_l2 and fab find the smallest budget "
            "themselves.",
        ),
    ] = 10,
    retry_failed: Annotated[
        bool, typer.Option(rich_help_panel=EXECUTION, help="Search the parts that contain failed images again.")
    ] = False,
    allow_failures: AllowFailuresOption = False,
    log: LogOption = LogFormat.TEXT,
    preempted_exit: PreemptedOption = Exit.INCOMPLETE,
    as_json: JsonOption = False,
) -> None:
    """Find the smallest budget at which an attack succeeds on each image, for curves of accuracy against budget.

    Finished parts are kept: run the same command again to continue after an interruption.
    """
    with report_errors(as_json, preempted_exit, CONTINUE):
        from pipeline.evaluate.predict.requirements import set_up_process

        set_up_process()
        from pipeline.attack import recipes
        from pipeline.attack.budgets_run import run_budgets
        from pipeline.attack.methods import METHODS
        from pipeline.cli.event_log import EvaluationLog
        from pipeline.cli.progress import FrameCount
        from pipeline.recipes.attacks import parse_budget

        recipes.check_name(attack)
        budget = parse_budget(largest, METHODS[attack].norm)
        request = options.request(recipes.named([attack], [largest]), out, retry_failed=retry_failed)
        watcher = EvaluationLog() if log == LogFormat.JSON else FrameCount("search", "searched")
        with watcher:
            result = run_budgets(request, budget, steps, watcher)
        print_result(result, as_json, out)
        if result.failed and not allow_failures:
            raise typer.Exit(Exit.FAULTS)
