"""Evaluate models."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from pipeline.datasets.base import DataSet
from pipeline.datasets.indexed import Indexed
from pipeline.errors import UserError
from pipeline.evaluate.predict.requirements import check_requirements
from pipeline.evaluate.predict.result import EvaluationResult
from pipeline.execution.silent import Silent
from robustshards._arguments import Location, location, optional_location, text, whole
from robustshards._calls import public_call

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
    device: str = "auto",
    precision: str = "fp32",
    batch_size: int = 0,
    input_size: int | None = None,
    mean: Triple | None = None,
    std: Triple | None = None,
    channels_last: bool = False,
    compile: bool = False,
    loaders: int | None = None,
    workers: int = 0,
    address: str | None = None,
    executor: str = "auto",
    trust_model: bool = False,
) -> EvaluationResult:
    """Predict every image of a data set with a classifier, as ``robustshards evaluate`` does.

    Predictions are written chunk by chunk: the same call again makes only what is missing. ``report`` computes figures
    from them.

    Args:
        model: ``"package.module:function"`` that returns a ``torch.nn.Module``, a model file (.onnx, .pt, .pt2),
            ``"timm:NAME"``, ``"torchvision:NAME"``, ``"hf:NAME"``, or a ``torch.nn.Module`` in memory. A module takes
            normalised images (N, 3, H, W) float32 and returns logits (N, classes). It is copied and not changed, and
            runs in this process.
        data: Folder or URL of a data set, or what ``open`` returned.
        out: Folder or URL for the predictions. It is created; an unfinished evaluation in it is resumed. Default: a
            temporary folder that is removed with the returned object, or when Python exits.
        weights: State dict for the model (.pt, .pth, .safetensors).
        name: What reports call the model. Default: ``model`` as given; for a module, the name of its class.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` and so on.
        precision: ``"fp32"``, ``"bf16"`` or ``"fp16"``.
        batch_size: Images per batch. 0 picks the fastest.
        input_size: Side to resize images to. 0: no resize. Default: what the model says.
        mean: Channel means used in training, RGB, 0..1. Default: what the model says, else ImageNet's.
        std: Channel standard deviations used in training, RGB. Default: as ``mean``.
        channels_last: Use the channels-last memory layout.
        compile: Compile the model with ``torch.compile``.
        loaders: Processes per worker that read and decode. Default: chosen by device; 0 loads in the worker itself.
        workers: Workers, each with a GPU of its own where there are any. 0: one per GPU, else one.
        address: Ray cluster to join, ``"host:port"`` or ``"auto"``. Default: this machine.
        executor: ``"local"`` (child processes of this machine), ``"ray"``, or ``"auto"``, by the amount of work.
        trust_model: Load TorchScript and torch.export files, which can run code.

    Returns:
        What was done. ``output`` is the folder of the predictions. ``complete`` is False where predictions are missing:
        the same call continues.

    Raises:
        UserError: An argument is invalid, the model cannot be loaded or run, or ``out`` holds another evaluation.
        UnfinishedError: The evaluation could not start here; what is finished is kept.
        UnreachableError: A store does not answer; what is finished is kept.
        OSError: A file cannot be read or written.
    """
    with public_call():
        check_requirements()
        folder, files = _places(data)
        options = {
            "weights": optional_location(weights, "weights"),
            "name": text(name, "name"),
            "device": text(device, "device"),
            "precision": text(precision, "precision"),
            "batch": whole(batch_size, "batch_size", least=0),
            "size": None if input_size is None else whole(input_size, "input_size", least=0),
            "mean": _triple(mean, "mean"),
            "std": _triple(std, "std"),
            "channels_last": channels_last,
            "compile": compile,
            "loaders": None if loaders is None else whole(loaders, "loaders", least=0),
            "workers": whole(workers, "workers", least=0),
            "address": text(address, "address"),
            "executor": str(executor),
            "trust_model": trust_model,
            "data": files,
        }
        if out is not None:
            return _evaluate(model, folder, location(out, "out"), options)
        temporary = tempfile.mkdtemp(prefix="robustshards-")
        remove = partial(shutil.rmtree, temporary, ignore_errors=True)
        try:
            result = _evaluate(model, folder, temporary, options)
        except BaseException:
            remove()
            raise
        weakref.finalize(result, remove)
        return result


def _evaluate(model: Any, data_set: str, output: str, options: dict[str, Any]) -> EvaluationResult:
    """Run an evaluation of a model that is named, or of one in memory in this process. Raises UserError."""
    from pipeline.evaluate.models.libraries import from_module
    from pipeline.evaluate.predict.run import evaluate
    from pipeline.evaluate.predict.settings import EvaluationRequest, checked_precision

    checked_precision(options["precision"])
    if isinstance(model, str | os.PathLike):
        return evaluate(EvaluationRequest(data_set, location(model, "model"), output, **options), Silent())
    loaded = from_module(model)
    if options["address"] is not None or options["workers"] > 1 or options["weights"] is not None:
        raise UserError(
            "a model in memory is evaluated in this process with the weights that it has: leave out address, workers "
            "and weights, or name the model as 'package.module:function'"
        )
    own = {"workers": 1, "name": type(model).__name__ if options["name"] is None else options["name"]}
    request = EvaluationRequest(data_set, loaded.spec, output, **{**options, **own})
    return evaluate(request, Silent(), loaded)


def _places(data: Location | DataSet) -> tuple[str, str | None]:
    """Return where a data set is, and where the files of an index are if its user has said so. Raises UserError."""
    if not isinstance(data, DataSet):
        return location(data, "data"), None
    return data.store.root, data.files.root if isinstance(data, Indexed) else None


def _triple(numbers: Any, name: str) -> Triple | None:
    """Return three numbers. Raises UserError."""
    if numbers is None:
        return None
    try:
        red, green, blue = map(float, numbers)
    except (TypeError, ValueError):
        raise UserError(f"invalid {name} {numbers!r}: give three numbers, for example (0.485, 0.456, 0.406)") from None
    return red, green, blue
