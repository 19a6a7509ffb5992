"""``robustshards verify``."""

from __future__ import annotations

import random
from typing import Annotated

import typer

from pipeline.cli.console import errors_told, print_json, say_all
from pipeline.cli.options import DataOption, DataSetArgument, FrostOption, JsonOption, ThreadsOption, path_of
from pipeline.errors import Exit, UserError


def verify(
    data_set: DataSetArgument,
    *,
    quick: Annotated[
        bool, typer.Option(help="Compare names and lengths of the files with the manifest, and read no payloads.")
    ] = False,
    deep: Annotated[bool, typer.Option(help="Also make a random part again from the source and compare.")] = False,
    source: Annotated[
        str | None,
        typer.Option(help="With --deep: location of the photographs. Default: that of the last build on this machine."),
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="With --deep: number of samples to make again.")] = 100,
    sample_seed: Annotated[
        int | None, typer.Option(help="With --deep: seed of the choice of samples. Default: random.")
    ] = None,
    frost_folder: FrostOption = None,
    data: DataOption = None,
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check every shard and sample against the manifest, and name each fault."""
    with errors_told(as_json):
        from pipeline.build.regenerate import last_source, regenerate
        from pipeline.cli.progress import counting
        from pipeline.datasets.listed import verify_listing
        from pipeline.datasets.verify import verify as check
        from pipeline.software import cpu_count

        if quick and deep:
            raise UserError("--quick reads no payloads and --deep makes samples again: give one of them")
        with counting("checked") as checked:
            if quick:
                found = verify_listing(data_set, checked, data)
            else:
                found = check(data_set, threads or cpu_count(), checked, data)
        again = None
        if deep:
            chosen = random.SystemRandom().getrandbits(32) if sample_seed is None else sample_seed
            photographs = last_source(data_set) if source is None else source
            again = regenerate(data_set, photographs, samples, chosen, path_of(frost_folder))
        if as_json:
            deep_faults = again and list(map(str, again.faults))
            print_json(**found.facts(), regenerated=again and again.samples, deep_faults=deep_faults)
        else:
            say_all(found.lines("compared the listing with" if quick else "checked"))
            if again:
                say_all(again.lines("made again"))
        if found.faults or (again and again.faults):
            raise typer.Exit(Exit.FAULTS)
