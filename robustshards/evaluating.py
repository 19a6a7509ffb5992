"""The public function that evaluates models."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipeline.config import integer
from pipeline.datasets.base import DataSet
from pipeline.errors import UserError
from pipeline.evaluate.predict.requirements import check_requirements
from pipeline.evaluate.predict.result import EvaluationResult
from pipeline.evaluate.results.folder import Precision
from pipeline.execution.pools import ExecutorName
from pipeline.execution.resumable import SilentWatcher
from robustshards._arguments import Location, data_location, location, optional_location, text
from robustshards._calls import public_call
from robustshards._progress import progress_bar
from robustshards.reporting import Evaluation, written

if TYPE_CHECKING:
    import torch

Triple = tuple[float, float, float]


def evaluate(
    model: Location | torch.nn.Module,
    data: Location | DataSet,
    out: Location | None = None,
    *,
    weights: Location | None = None,
    name: str | None = None,
    note: str | None = None,
    device: str = "auto",
    precision: Precision = "fp32",
    batch_size: int = 0,
    input_size: int | None = None,
    mean: Triple | None = None,
    std: Triple | None = None,
    steps: Sequence[tuple[str, float]] | None = None,
    resize: str | None = None,
    channels_last: bool = False,
    compile: bool = False,
    loaders: int | None = None,
    workers: int = 0,
    address: str | None = None,
    executor: ExecutorName = "auto",
    ordered: bool = False,
    trust_model: bool = False,
    progress: bool = False,
) -> Evaluation:
    """Run a classifier on every image of a data set, as ``robustshards evaluate`` does.

    Predictions are written chunk by chunk, and a repeated call computes only missing ones. Pass the result to
    ``report`` to get error rates and the other metrics; a notebook shows them when the result is the last value of a
    cell.

    A model that adapts at test time needs ``ordered=True``. One process then evaluates the images in the order of the
    data set. The module is copied, but not put into evaluation mode; gradients are enabled; batches are not padded, so
    that the model sees each image once and no other images. Everything that changes, optimizers included, must be in
    attributes of the module, so that the copy has it too. An interrupted evaluation starts again from the first image.

    Args:
        model: A ``torch.nn.Module``, ``"timm:NAME"``, ``"torchvision:NAME"``, ``"hf:NAME"``, a model file (.onnx,
            .pt, .pt2), or ``"package.module:function"`` where the function returns a ``torch.nn.Module``. A module
            receives normalised images, float32 of shape (N, 3, H, W), and returns logits of shape (N, classes). A
            module in memory is copied, not modified, and runs in the calling process.
        data: Folder or URL of a data set, or a ``DataSet`` returned by ``open`` or ``render``.
        out: Folder or URL for the predictions. Created if missing; an unfinished evaluation in it is resumed. Default:
            a temporary folder, deleted together with the returned object.
        weights: File with a state dict for the model (.pt, .pth, .safetensors).
        name: Name of the model in reports. Default: ``model`` if it is text, else the class name of the module.
        note: Remark about the model for reports, for example ``"trained with these corruptions"``.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` and so on. ``"auto"`` is a GPU if there is one. If a
            launcher such as torchrun sets the environment variable LOCAL_RANK, a single worker uses the GPU of that
            number.
        precision: ``"fp32"``, ``"bf16"`` or ``"fp16"``.
        batch_size: Images per batch. 0 suits device and image size, and is 64 if ``ordered`` is set.
        input_size: Side length in pixels that images are resized to. 0: no resize. Default: that of the model.
        mean: Channel means used in training, RGB, 0 to 1. Default: those of the model, else ImageNet's.
        std: Channel standard deviations used in training, RGB, above 0. Default: like ``mean``.
        steps: Pairs of name and value that prepare images that are not prepared yet, for example
            ``[("shorter_side", 256), ("center_crop", 224)]``; ``()`` uses images as they are. Where the model requires
            another side, the last crop and the resize before it are changed in proportion. Default: the steps of the
            data set's task, if it has one.
        resize: Resize operator of the steps. Default: that of the task, else ``"pillow-bilinear"``.
        channels_last: Use the channels-last memory layout.
        compile: Compile the model with ``torch.compile``.
        loaders: Processes per worker that read and decode images. 0: the worker itself. Default: depends on the device.
        workers: Number of workers. 0: one per GPU, or one on a machine without GPUs.
        address: Ray cluster to join, ``"host:port"`` or ``"auto"``. Default: this machine.
        executor: ``"local"`` (child processes), ``"ray"``, or ``"auto"`` (``"local"`` for small evaluations).
        ordered: Evaluate the images in order, with a model that may change when it is called. Not possible with several
            workers or loaders, or with Ray. A model of a library or file is put into evaluation mode nevertheless.
        trust_model: Allow TorchScript and torch.export files, which can execute code.
        progress: Show a progress bar.

    Returns:
        The evaluation. ``predictions`` is an Arrow table, ``summary()`` returns the key figures as text, ``figures()``
        the metrics of the data set by name, and ``report()`` a report. ``output`` is the folder of the predictions.
        ``complete`` is False if predictions are missing; repeat the call to continue.

    Raises:
        UserError: If an argument is invalid, the model cannot be loaded or run, ``out`` holds another evaluation, or
            it is called in a process group of several ranks.
        UnfinishedError: If the evaluation could not start. Finished predictions are kept.
        UnreachableError: If an object store does not respond. Finished predictions are kept.
        OSError: If a file cannot be read or written.
    """
    with public_call(check_requirements):
        _check_ranks()
        place = data_location(data)
        options = {
            "weights": optional_location(weights, "weights"),
            "name": text(name, "name"),
            "note": text(note, "note"),
            "device": _device(
                text(device, "device"), alone=workers in (0, 1) and address is None and executor == "auto"
            ),
            "precision": text(precision, "precision"),
            "batch": integer(batch_size, "batch_size", minimum=0),
            "size": None if input_size is None else integer(input_size, "input_size", minimum=0),
            "mean": _triple(mean, "mean"),
            "std": _triple(std, "std"),
            "steps": _steps(steps),
            "resize": text(resize, "resize"),
            "channels_last": channels_last,
            "compile": compile,
            "loaders": None if loaders is None else integer(loaders, "loaders", minimum=0),
            "workers": integer(workers, "workers", minimum=0),
            "address": text(address, "address"),
            "executor": str(executor),
            "ordered": bool(ordered),
            "trust_model": trust_model,
            "data": place.data,
            "pixels": place.pixels,
            "cache": place.cache,
        }
        data_name = data.name if isinstance(data, DataSet) else os.path.basename(place.folder.rstrip("/"))
        with progress_bar(progress, f"{_model_name(model, options['name'])} on {data_name}") as watcher:
            return written(out, lambda folder: _evaluate(model, place.folder, folder, options, watcher))


def _check_ranks() -> None:
    """Raise UserError in a process group of torch.distributed, whose ranks would all evaluate everything."""
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1:
        raise UserError(
            f"evaluate was called in a process group of {distributed.get_world_size()} ranks, each of which would "
            "evaluate all images: run the command robustshards evaluate, which uses all GPUs, or read the images of "
            "each rank from robustshards.torch.Stream(data, rank=, world_size=)"
        )


def _device(requested: str | None, alone: bool) -> str | None:
    """Return the GPU of a process that a launcher such as torchrun started, for ``auto``; else the requested device."""
    from torch import cuda

    rank = os.environ.get("LOCAL_RANK", "") if requested == "auto" and alone else ""
    own = rank.isdecimal() and cuda.is_available() and int(rank) < cuda.device_count()
    return f"cuda:{int(rank)}" if own else requested


def _evaluate(
    model: Any, data_set: str, output: str, options: dict[str, Any], watcher: SilentWatcher
) -> EvaluationResult:
    """Evaluate a model given by name or in memory; the latter runs in this process."""
    from pipeline.evaluate.models.libraries import from_module
    from pipeline.evaluate.predict.evaluate import evaluate
    from pipeline.evaluate.predict.settings import EvaluationRequest, checked_precision

    checked_precision(options["precision"])
    if isinstance(model, str | os.PathLike):
        return evaluate(EvaluationRequest(data_set, location(model, "model"), output, **options), watcher)
    loaded = from_module(model, options["ordered"])
    given = {
        "address": options["address"] is not None,
        "workers": options["workers"] > 1,
        "weights": options["weights"],
    }
    if misplaced := [name for name, is_given in given.items() if is_given]:
        raise UserError(
            f"{' and '.join(misplaced)} cannot be used with a model in memory: leave out, or pass the model as "
            "'package.module:function'"
        )
    own = {"workers": 1, "name": _model_name(model, options["name"])}
    request = EvaluationRequest(data_set, loaded.spec, output, **{**options, **own})
    return evaluate(request, watcher, loaded)


def _model_name(model: Any, name: str | None) -> str:
    """Return the name of a model in reports: the given one, or its text, or the name of its class."""
    if name is not None:
        return name
    return os.fspath(model) if isinstance(model, str | os.PathLike) else type(model).__name__


def _steps(steps: Any) -> Any:
    """Return preparation steps, or None for None; raise UserError for other values."""
    from pipeline.evaluate.predict.preparation import checked_steps

    return None if steps is None else checked_steps(steps)


def _triple(numbers: Any, name: str) -> Triple | None:
    """Return three floats, or None for None; raise UserError for other values."""
    if numbers is None:
        return None
    try:
        if any(isinstance(number, bool) for number in numbers):
            raise TypeError
        red, green, blue = map(float, numbers)
    except (TypeError, ValueError):
        raise UserError(f"invalid {name} {numbers!r}: pass three numbers, for example (0.485, 0.456, 0.406)") from None
    return red, green, blue
