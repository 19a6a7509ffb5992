"""``robustshards evaluate``."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.cli.console import errors_told, tell
from pipeline.cli.options import (
    DataOption,
    DataSetArgument,
    ExecutorOption,
    JsonOption,
    LogFormat,
    LogOption,
    PreemptedOption,
    triple,
)
from pipeline.errors import Exit
from pipeline.execution.pools import Executor


def evaluate(
    data_set: DataSetArgument,
    model: Annotated[
        str,
        typer.Option(
            help="Model: package.module:function, an ONNX, TorchScript or torch.export file, timm:NAME, "
            "torchvision:NAME or hf:NAME."
        ),
    ],
    out: Annotated[str, typer.Option(help="Folder for the predictions. An unfinished evaluation there is resumed.")],
    weights: Annotated[
        str | None, typer.Option(help="State dict to load into the model (.pt, .pth, .safetensors).")
    ] = None,
    trust_model: Annotated[
        bool,
        typer.Option("--trust-model", help="Load TorchScript and torch.export files, which can run code."),
    ] = False,
    name: Annotated[str | None, typer.Option(help="Name of the model in reports. Default: --model.")] = None,
    device: Annotated[
        str, typer.Option(help="Device: cpu, cuda, cuda:1 ... auto takes a GPU if there is one.")
    ] = "auto",
    precision: Annotated[str, typer.Option(help="Precision: fp32, bf16 or fp16.")] = "fp32",
    batch_size: Annotated[int, typer.Option(min=0, help="Batch size. 0 (default) picks the fastest.")] = 0,
    input_size: Annotated[
        int | None, typer.Option(min=0, help="Side to resize images to. 0: keep their size. Default: the model's.")
    ] = None,
    mean: Annotated[
        str | None, typer.Option(help="Channel means used in training, e.g. 0.485,0.456,0.406. Default: the model's.")
    ] = None,
    std: Annotated[str | None, typer.Option(help="Channel standard deviations used in training, as --mean.")] = None,
    channels_last: Annotated[
        bool, typer.Option("--channels-last", help="Use the channels-last memory layout, often faster on GPUs.")
    ] = False,
    compile_: Annotated[bool, typer.Option("--compile", help="Compile the model with torch.compile.")] = False,
    loaders: Annotated[
        int | None, typer.Option(min=0, help="Processes per worker that read and decode. Default: the free CPUs.")
    ] = None,
    workers: Annotated[
        int, typer.Option(min=0, help="Number of workers, each with its own GPU. 0 (default): one per GPU.")
    ] = 0,
    executor: ExecutorOption = Executor.AUTO,
    address: Annotated[str | None, typer.Option(help="Address of a running Ray cluster to join.")] = None,
    data: DataOption = None,
    log: LogOption = LogFormat.TEXT,
    preempted_exit: PreemptedOption = Exit.INCOMPLETE,
    as_json: JsonOption = False,
) -> None:
    """Run a classifier on a data set and write its predictions. Run again after an interruption to resume."""
    with errors_told(as_json, preempted_exit):
        from pipeline.cli.event_log import EvaluationLog
        from pipeline.cli.progress import FrameCount
        from pipeline.evaluate.predict.requirements import check_requirements

        check_requirements()
        from pipeline.evaluate.predict import run as evaluation
        from pipeline.evaluate.predict import settings

        request = settings.EvaluationRequest(
            data_set,
            model,
            out,
            weights=weights,
            name=name,
            device=device,
            precision=settings.checked_precision(precision),
            channels_last=channels_last,
            compile=compile_,
            batch=batch_size,
            size=input_size,
            mean=triple(mean),
            std=triple(std, positive=True),
            loaders=loaders,
            workers=workers,
            address=address,
            data=data,
            trust_model=trust_model,
            executor=executor,
        )
        watcher = EvaluationLog() if log == LogFormat.JSON else FrameCount()
        with watcher:
            outcome = evaluation.evaluate(request, watcher)
        tell(outcome, as_json, out)
