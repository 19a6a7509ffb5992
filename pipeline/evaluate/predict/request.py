"""What the user asks of an evaluation. Imports nothing heavy, since the help of the command needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.errors import UserError
from pipeline.execution.pools import Executor, parse_executor
from pipeline.settings import (
    ARGUMENT,
    EXECUTION,
    FLAG,
    IMAGES,
    MODEL,
    NAME,
    PREPROCESSING,
    REQUIRED,
    Kind,
    Settings,
    choice,
    integer,
    line,
    location,
    setting,
    text,
)

if TYPE_CHECKING:
    from pipeline.evaluate.models.base import Triple
    from pipeline.evaluate.results.folder import Precision
    from pipeline.tasks.schema import Steps

SMALLEST_STD = 1e-6
"""Minimum standard deviation of pixel values 0..1. Smaller ones exceed the precision of float32."""


def _triple(value: Any) -> Triple:
    numbers = value.split(",") if isinstance(value, str) else value
    if any(isinstance(number, bool) for number in numbers):
        raise TypeError
    red, green, blue = map(float, numbers)
    return red, green, blue


def _steps(value: Any) -> Steps:
    from pipeline.evaluate.predict.preparation import parsed_steps

    return parsed_steps(value)


CHANNELS = Kind(_triple, "three numbers, for example 0.485,0.456,0.406", "R,G,B")
"""Three numbers, one per colour channel."""

EXECUTOR = choice(*Executor)

STREAM = "Order of images"
"""Section of the settings of streams in help texts."""


def _parameters(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, str):
        return dict(value)
    pairs = [part.strip().partition("=") for part in value.split(",")]
    if not all(name and equals for name, equals, _ in pairs):
        raise ValueError
    return {name: text for name, _, text in pairs}


PARAMETERS = Kind(
    _parameters, "pairs of name and value, for example severity=5,order=5,gamma=0.1", "NAME=VALUE,...", separator=","
)
"""Parameters of a protocol."""


@dataclass(frozen=True)
class ModelRequest(Settings):
    """A model, the data set that it is given, and the machines.

    Attributes:
        data_set: Folder or URL of a data set that build, render, attack or index wrote.
        model: Model: timm:NAME, torchvision:NAME, hf:NAME, package.module:function, or an ONNX, TorchScript or
            torch.export file.
        out: Folder to write the predictions to.
        weights: State dict to load into the model (.pt, .pth, .safetensors).
        trust_model: Allow TorchScript and torch.export files, which can run arbitrary code when loaded.
        name: Name of the model in reports. Default: the value of --model.
        input_size: Side in pixels to which images are resized. 0 keeps their size. Default: the model's.
        mean: Channel means used in training, 0 to 1, e.g. 0.485,0.456,0.406. Default: the model's.
        std: Channel standard deviations used in training, 0 to 1, e.g. 0.229,0.224,0.225. Default: the model's.
        device: Device: cpu, cuda, cuda:1, and so on. auto (default) uses a GPU if there is one.
        executor: Engine: Ray, or child processes of this machine (local). auto (default) chooses by the amount of work.
        address: Address of a running Ray cluster to join, HOST:PORT or auto. Default: use this machine only.
        data: For an index: folder of the indexed files. For a rendered data set: its source images. Default: where this
            machine indexed or rendered them.
    """

    data_set: str = setting(REQUIRED, text("FOLDER"), option=ARGUMENT)
    model: str = setting(REQUIRED, location("MODEL"))
    out: str = setting(REQUIRED, location())
    weights: str | None = setting(None, location("FILE"), MODEL)
    trust_model: bool = setting(False, FLAG, MODEL)
    name: str | None = setting(None, NAME, MODEL)
    input_size: int | None = setting(None, integer(0), PREPROCESSING)
    mean: Triple | None = setting(None, CHANNELS, PREPROCESSING)
    std: Triple | None = setting(None, CHANNELS, PREPROCESSING)
    device: str = setting("auto", text("DEVICE"), EXECUTION)
    executor: str = setting("auto", EXECUTOR, EXECUTION)
    address: str | None = setting(None, text("ADDRESS"), EXECUTION)
    data: str | None = setting(None, location(), IMAGES)

    def __post_init__(self) -> None:
        """Check the settings. Raise UserError if one is invalid."""
        super().__post_init__()
        parse_executor(self.executor, self.address)
        check_channels(self.mean or (0, 0, 0), self.std or (1, 1, 1))


@dataclass(frozen=True)
class EvaluationRequest(ModelRequest):
    """A request to evaluate a model on a data set.

    Attributes:
        note: Remark about the model for reports, for example: trained with these corruptions.
        channels_last: Use the channels-last memory format. It is often faster on GPUs. Default: only on a CPU, where
            convolutions are faster with it, for models that accept it, and not in ordered evaluations.
        compile: Compile the model with torch.compile.
        precision: Floating-point type. One of: fp32, tf32, bf16, fp16.
        steps: Steps for images that are not prepared yet, e.g. shorter_side=256,center_crop=224; or none. Default:
            those of the data set's task, if it has one. Where the model requires another side, the last crop and the
            resize before it are changed in proportion. Names: shorter_side, square, center_crop, center_fraction, trim.
        resize: Resize operator of the steps. Default: that of the task, else pillow-bilinear.
        batch_size: Batch size. 0 (default) chooses by device and image size.
        loaders: Processes per worker that read and decode images; 0 for the worker itself. Default: the free CPUs for a
            model on a GPU and more than 5,000 images of 224 x 224 per worker, else 0.
        workers: Number of workers; each uses a GPU of its own. 0 (default) starts one per GPU.
        ordered: Evaluate the images in an order, in one process, with a model that may adapt at test time: its mode is
            kept, it may use gradients, and batches, of 64 by default, are not padded. After an interruption, the
            evaluation starts again from the first image. Implied by protocol; without one, the protocol is continual.
        protocol: Protocol of the order; robustshards streams lists them. ccc takes clean images instead of a data set.
        parameters: Parameters of the protocol, e.g. severity=5,order=5,gamma=0.1,reset=condition. Default: those
            published.
        seed: Seed of the order.
        subset: Subset of the images of the order: robustbench-5000. Default: all.
        pixels: For a rendered data set: use the images before they are encoded, as if the encoder npy stored them.
            Faster; the predictions differ.
        cache: For a rendered data set: folder in which decoded and cropped photographs are kept, or off. Default: the
            user's cache folder.
    """

    note: str | None = setting(None, line(0, 500, "TEXT"), MODEL)
    channels_last: bool | None = setting(None, FLAG, MODEL, "--channels-last/--no-channels-last")
    compile: bool = setting(False, FLAG, MODEL)
    precision: Precision = setting("fp32", choice("fp32", "tf32", "bf16", "fp16", metavar="NAME"), MODEL)
    steps: Steps | None = setting(None, Kind(_steps, metavar="NAME=N,...", separator=","), PREPROCESSING)
    resize: str | None = setting(None, text("NAME"), PREPROCESSING)
    batch_size: int = setting(0, integer(0), EXECUTION)
    loaders: int | None = setting(None, integer(0), EXECUTION)
    workers: int = setting(0, integer(0), EXECUTION)
    ordered: bool = setting(False, FLAG, STREAM)
    protocol: str | None = setting(None, text("NAME"), STREAM)
    parameters: Mapping[str, Any] | None = setting(None, PARAMETERS, STREAM)
    seed: int = setting(0, integer(0), STREAM)
    subset: str | None = setting(None, text("NAME"), STREAM)
    pixels: bool = setting(False, FLAG, IMAGES)
    cache: str | None = setting(None, location("FOLDER|off"), EXECUTION)

    def __post_init__(self) -> None:
        """Check the settings. Raise UserError if one is invalid."""
        super().__post_init__()
        given = [*(self.parameters or ()), *["seed"] * bool(self.seed), *["subset"] * bool(self.subset)]
        if given and not self.ordered and self.protocol is None:
            what = ", ".join(given)
            raise UserError(f"{what} has no effect without a protocol: give --protocol too, for example continual")
        object.__setattr__(self, "ordered", self.ordered or self.protocol is not None)


def check_channels(mean: Triple, std: Triple) -> None:
    """Raise UserError if a channel mean or standard deviation is out of range."""
    options = {"--mean": (0.0, mean), "--std": (SMALLEST_STD, std)}
    wrong = {name: each for name, (least, each) in options.items() if not all(least <= one <= 1 for one in each)}
    if wrong:
        allowed = f"use three numbers from 0 to 1 (--std: from {SMALLEST_STD:g}), for pixel values from 0 to 1"
        scaled = {name: tuple(one / 255 for one in each) for name, each in wrong.items()}
        if all(options[name][0] <= one <= 1 for name, each in scaled.items() for one in each):
            allowed += f"; for pixel values from 0 to 255, divide by 255: {_as_options(scaled)}"
        raise UserError(f"invalid {_as_options(wrong)}: {allowed}")


def _as_options(values: Mapping[str, tuple[float, ...]]) -> str:
    """Return channel values as options of the command."""
    return " ".join(f"{name} {','.join(f'{one:.6g}' for one in each)}" for name, each in values.items())
