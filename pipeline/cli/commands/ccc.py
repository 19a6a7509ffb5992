"""``robustshards ccc`` and ``robustshards ccc-matrix``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipeline.cli.console import CONTINUE
from pipeline.cli.options import Printing, command
from pipeline.evaluate.predict.request import CHANNELS, check_channels
from pipeline.settings import (
    ARGUMENT,
    EXECUTION,
    FLAG,
    IMAGES,
    MODEL,
    PREPROCESSING,
    REQUIRED,
    integer,
    location,
    number,
    setting,
    text,
)
from pipeline.text import counted

if TYPE_CHECKING:
    from pipeline.evaluate.models.base import Triple


@dataclass(frozen=True)
class CCCSettings(Printing):
    """A part of a stream of CCC to store.

    Attributes:
        source: Path or URL of the clean images.
        matrix: The .npz file with the accuracies of a fixed model.
        out: Folder or URL to write the tars to.
        images: Number of images from the start of the stream.
        baseline: Target accuracy in percent. Published: 40, 20 and 0.
        speed: Images per step. Published: 1000, 2000 and 5000.
        stream_seed: Seed of the stream. Published: 43, 44 and 45.
        workers: Number of worker processes. Default: one per CPU.
    """

    source: str = setting(REQUIRED, location("PATH"), option=ARGUMENT)
    matrix: str = setting(REQUIRED, location("FILE"))
    out: str = setting(REQUIRED, location())
    images: int = setting(REQUIRED, integer(1, 10**9))
    baseline: float = setting(20.0, number(0, 100), IMAGES)
    speed: int = setting(1000, integer(1, 10**9), IMAGES)
    stream_seed: int = setting(43, integer(0, 2**64 - 1), IMAGES, "--seed")
    workers: int | None = setting(None, integer(1), EXECUTION)


@command(CONTINUE)
def ccc_stream(asked: CCCSettings) -> None:
    """Write the start of a stream of CCC as tars, with the members of the published ones.

    Run the same command again to continue after an interruption. Streams need not be stored to evaluate a model.
    """
    from corruptions import ccc
    from pipeline.builder.ccc_shards import write_shards
    from pipeline.cli.progress import current_step
    from pipeline.render.ccc import ccc_images
    from pipeline.software import cpu_count

    stream, done = ccc.StreamKey(asked.baseline, asked.speed, asked.stream_seed), 0
    with current_step("reading images ...") as step:

        def advance(images: int) -> None:
            nonlocal done
            done += images
            step(f"{done:,} of {asked.images:,} images")

        made = ccc_images(asked.source, asked.matrix, stream, asked.images, encode=False, unlabelled=True)
        shards = write_shards(made, asked.out, asked.workers or cpu_count(), advance)
    line = f"wrote {counted(asked.images, 'image')} of {stream} in {counted(shards, 'tar')}: {asked.out}"
    asked.show([line], out=asked.out, stream=str(stream), images=asked.images, shards=shards)


@dataclass(frozen=True)
class MatrixSettings(Printing):
    """An accuracy matrix of a model.

    Attributes:
        model: Model, as for evaluate.
        source: Path or URL of clean images whose labels are outputs of the model.
        out: The .npz file to write.
        weights: State dict to load into the model (.pt, .pth, .safetensors).
        trust_model: Allow TorchScript and torch.export files, which can run arbitrary code when loaded.
        mean: Channel means used in training, 0 to 1, e.g. 0.485,0.456,0.406. Default: the model's.
        std: Channel standard deviations used in training, 0 to 1, e.g. 0.229,0.224,0.225. Default: the model's.
        baseline: Baseline of the streams: 40 needs 14 corruptions, 20 needs 13, and 0 needs 4.
        images: Images of each cell, chosen at random.
        nodes: Severities that are measured of each corruption, including 0; the others are interpolated. One of: 2, 3,
            5, 6, 11, 21.
        seed: Seed of the images and of what corruptions draw.
        device: Device: cpu, cuda, cuda:1, and so on. auto (default) uses a GPU if there is one.
        batch_size: Batch size.
    """

    model: str = setting(REQUIRED, location("MODEL"))
    source: str = setting(REQUIRED, location("PATH"))
    out: str = setting(REQUIRED, location("FILE"))
    weights: str | None = setting(None, location("FILE"), MODEL)
    trust_model: bool = setting(False, FLAG, MODEL)
    mean: Triple | None = setting(None, CHANNELS, PREPROCESSING)
    std: Triple | None = setting(None, CHANNELS, PREPROCESSING)
    baseline: float = setting(20.0, number(0, 100), IMAGES)
    images: int = setting(500, integer(1), IMAGES)
    nodes: int = setting(11, integer(2, 21), IMAGES)
    seed: int = setting(0, integer(0, 2**64 - 1), IMAGES)
    device: str = setting("auto", text("DEVICE"), EXECUTION)
    batch_size: int = setting(64, integer(1), EXECUTION)

    def __post_init__(self) -> None:
        """Check the settings. Raise UserError if one is invalid."""
        super().__post_init__()
        check_channels(self.mean or (0, 0, 0), self.std or (1, 1, 1))


@command(CONTINUE)
def ccc_matrix(asked: MatrixSettings) -> None:
    """Measure the accuracies of a model under pairs of corruptions, which streams of CCC need.

    Estimates first how long it takes. Run the same command again to continue after an interruption.
    """
    from pipeline.evaluate.predict.requirements import set_up_process

    set_up_process()
    from corruptions import ccc
    from pipeline.cli.progress import current_step
    from pipeline.errors import UserError
    from pipeline.evaluate.models.loading import load_model
    from pipeline.evaluate.predict import accuracy_matrix
    from pipeline.evaluate.predict.settings import available_device
    from pipeline.software import cpu_count
    from pipeline.sources.kinds import AUTO, open_source
    from pipeline.storage import local_path

    if asked.nodes not in accuracy_matrix.NODES:
        raise UserError(f"invalid --nodes {asked.nodes}: use one of {', '.join(map(str, accuracy_matrix.NODES))}")
    if not asked.out.endswith(".npz"):
        raise UserError(f"invalid --out {asked.out}: use a file name that ends with .npz")
    device = available_device(asked.device)
    with current_step("reading images ...") as step:
        clean = accuracy_matrix.clean_images(open_source(AUTO, asked.source), asked.images, asked.seed)
        model = load_model(asked.model, asked.weights, trust=asked.trust_model)
        inputs = replace(model.input, mean=asked.mean or model.input.mean, std=asked.std or model.input.std)
        plan = accuracy_matrix.MatrixPlan(
            asked.model, model.digest, clean.digest, len(clean.ids), asked.nodes, asked.seed, ccc.names(asked.baseline)
        )
        classify = accuracy_matrix.classifier(replace(model, input=inputs), device, asked.batch_size)
        accuracy_matrix.measure(plan, clean, classify, local_path(asked.out), cpu_count(), step)
    line = f"wrote {asked.out}: {len(plan.pairs)} pairs, {plan.cells:,} cells of {plan.images:,} images"
    asked.show([line], out=asked.out, pairs=len(plan.pairs), cells=plan.cells, images=plan.images)
