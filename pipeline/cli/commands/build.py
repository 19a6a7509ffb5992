"""``robustshards build``."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from pipeline.cli.console import errors_told, print_json, say_all, tell, warn
from pipeline.cli.options import (
    DecoderOption,
    EncoderOption,
    ExecutorOption,
    FrostOption,
    GridOption,
    IdsOption,
    JsonOption,
    KindOption,
    LevelsOption,
    LimitOption,
    LogFormat,
    LogOption,
    OnlyOption,
    PreemptedOption,
    QualityOption,
    RecipeArgument,
    ResizeOption,
    SeedOption,
    SetOption,
    ShardSizeOption,
    SourceOption,
    changed_recipe,
    path_of,
)
from pipeline.errors import Exit
from pipeline.execution.pools import Executor


def build(
    recipe: RecipeArgument,
    source: SourceOption,
    out: Annotated[str, typer.Option(help="The folder of the data set; an unfinished build there is resumed.")],
    kind: KindOption = None,
    ids: IdsOption = None,
    only: OnlyOption = None,
    levels: LevelsOption = None,
    limit: LimitOption = None,
    shard_size: ShardSizeOption = None,
    seed: SeedOption = None,
    encoder: EncoderOption = None,
    quality: QualityOption = None,
    decoder: DecoderOption = None,
    resize: ResizeOption = None,
    grid: GridOption = None,
    fields: SetOption = None,
    frost_folder: FrostOption = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes; default: one per CPU.")] = None,
    address: Annotated[
        str | None, typer.Option(help="Join a running Ray cluster; default: a local one is started.")
    ] = None,
    executor: ExecutorOption = Executor.AUTO,
    allow_failures: Annotated[bool, typer.Option(help="Exit 0 even if some samples failed.")] = False,
    retry_failed: Annotated[bool, typer.Option(help="Make shards with failed samples again.")] = False,
    max_bytes: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Stop before all shards take more: 800MiB, 50GB, 1.5TB.")
    ] = None,
    rehearse: Annotated[
        bool, typer.Option("--dry-run", help="Only check everything and say what would be made; write nothing.")
    ] = False,
    log: LogOption = LogFormat.TEXT,
    preempted_exit: PreemptedOption = Exit.INCOMPLETE,
    as_json: JsonOption = False,
) -> None:
    """Build a data set, or what is missing of it. Run again after any interruption."""
    with errors_told(as_json, preempted_exit):
        from pipeline.build.dry_run import dry_run
        from pipeline.build.quota import parse_size
        from pipeline.build.run import BuildRequest, run_build
        from pipeline.cli.event_log import BuildLog
        from pipeline.cli.progress import Display

        chosen = changed_recipe(
            recipe, kind=kind, only=only, grid=grid, levels=levels, limit=limit, shard_size=shard_size, seed=seed,
            encoder=encoder, quality=quality, decoder=decoder, resize=resize, fields=fields,
        )  # fmt: skip
        limit_ = math.inf if max_bytes is None else parse_size(max_bytes)
        request = BuildRequest(
            chosen, source, out, workers=workers, address=address, executor=executor,
            frost_folder=path_of(frost_folder), ids=ids, retry_failed=retry_failed, max_bytes=limit_,
        )  # fmt: skip
        watcher = BuildLog() if log == LogFormat.JSON else Display()
        if rehearse:
            with watcher:
                rehearsal = dry_run(request, watcher)
            if as_json:
                print_json(**rehearsal.facts())
            else:
                say_all(rehearsal.summary())
                for warning in rehearsal.warnings():
                    warn(warning)
            return
        with watcher:
            outcome = run_build(request, watcher)
        tell(outcome, as_json, out)
        if outcome.failed and not allow_failures:
            raise typer.Exit(Exit.FAULTS)
