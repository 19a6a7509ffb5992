"""Models by the text that names them: a factory, a file, or a library's model."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass

from pipeline.errors import UserError
from pipeline.evaluate.models.base import Model, ModelInput, ModelRequest, evaluated
from pipeline.evaluate.models.factories import software
from pipeline.evaluate.models.files import digest
from pipeline.evaluate.models.libraries import from_factory, from_hugging_face, from_timm, from_torchvision
from pipeline.evaluate.models.onnx_model import OnnxModel, external_files
from pipeline.evaluate.models.torch_files import ExportedModel, is_torchscript, load_torchscript, require_trust


def load_model(spec: str, weights: str | None = None, folder: str | None = None, trust: bool = False) -> Model:
    """Load the model that a text names, in evaluation mode.

    Args:
        spec: A factory, a file, or a library's model.
        weights: File with a state dict, loaded strictly into the model of a factory or library, which is then built
            without weights of its own.
        folder: Where relative paths start from, and the last place where modules of the user's are looked for.
            Default: the current folder.
        trust: Load files that can run code: TorchScript, torch.export.

    Raises:
        UserError: The model is not found, needs a library that is not installed, or can run code and is not trusted.
    """
    start = current_folder() if folder is None else folder
    for form in FORMS:
        if match := re.fullmatch(form.pattern, spec):
            if weights is not None and form.has_weights:
                raise UserError(f"--weights {weights} came with {spec}, which has its own weights; leave --weights out")
            return form.load(ModelRequest(spec, match[1], weights, start, trust))
    raise UserError(f"{spec!r} names no model; allowed: {', '.join(form.name for form in FORMS if form.name)}")


def current_folder() -> str:
    """Return the current folder; empty where it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _onnx(asked: ModelRequest) -> Model:
    path = asked.file()
    files = external_files(path)
    module = OnnxModel(path)
    used = software(["onnxruntime", "onnxruntime-gpu"])
    taken = ModelInput(module.size)
    return Model(asked.spec, evaluated(module), digest(path, *files), taken, module.batch, software=used)


def _exported(asked: ModelRequest) -> Model:
    path = asked.file()
    require_trust(asked.spec, "torch.export", asked.trust)
    module = ExportedModel(path)
    return Model(asked.spec, evaluated(module), digest(path), ModelInput(module.size), module.batch)


def _torchscript(asked: ModelRequest) -> Model:
    path = asked.file()
    if not is_torchscript(path):
        return _bare_weights(asked)
    require_trust(asked.spec, "TorchScript", asked.trust)
    return Model(asked.spec, evaluated(load_torchscript(path)), digest(path), ModelInput())


def _bare_weights(asked: ModelRequest) -> Model:
    spec = asked.spec
    asked.file()
    raise UserError(
        f"{spec} contains weights without their model, or a pickled model, which can run code; name the model as "
        f"package.module:function, timm:NAME, torchvision:NAME or hf:NAME, and its state dict with --weights {spec}"
    )


@dataclass(frozen=True)
class _Form:
    """A way to name a model: the texts that match, what loads it, and how messages write it."""

    pattern: str
    load: Callable[[ModelRequest], Model]
    has_weights: bool = False
    name: str = ""


FORMS = (
    _Form("timm:(.+)", from_timm, name="timm:NAME"),
    _Form("torchvision:(.+)", from_torchvision, name="torchvision:NAME"),
    _Form("hf:(.+)", from_hugging_face, name="hf:NAME"),
    _Form(r"(.+\.onnx)", _onnx, True, "FILE.onnx"),
    _Form(r"(.+\.pt2)", _exported, True, "FILE.pt2 (torch.export)"),
    _Form(r"(.+\.(?:pt|pth|ts|torchscript))", _torchscript, True, "FILE.pt (TorchScript)"),
    _Form(r"(.+\.(?:safetensors|bin|ckpt|tar))", _bare_weights, True),
    _Form(r"([\w.]+:[\w.]+)", from_factory, name="package.module:function"),
)
"""The first form that matches is taken."""
