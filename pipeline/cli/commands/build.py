"""``robustshards build``."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from pipeline.cli.console import CONTINUE, print_json, print_lines, print_result, report_errors, warn
from pipeline.cli.options import (
    AddressOption,
    AllowFailuresOption,
    ExecutorOption,
    JsonOption,
    LogFormat,
    LogOption,
    PreemptedOption,
    RecipeOptions,
    RetryFailedOption,
    path_of,
    with_options,
)
from pipeline.errors import Exit
from pipeline.execution.pools import Executor
from pipeline.settings import EXECUTION


@with_options(RecipeOptions)
def build(
    options: RecipeOptions,
    out: Annotated[str, typer.Option(metavar="FOLDER", help="Folder or URL to write the data set to.")],
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            rich_help_panel=EXECUTION,
            help="Number of worker processes. Default: one per available CPU.",
        ),
    ] = None,
    address: AddressOption = None,
    executor: ExecutorOption = Executor.AUTO,
    max_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            rich_help_panel=EXECUTION,
            help="Stop before the shards exceed this size, e.g. 800MiB, 50GB or 1.5TB.",
        ),
    ] = None,
    retry_failed: RetryFailedOption = False,
    allow_failures: AllowFailuresOption = False,
    check_only: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            rich_help_panel=EXECUTION,
            help="Check the recipe, source and output, and print what a build would write. Write nothing.",
        ),
    ] = False,
    log: LogOption = LogFormat.TEXT,
    preempted_exit: PreemptedOption = Exit.INCOMPLETE,
    as_json: JsonOption = False,
) -> None:
    """Build a data set as WebDataset shards with a manifest.

    Finished shards are kept: run the same command again to continue after an interruption. To add to a finished data
    set, run it with more transforms, more severities or a larger --limit.
    """
    with report_errors(as_json, preempted_exit, CONTINUE):
        from pipeline.build.dry_run import dry_run
        from pipeline.build.quota import parse_size
        from pipeline.build.run import BuildRequest, run_build
        from pipeline.cli.event_log import BuildLog
        from pipeline.cli.progress import Display

        request = BuildRequest(
            options.load(), options.source, out, workers=workers, address=address, executor=executor,
            frost_folder=path_of(options.frost_folder), ids=options.ids, retry_failed=retry_failed,
            max_bytes=math.inf if max_bytes is None else parse_size(max_bytes),
        )  # fmt: skip
        watcher = BuildLog() if log == LogFormat.JSON else Display()
        if check_only:
            with watcher:
                planned = dry_run(request, watcher)
            if as_json:
                print_json(**planned.facts())
            else:
                print_lines(planned.summary())
                for warning in planned.warnings():
                    warn(warning)
            return
        with watcher:
            result = run_build(request, watcher)
        print_result(result, as_json, out)
        if result.failed and not allow_failures:
            raise typer.Exit(Exit.FAULTS)
