"""``robustshards evaluate``."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from pipeline.cli.console import errors_told, tell
from pipeline.cli.options import DataOption, DataSetArgument, JsonOption, LogFormat, LogOption, PreemptedOption, triple
from pipeline.errors import Exit, UserError


def evaluate(
    data_set: DataSetArgument,
    model: Annotated[
        str,
        typer.Option(
            help="package.module:function, a TorchScript, torch.export or ONNX file, timm:, torchvision: or hf:NAME."
        ),
    ],
    out: Annotated[str, typer.Option(help="The folder for the predictions; unfinished ones there are resumed.")],
    weights: Annotated[str | None, typer.Option(help="A state dict for the model (.pt, .pth, .safetensors).")] = None,
    name: Annotated[str | None, typer.Option(help="What reports call the model; default: as given.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 ...")] = "auto",
    precision: Annotated[str, typer.Option(help="fp32, bf16 or fp16.")] = "fp32",
    batch_size: Annotated[int, typer.Option(min=0, help="Images at a time; 0: found out.")] = 0,
    input_size: Annotated[
        int | None, typer.Option(min=0, help="Side to resize to; 0: none; default: what the model says.")
    ] = None,
    mean: Annotated[str | None, typer.Option(help="Of the model's training images, three numbers with commas.")] = None,
    std: Annotated[str | None, typer.Option(help="As --mean: standard deviations.")] = None,
    channels_last: Annotated[bool, typer.Option("--channels-last", help="Memory layout that GPUs like.")] = False,
    compile_: Annotated[bool, typer.Option("--compile", help="Compile the model with torch.compile.")] = False,
    loaders: Annotated[int | None, typer.Option(min=0, help="Processes that read and decode, per worker.")] = None,
    workers: Annotated[
        int, typer.Option(min=0, help="Workers, each with a GPU of its own where there are any; 0: one for each GPU.")
    ] = 0,
    address: Annotated[str | None, typer.Option(help="Join a running Ray cluster.")] = None,
    data: DataOption = None,
    log: LogOption = LogFormat.TEXT,
    preempted_exit: PreemptedOption = Exit.INCOMPLETE,
    as_json: JsonOption = False,
) -> None:
    """Stream a data set through a classifier and write its predictions. Run again after any interruption."""
    with errors_told(as_json, preempted_exit):
        from pipeline.cli.event_log import EvaluationLog
        from pipeline.cli.progress import FrameCount

        evaluation, settings = _evaluator()
        request = settings.EvaluationRequest(
            data_set, model, out, weights, name, device, settings.checked_precision(precision), channels_last, compile_,
            batch_size, input_size, triple(mean), triple(std, positive=True), loaders, workers, address, data,
        )  # fmt: skip
        watcher = EvaluationLog() if log == LogFormat.JSON else FrameCount()
        with watcher:
            outcome = evaluation.evaluate(request, watcher)
        tell(outcome, as_json, out)


def _evaluator() -> Any:
    """What needs torch, loaded where it is used. Raises UserError where it is missing, or cannot be loaded."""
    try:
        os.getcwd()
    except OSError:  # torch, and MKL in it, would end the process in their own ways
        raise UserError("the current folder was removed: change to another one, cd DIR") from None
    try:
        from pipeline.evaluate.predict import run as evaluation
        from pipeline.evaluate.predict import settings
    except ImportError as error:
        raise UserError(f"{error.name} is missing: pip install 'robustshards[evaluate]'") from error
    return evaluation, settings
