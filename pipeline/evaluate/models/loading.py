"""Loading of a model from its specification: a factory, a file, or a model of a library."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass

from pipeline.errors import UserError
from pipeline.evaluate.models.base import Model, ModelInput, ModelRequest, evaluation_mode
from pipeline.evaluate.models.checkpoints import is_torchscript
from pipeline.evaluate.models.factories import library_versions
from pipeline.evaluate.models.guards import digest
from pipeline.evaluate.models.libraries import from_factory, from_hugging_face, from_timm, from_torchvision
from pipeline.evaluate.models.onnx_model import OnnxModel, external_files
from pipeline.evaluate.models.torch_files import ExportedModel, load_torchscript, require_trust


def load_model(
    spec: str, weights: str | None = None, folder: str | None = None, trust: bool = False, adapts: bool = False
) -> Model:
    """Load a model, in evaluation mode unless it adapts.

    Args:
        spec: A factory (package.module:function), a file, or a model of a library (for example timm:resnet50).
        weights: File with a state dict for the model of a factory or library. All names and shapes must match. The
            model is then created without pretrained weights.
        folder: Folder that relative paths start from. It is also searched last for modules of the user. Default: the
            current folder.
        trust: Whether to load TorchScript and torch.export files, which can run code.
        adapts: Whether the model of a factory may change when it is called, so that its mode must be kept. Other models
            do not adapt.

    Raises:
        UserError: The model is not found, needs a library that is not installed, or can run code and is not trusted.
    """
    start = current_folder() if folder is None else folder
    for form in FORMS:
        if match := re.fullmatch(form.pattern, spec):
            if weights is not None and form.has_weights:
                raise UserError(
                    f"--weights {weights} is not allowed for {spec}, which contains weights: remove --weights"
                )
            return form.load(ModelRequest(spec, match[1], weights, start, trust, adapts and form.may_adapt))
    raise UserError(f"invalid model {spec!r}: use {', '.join(form.name for form in FORMS if form.name)}")


def current_folder() -> str:
    """Return the current folder, or an empty string if it was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _onnx(request: ModelRequest) -> Model:
    path = request.file()
    files = external_files(path)
    module = OnnxModel(path)
    versions = library_versions(["onnxruntime", "onnxruntime-gpu"])
    model_input = ModelInput(module.size)
    return Model(
        request.spec, evaluation_mode(module), digest(path, *files), model_input, module.batch, software=versions
    )


def _exported(request: ModelRequest) -> Model:
    path = request.file()
    require_trust(request.spec, "torch.export", request.trust)
    module = ExportedModel(path)
    return Model(request.spec, evaluation_mode(module), digest(path), ModelInput(module.size), module.batch)


def _torchscript(request: ModelRequest) -> Model:
    path = request.file()
    if not is_torchscript(path):
        return _bare_weights(request)
    require_trust(request.spec, "TorchScript", request.trust)
    return Model(request.spec, evaluation_mode(load_torchscript(path)), digest(path), ModelInput())


def _bare_weights(request: ModelRequest) -> Model:
    spec = request.spec
    request.file()
    raise UserError(
        f"{spec} contains only weights, or a pickled model, which can run code; give the model as "
        f"package.module:function, timm:NAME, torchvision:NAME or hf:NAME, and its state dict with --weights {spec}"
    )


@dataclass(frozen=True)
class _Form:
    """A kind of model specification.

    Attributes:
        pattern: Regular expression that the whole specification must match. Its group is the name.
        load: Function that loads the model.
        has_weights: Whether the model file contains weights, so that ``--weights`` is not allowed.
        name: Example of the specification for error messages. Empty hides it.
        may_adapt: Whether the model is the user's own code, which may change the model when it is called.
    """

    pattern: str
    load: Callable[[ModelRequest], Model]
    has_weights: bool = False
    name: str = ""
    may_adapt: bool = False


FORMS = (
    _Form("timm:(.+)", from_timm, name="timm:NAME"),
    _Form("torchvision:(.+)", from_torchvision, name="torchvision:NAME"),
    _Form("hf:(.+)", from_hugging_face, name="hf:NAME"),
    _Form(r"(.+\.onnx)", _onnx, True, "FILE.onnx"),
    _Form(r"(.+\.pt2)", _exported, True, "FILE.pt2 (torch.export)"),
    _Form(r"(.+\.(?:pt|pth|ts|torchscript))", _torchscript, True, "FILE.pt (TorchScript)"),
    _Form(r"(.+\.(?:safetensors|bin|ckpt|tar))", _bare_weights, True),
    _Form(r"([\w.]+:[\w.]+)", from_factory, name="package.module:function", may_adapt=True),
)
"""Kinds of model specifications; the first match is used."""
