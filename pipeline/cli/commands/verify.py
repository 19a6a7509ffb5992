"""``robustshards verify``."""

import random
from dataclasses import dataclass

import typer

from pipeline.builder.settings import FROST
from pipeline.cli.options import Reading, Threads, command
from pipeline.errors import Exit, UserError
from pipeline.settings import EXECUTION, FLAG, TRANSFORMS, integer, location, setting, text

DEEP = "Checks with --deep"
"""Section of the help."""


@dataclass(frozen=True)
class VerifySettings(Reading, Threads):
    """A comparison of a data set with its manifest.

    Attributes:
        quick: Compare only file names and sizes, without reading the files.
        deep: Also rebuild a random selection of samples from the source and compare the bytes.
        source: Source images, or for adversarial images their clean data set. Default: the source of the last build or
            attack on this machine.
        samples: Number of samples to rebuild.
        sample_seed: Seed for the selection of samples. Default: random.
        frost_folder: Folder with the six frost textures. Default: those of the package imagecorruptions.
        model: For adversarial images: the model that was attacked.
        weights: State dict of this model.
        trust_model: Allow TorchScript and torch.export files, which can run arbitrary code when loaded.
        device: Device that attacks again, cpu or cuda.
    """

    quick: bool = setting(False, FLAG, EXECUTION)
    deep: bool = setting(False, FLAG, DEEP)
    source: str | None = setting(None, location("PATH"), DEEP)
    samples: int = setting(100, integer(1), DEEP)
    sample_seed: int | None = setting(None, integer(), DEEP)
    frost_folder: str | None = setting(None, FROST, TRANSFORMS)
    model: str | None = setting(None, text("MODEL"), DEEP)
    weights: str | None = setting(None, location("FILE"), DEEP)
    trust_model: bool = setting(False, FLAG, DEEP)
    device: str = setting("cpu", text("DEVICE"), DEEP)


@command()
def verify(settings: VerifySettings) -> None:
    """Compare every shard and sample with the manifest, and list each fault.

    Exits with 1 if there are faults.
    """
    from pipeline.builder.regenerate import last_source, regenerate
    from pipeline.cli.progress import counting
    from pipeline.datasets.opening import open_data_set
    from pipeline.datasets.verify import verify as check
    from pipeline.software import cpu_count

    if settings.quick and settings.deep:
        raise UserError("--quick and --deep cannot be combined: --quick reads no files, --deep rebuilds samples")
    with counting() as checked:
        found = check(
            settings.data_set, settings.threads or cpu_count(), checked, settings.data, settings.source, settings.quick
        )
    rebuilt = None
    if settings.deep:
        seed = random.SystemRandom().getrandbits(32) if settings.sample_seed is None else settings.sample_seed
        where = last_source(settings.data_set) if settings.source is None else settings.source
        if open_data_set(settings.data_set).attack:
            from pipeline.attack.regenerate import regenerate as attack_again

            rebuilt = attack_again(
                settings.data_set,
                where,
                settings.model,
                settings.samples,
                seed,
                weights=settings.weights,
                device=settings.device,
                trust_model=settings.trust_model,
            )
        else:
            rebuilt = regenerate(settings.data_set, where, settings.samples, seed, settings.frost_folder)
    deep_faults = rebuilt and list(map(str, rebuilt.faults))
    lines = [*found.lines("compared the names and sizes of" if settings.quick else "checked")]
    lines += rebuilt.lines("rebuilt") if rebuilt else []
    settings.show(lines, **found.facts(), regenerated=rebuilt and rebuilt.samples, deep_faults=deep_faults)
    if found.faults or (rebuilt and rebuilt.faults):
        raise typer.Exit(Exit.FAULTS)
