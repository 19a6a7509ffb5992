"""``robustshards build``."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.builder.settings import BuildSettings
from pipeline.cli.console import CONTINUE, print_json, print_lines, warn
from pipeline.cli.options import MakingJob, command
from pipeline.execution.local_pool import spare_process
from pipeline.execution.pools import Executor
from pipeline.settings import EXECUTION, FLAG, setting

if TYPE_CHECKING:
    from pipeline.builder.preflight import BuildRequest


@dataclass(frozen=True)
class BuildJob(MakingJob):
    """How the command build runs.

    Attributes:
        check_only: Check the recipe, source and output, and print what a build would write. Write nothing.
    """

    check_only: bool = setting(False, FLAG, EXECUTION, "--dry-run")


def _warm_worker(given: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Start a local worker before the settings are read, unless Ray or no worker is asked for."""
    local = given["executor"] in (None, Executor.AUTO, Executor.LOCAL) and given["address"] is None
    return (
        spare_process("pipeline.builder.worker", "load_libraries")
        if local and not given["check_only"]
        else nullcontext()
    )


@command(CONTINUE, _warm_worker)
def build(settings: BuildSettings, job: BuildJob) -> None:
    """Build a data set as WebDataset shards with a manifest.

    Finished shards are kept: run the same command again to continue after an interruption. To add to a finished data
    set, run it with more transforms, more severities or a larger --limit.
    """
    run(settings.request(), job, settings.out)


def run(request: BuildRequest, job: BuildJob, out: str) -> None:
    """Run a build or a dry run of it, and print the result.

    Raises:
        typer.Exit: The build is incomplete, or has failures that are not allowed.
    """
    from pipeline.builder.build import run_build
    from pipeline.builder.dry_run import dry_run
    from pipeline.cli.event_log import BuildLog
    from pipeline.cli.progress import Display

    watcher = BuildLog() if job.log == "json" else Display()
    if job.check_only:
        with watcher:
            planned = dry_run(request, watcher)
        if job.as_json:
            print_json(**planned.facts())
        else:
            print_lines(planned.summary())
            for warning in planned.warnings():
                warn(warning)
        return
    with watcher:
        result = run_build(request, watcher)
    job.finish(result, result.failed, out)
