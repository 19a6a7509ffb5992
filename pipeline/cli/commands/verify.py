"""``robustshards verify``."""

from __future__ import annotations

import random
from typing import Annotated

import typer

from pipeline.cli.console import print_json, print_lines, report_errors
from pipeline.cli.options import (
    DataOption,
    DataSetArgument,
    FrostOption,
    JsonOption,
    ThreadsOption,
    path_of,
)
from pipeline.errors import Exit, UserError
from pipeline.settings import EXECUTION

DEEP = "Checks with --deep"
"""Section of the help."""


def verify(
    data_set: DataSetArgument,
    *,
    quick: Annotated[
        bool,
        typer.Option(rich_help_panel=EXECUTION, help="Compare only file names and sizes, without reading the files."),
    ] = False,
    deep: Annotated[
        bool,
        typer.Option(
            rich_help_panel=DEEP,
            help="Also rebuild a random selection of samples from the source and compare the bytes.",
        ),
    ] = False,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            rich_help_panel=DEEP,
            help="Source images, or for adversarial images their clean data set. Default: the source of the last build "
            "or attack on this machine.",
        ),
    ] = None,
    samples: Annotated[
        int, typer.Option(metavar="N", min=1, rich_help_panel=DEEP, help="Number of samples to rebuild.")
    ] = 100,
    sample_seed: Annotated[
        int | None,
        typer.Option(metavar="N", rich_help_panel=DEEP, help="Seed for the selection of samples. Default: random."),
    ] = None,
    frost_folder: FrostOption = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", rich_help_panel=DEEP, help="For adversarial images: the model that was attacked."
        ),
    ] = None,
    weights: Annotated[
        str | None, typer.Option(metavar="FILE", rich_help_panel=DEEP, help="State dict of this model.")
    ] = None,
    trust_model: Annotated[
        bool,
        typer.Option(
            "--trust-model",
            rich_help_panel=DEEP,
            help="Allow TorchScript and torch.export files, which can run arbitrary code when loaded.",
        ),
    ] = False,
    device: Annotated[
        str, typer.Option(metavar="DEVICE", rich_help_panel=DEEP, help="Device that attacks again, cpu or cuda.")
    ] = "cpu",
    data: DataOption = None,
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare every shard and sample with the manifest, and list each fault.

    Exits with 1 if there are faults.
    """
    with report_errors(as_json):
        from pipeline.build.regenerate import last_source, regenerate
        from pipeline.cli.progress import counting
        from pipeline.datasets.listed import verify_listing
        from pipeline.datasets.opening import open_data_set
        from pipeline.datasets.verify import verify as check
        from pipeline.software import cpu_count

        if quick and deep:
            raise UserError("--quick and --deep cannot be combined: --quick reads no files, --deep rebuilds samples")
        with counting("checked") as checked:
            if quick:
                found = verify_listing(data_set, checked, data)
            else:
                found = check(data_set, threads or cpu_count(), checked, data, source)
        rebuilt = None
        if deep:
            seed = random.SystemRandom().getrandbits(32) if sample_seed is None else sample_seed
            location = last_source(data_set) if source is None else source
            if open_data_set(data_set).attack:
                from pipeline.attack.regenerate import Again
                from pipeline.attack.regenerate import regenerate as attack_again

                rebuilt = attack_again(data_set, Again(location, model, weights, device, trust_model), samples, seed)
            else:
                rebuilt = regenerate(data_set, location, samples, seed, path_of(frost_folder))
        if as_json:
            deep_faults = rebuilt and list(map(str, rebuilt.faults))
            print_json(**found.facts(), regenerated=rebuilt and rebuilt.samples, deep_faults=deep_faults)
        else:
            print_lines(found.lines("compared the names and sizes of" if quick else "checked"))
            if rebuilt:
                print_lines(rebuilt.lines("rebuilt"))
        if found.faults or (rebuilt and rebuilt.faults):
            raise typer.Exit(Exit.FAULTS)
