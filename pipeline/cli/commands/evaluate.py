"""``robustshards evaluate``."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.cli.console import CONTINUE, print_result, report_errors
from pipeline.cli.model_options import (
    MODEL,
    PREPROCESSING,
    DeviceOption,
    InputSizeOption,
    MeanOption,
    NameOption,
    StdOption,
    TrustModelOption,
    WeightsOption,
)
from pipeline.cli.options import (
    EXECUTION,
    AddressOption,
    CacheOption,
    DataOption,
    DataSetArgument,
    ExecutorOption,
    JsonOption,
    LogFormat,
    LogOption,
    PixelsOption,
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
            metavar="MODEL",
            help="Model: timm:NAME, torchvision:NAME, hf:NAME, package.module:function, or an ONNX, TorchScript or "
            "torch.export file.",
        ),
    ],
    out: Annotated[str, typer.Option(metavar="FOLDER", help="Folder to write the predictions to.")],
    weights: WeightsOption = None,
    trust_model: TrustModelOption = False,
    name: NameOption = None,
    note: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            rich_help_panel=MODEL,
            help="Remark about the model for reports, for example: trained with these corruptions.",
        ),
    ] = None,
    channels_last: Annotated[
        bool,
        typer.Option(
            "--channels-last",
            rich_help_panel=MODEL,
            help="Use the channels-last memory format, which is often faster on GPUs.",
        ),
    ] = False,
    compile_: Annotated[
        bool, typer.Option("--compile", rich_help_panel=MODEL, help="Compile the model with torch.compile.")
    ] = False,
    precision: Annotated[
        str, typer.Option(metavar="NAME", rich_help_panel=MODEL, help="Floating-point type. One of: fp32, bf16, fp16.")
    ] = "fp32",
    input_size: InputSizeOption = None,
    mean: MeanOption = None,
    std: StdOption = None,
    steps: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=N,...",
            rich_help_panel=PREPROCESSING,
            help="Steps for images that are not prepared yet, e.g. shorter_side=256,center_crop=224; or none. "
            "Default: those of the data set's task, if it has one. Where the model requires another side, the last "
            "crop and the resize before it are changed in proportion. Names: shorter_side, square, center_crop, "
            "center_fraction, trim.",
        ),
    ] = None,
    resize: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=PREPROCESSING,
            help="Resize operator of the steps. Default: that of the task, else pillow-bilinear.",
        ),
    ] = None,
    device: DeviceOption = "auto",
    batch_size: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            rich_help_panel=EXECUTION,
            help="Batch size. 0 (default) chooses by device and image size.",
        ),
    ] = 0,
    loaders: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            rich_help_panel=EXECUTION,
            help="Processes per worker that read and decode images. Default: the CPUs that are free.",
        ),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            rich_help_panel=EXECUTION,
            help="Number of workers; each uses a GPU of its own. 0 (default) starts one per GPU.",
        ),
    ] = 0,
    ordered: Annotated[
        bool,
        typer.Option(
            "--ordered",
            rich_help_panel=EXECUTION,
            help="Evaluate the images in order, in one process, with a model that may adapt at test time: its mode is "
            "kept, it may use gradients, and batches, of 64 by default, are not padded. After an interruption, the "
            "evaluation starts again from the first image.",
        ),
    ] = False,
    executor: ExecutorOption = Executor.AUTO,
    address: AddressOption = None,
    data: DataOption = None,
    pixels: PixelsOption = False,
    cache: CacheOption = None,
    log: LogOption = LogFormat.TEXT,
    preempted_exit: PreemptedOption = Exit.INCOMPLETE,
    as_json: JsonOption = False,
) -> None:
    """Run an image classifier on a data set and write its predictions.

    Run the same command again to continue after an interruption.
    """
    with report_errors(as_json, preempted_exit, CONTINUE):
        from pipeline.cli.event_log import EvaluationLog
        from pipeline.cli.progress import FrameCount
        from pipeline.evaluate.predict.requirements import set_up_process

        set_up_process()
        from pipeline.evaluate.predict import evaluate as evaluation
        from pipeline.evaluate.predict import settings
        from pipeline.evaluate.predict.preparation import parsed_steps

        request = settings.EvaluationRequest(
            data_set,
            model,
            out,
            weights=weights,
            name=name,
            note=note,
            device=device,
            precision=settings.checked_precision(precision),
            channels_last=channels_last,
            compile=compile_,
            batch=batch_size,
            size=input_size,
            mean=triple(mean),
            std=triple(std, positive=True),
            steps=parsed_steps(steps),
            resize=resize,
            loaders=loaders,
            workers=workers,
            address=address,
            data=data,
            pixels=pixels,
            cache=cache,
            trust_model=trust_model,
            executor=executor,
            ordered=ordered,
        )
        watcher = EvaluationLog() if log == LogFormat.JSON else FrameCount()
        with watcher:
            result = evaluation.evaluate(request, watcher)
        print_result(result, as_json, out)
