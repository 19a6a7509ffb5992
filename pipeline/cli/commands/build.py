"""``robustshards build`` and ``robustshards mirror``."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from pipeline.builder.settings import BuildSettings, MirrorSettings
from pipeline.cli.console import CONTINUE, print_json, print_lines, warn
from pipeline.cli.options import MakingJob, command
from pipeline.execution.local_pool import spare_process
from pipeline.execution.pools import Executor
from pipeline.execution.ray_pool import early_actors
from pipeline.settings import EXECUTION, FLAG, setting

_LOAD = ("pipeline.builder.worker", "load_libraries")
"""The function that workers call while the command reads its settings."""


@dataclass(frozen=True)
class BuildJob(MakingJob):
    """How the command build runs.

    Attributes:
        check_only: Check the recipe, source and output, and print what a build would write. Write nothing.
    """

    check_only: bool = setting(False, FLAG, EXECUTION, "--dry-run")


def _early_engine(given: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Start a worker or a local Ray before the settings are read, unless the command will use neither."""
    if given["check_only"] or given["address"] is not None:
        return nullcontext()
    if given["executor"] == Executor.RAY:
        workers = given["workers"]  # text that is not validated yet
        if workers is None or str(workers).isdecimal():
            return early_actors(None if workers is None else int(workers), *_LOAD)
        return nullcontext()
    return spare_process(*_LOAD)


@command(CONTINUE, _early_engine)
def build(settings: BuildSettings, job: BuildJob) -> None:
    """Build a data set as WebDataset shards with a manifest.

    Finished shards are kept: run the same command again to continue after an interruption. To add to a finished data
    set, run it with more transforms, more severities or a larger --limit.
    """
    _run(settings, job)


def _run(settings: BuildSettings | MirrorSettings, job: BuildJob) -> None:
    """Run a build or a dry run of it, and print the result.

    Raises:
        typer.Exit: The build is incomplete, or has failures that are not allowed.
    """
    from pipeline.builder.build import run_build
    from pipeline.builder.dry_run import dry_run

    if job.check_only:
        with job.watcher() as watcher:
            planned = dry_run(settings, watcher)
        if job.as_json:
            print_json(**planned.facts())
        else:
            print_lines(planned.summary())
            for warning in planned.warnings():
                warn(warning)
        return
    with job.watcher() as watcher:
        result = run_build(settings, watcher)
    job.finish(result, result.failed, settings.out)


@command(CONTINUE)
def mirror(settings: MirrorSettings, job: BuildJob) -> None:
    """Write the corrupted version of a folder of images, in native size and under the same names.

    OUT/fog/3 then replaces FOLDER as the image root of a loader; annotations stay as they are. Run the same command
    again to continue after an interruption.
    """
    _run(settings, job)
