"""The public function that evaluates models."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pipeline.datasets.base import DataSet
from pipeline.errors import UserError
from pipeline.evaluate.predict.request import EvaluationRequest
from pipeline.evaluate.predict.requirements import check_requirements
from pipeline.evaluate.predict.result import EvaluationResult
from pipeline.evaluate.results.folder import Precision
from pipeline.execution.pools import ExecutorName
from pipeline.execution.resumable import SilentWatcher
from robustshards._calls import Location, data_location, described_by, public_call
from robustshards._progress import progress_bar
from robustshards.reporting import Evaluation, written

if TYPE_CHECKING:
    import torch

    from pipeline.evaluate.models.base import Triple


@described_by(EvaluationRequest)
def evaluate(
    model: Location | torch.nn.Module | Callable[[], torch.nn.Module],
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
    channels_last: bool | None = None,
    compile: bool = False,
    loaders: int | None = None,
    workers: int = 0,
    address: str | None = None,
    executor: ExecutorName = "auto",
    ordered: bool = False,
    protocol: str | None = None,
    seed: int = 0,
    subset: str | None = None,
    trust_model: bool = False,
    progress: bool = False,
    **parameters: Any,
) -> Evaluation:
    """Run a classifier on every image of a data set, as ``robustshards evaluate`` does.

    Predictions are written chunk by chunk, and a repeated call computes only missing ones. Pass the result to
    ``report`` to get error rates and the other metrics; a notebook shows them when the result is the last value of a
    cell.

    A model that adapts at test time needs a ``protocol``, such as ``"continual"``. One process then evaluates the
    images in its order, as ``robustshards.torch.Stream`` shows them. The module is copied, but not put into evaluation
    mode; gradients are enabled; batches are not padded, so that the model sees only these images. Everything that
    changes, optimizers included, must be in attributes of the module, so that the copy has it too. Protocols that reset
    the model before each condition call its method ``reset()``, or ``model`` is a function that returns a new module.
    An interrupted evaluation starts again from the first image.

    Args:
        model: A ``torch.nn.Module``, ``"timm:NAME"``, ``"torchvision:NAME"``, ``"hf:NAME"``, a model file (.onnx,
            .pt, .pt2), or ``"package.module:function"`` where the function returns a ``torch.nn.Module``. A module
            receives normalised images, float32 of shape (N, 3, H, W), and returns logits of shape (N, classes). A
            module in memory is copied, not modified, and runs in the calling process.
        data: Folder or URL of a data set, or a ``DataSet`` returned by ``open`` or ``render``.
        out: Folder or URL for the predictions. Created if missing; an unfinished evaluation in it is resumed. Default:
            a temporary folder, deleted together with the returned object.
        name: Name of the model in reports. Default: ``model`` if it is text, else the class name of the module.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` and so on. ``"auto"`` is a GPU if there is one. If a
            launcher such as torchrun sets the environment variable LOCAL_RANK, a single worker uses the GPU of that
            number.
        steps: Pairs of name and value that prepare images that are not prepared yet, for example
            ``[("shorter_side", 256), ("center_crop", 224)]``; ``()`` uses images as they are. Where the model requires
            another side, the last crop and the resize before it are changed in proportion. Default: the steps of the
            data set's task, if it has one.
        ordered: Evaluate the images in the order of a protocol, ``"continual"`` by default, with a model that may
            change when it is called. Implied by ``protocol``. Not possible with several workers, or with Ray. A model
            of a library or file is put into evaluation mode nevertheless. The default batch size is that of the
            protocol, mostly 64.
        protocol: Name of the protocol; ``robustshards streams`` lists them. For ``"ccc"``, ``data`` is a folder or URL
            of clean images, and ``matrix`` an accuracy matrix as for ``robustshards.torch.CCC``.
        progress: Show a progress bar.
        **parameters: Parameters of the protocol, for example ``severity=5, gamma=0.1, reset="condition"``, and
            ``conditions``: a list as for ``Stream``.

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
    given = {**locals(), "parameters": parameters or None}
    check_parameters(parameters)
    with public_call(check_requirements):
        _check_ranks()
        place = data_location(data)
        where = {"data_set": place.folder, "data": place.data, "pixels": place.pixels, "cache": place.cache}
        where["device"] = _device(device, alone=workers in (0, 1) and address is None and executor == "auto")
        data_name = data.name if isinstance(data, DataSet) else os.path.basename(place.folder.rstrip("/"))
        with progress_bar(progress, f"{_model_name(model, name)} on {data_name}") as watcher:
            return written(out, lambda folder: _evaluate(model, given | where | {"out": folder}, watcher))


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Raise TypeError for keywords of evaluate that are no parameters of any protocol."""
    from pipeline.loaders.protocols import KINDS

    if unknown := parameters.keys() - {*KINDS, "conditions"}:
        raise TypeError(f"evaluate() got an unexpected keyword argument {min(unknown)!r}")


def _check_ranks() -> None:
    """Raise UserError in a process group of torch.distributed, whose ranks would all evaluate everything."""
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1:
        raise UserError(
            f"evaluate was called in a process group of {distributed.get_world_size()} ranks, each of which would "
            "evaluate all images: run the command robustshards evaluate, which uses all GPUs, or read the images of "
            "each rank from robustshards.torch.Stream(data, rank=, world_size=); with a protocol, one model in one "
            "process must see the whole stream"
        )


def _device(requested: str | None, alone: bool) -> str | None:
    """Return the GPU of a process that a launcher such as torchrun started, for ``auto``; else the requested device."""
    from torch import cuda

    rank = os.environ.get("LOCAL_RANK", "") if requested == "auto" and alone else ""
    own = rank.isdecimal() and cuda.is_available() and int(rank) < cuda.device_count()
    return f"cuda:{int(rank)}" if own else requested


def _evaluate(model: Any, given: dict[str, Any], watcher: SilentWatcher) -> EvaluationResult:
    """Evaluate a model given by name or in memory; the latter runs in this process."""
    from pipeline.evaluate.models.libraries import from_module
    from pipeline.evaluate.predict.evaluate import evaluate

    if isinstance(model, str | os.PathLike):
        return evaluate(EvaluationRequest.of(given), watcher)
    request = EvaluationRequest.of(given, model="")
    loaded = from_module(model, request.ordered)
    unusable = {"address": request.address is not None, "workers": request.workers > 1, "weights": request.weights}
    if misplaced := [name for name, is_given in unusable.items() if is_given]:
        raise UserError(
            f"{' and '.join(misplaced)} cannot be used with a model in memory: leave out, or pass the model as "
            "'package.module:function'"
        )
    own = replace(request, model=loaded.spec, workers=1, name=_model_name(model, request.name))
    return evaluate(own, watcher, loaded)


def _model_name(model: Any, name: str | None) -> str:
    """Return the name of a model in reports: the given one, or its text, or the name of its class."""
    if name is not None:
        return name
    return os.fspath(model) if isinstance(model, str | os.PathLike) else type(model).__name__
