"""Options about a model, which several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.settings import EXECUTION, MODEL, PREPROCESSING

WeightsOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", rich_help_panel=MODEL, help="State dict to load into the model (.pt, .pth, .safetensors)."
    ),
]
TrustModelOption = Annotated[
    bool,
    typer.Option(
        "--trust-model",
        rich_help_panel=MODEL,
        help="Allow TorchScript and torch.export files, which can run arbitrary code when loaded.",
    ),
]
NameOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", rich_help_panel=MODEL, help="Name of the model in reports. Default: the value of --model."
    ),
]
InputSizeOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        rich_help_panel=PREPROCESSING,
        help="Side in pixels to which images are resized. 0 keeps their size. Default: the model's.",
    ),
]
MeanOption = Annotated[
    str | None,
    typer.Option(
        metavar="R,G,B",
        rich_help_panel=PREPROCESSING,
        help="Channel means used in training, e.g. 0.485,0.456,0.406. Default: the model's.",
    ),
]
StdOption = Annotated[
    str | None,
    typer.Option(
        metavar="R,G,B",
        rich_help_panel=PREPROCESSING,
        help="Channel standard deviations used in training, e.g. 0.229,0.224,0.225. Default: the model's.",
    ),
]
DeviceOption = Annotated[
    str,
    typer.Option(
        metavar="DEVICE",
        rich_help_panel=EXECUTION,
        help="Device: cpu, cuda, cuda:1, and so on. auto (default) uses a GPU if there is one.",
    ),
]
