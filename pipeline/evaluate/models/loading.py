"""Models to judge, from what a user names: a factory, a file, or a library's model."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from pipeline.errors import UserError
from pipeline.evaluate.models.exported import ExportedProgram
from pipeline.evaluate.models.factories import call_factory, code_digest, failures, libraries_of, modules_of, software
from pipeline.evaluate.models.model_files import (
    digest,
    is_torchscript,
    load_torchscript,
    load_weights,
    model_file,
    optional_library,
    weights_digest,
)
from pipeline.evaluate.models.onnx_model import OnnxModel, external_files

Triple = tuple[float, float, float]

IMAGENET_MEAN: Triple = (0.485, 0.456, 0.406)
IMAGENET_STD: Triple = (0.229, 0.224, 0.225)

WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
"""torch's own switch, which overrides what its callers say."""

CONFIGURATIONS = ("pretrained_cfg", "default_cfg")
"""timm's attributes of a module with what its weights were trained on: ``input_size`` (3, H, W), ``mean``, ``std``."""


@dataclass(frozen=True)
class ModelInput:
    """What a model takes: square images of side ``size``, None for any, less ``mean``, over ``std``; RGB 0..1."""

    size: int | None = None
    mean: Triple = IMAGENET_MEAN
    std: Triple = IMAGENET_STD


@dataclass(frozen=True)
class Model:
    """A model ready to judge, on the CPU.

    ``module`` takes normalised images (N, 3, H, W) float32 and gives logits (N, classes). ``digest``: SHA-256 of its
    files or weights. ``batch``: the only number of images that it takes, None for any. ``code``: SHA-256 of what else
    decides its outputs, empty for files. ``software``: library -> version.
    """

    spec: str
    module: torch.nn.Module
    digest: str
    input: ModelInput
    batch: int | None = None
    code: str = ""
    software: Mapping[str, str] = field(default_factory=software)


@dataclass(frozen=True)
class _Asked:
    """What a user asks for: the whole text, what a form reads from it, and where relative paths start from."""

    spec: str
    name: str
    weights: str | None
    folder: str

    def file(self) -> Path:
        """The file that the text names. Raises UserError."""
        return self._below(self.name, "name a model's file, or package.module:callable")

    def weights_file(self) -> Path:
        """The file of ``weights``. Raises UserError."""
        return self._below(self.weights or "", "name the file with the model's state dict")

    def _below(self, name: str, advice: str) -> Path:
        return model_file(name, self.folder, advice)


class _Classifier(torch.nn.Module):
    """A model in evaluation mode that gives its logits alone, whatever its library returns."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits (N, classes). Raises UserError where the model gives something else."""
        output = self.inner(images)
        if isinstance(output, Mapping):
            output = output.get("logits", next(iter(output.values()), None))
        output = getattr(output, "logits", output)
        if isinstance(output, tuple | list):
            output = next((item for item in output if isinstance(item, torch.Tensor)), None)
        if (
            not isinstance(output, torch.Tensor)
            or output.ndim != 2
            or output.shape[0] != images.shape[0]
            or not output.shape[1]
            or output.layout != torch.strided
            or output.is_complex()
        ):
            given = (
                f"{tuple(output.shape)} of {output.dtype}"
                if isinstance(output, torch.Tensor)
                else type(output).__name__
            )
            raise UserError(
                f"the model gives {given} for {images.shape[0]} images; logits of (images, classes) are allowed: wrap "
                "it in a factory"
            )
        return output

    def train(self, mode: bool = True) -> _Classifier:
        """Nothing: the mode is settled, and what is read from files has none to change."""
        return self


def load_model(spec: str, weights: str | None = None, folder: str | None = None) -> Model:
    """Load the model that a text names, in evaluation mode.

    Args:
        spec: A factory, a file, or a library's model.
        weights: File with a state dict, loaded strictly into the model of a factory or library, which is then made
            without weights of its own.
        folder: Where relative paths start from, and where modules of the user's are looked for last of all. Default:
            the current folder.

    Raises:
        UserError: It cannot be found, needs a library that is not installed, or is refused because it may do more than
            compute.
    """
    start = current_folder() if folder is None else folder
    for form in FORMS:
        if match := re.fullmatch(form.pattern, spec):
            if weights is not None and form.has_weights:
                raise UserError(f"--weights {weights} came with {spec}, which holds its weights; leave --weights out")
            return form.load(_Asked(spec, match[1], weights, start))
    raise UserError(f"{spec!r} names no model; allowed are {', '.join(form.name for form in FORMS if form.name)}")


def current_folder() -> str:
    """The current folder; empty where it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


# Files


def _onnx(asked: _Asked) -> Model:
    path = asked.file()
    files = external_files(path)
    module = OnnxModel(path)
    told = ModelInput(module.size)
    return Model(
        asked.spec,
        _settled(module),
        digest(path, *files),
        told,
        module.batch,
        software=software(["onnxruntime", "onnxruntime-gpu"]),
    )


def _exported(asked: _Asked) -> Model:
    path = asked.file()
    module = ExportedProgram(path)
    return Model(asked.spec, _settled(module), digest(path), ModelInput(module.size), module.batch)


def _torchscript(asked: _Asked) -> Model:
    path = asked.file()
    if not is_torchscript(path):
        _bare_weights(asked)
    return Model(asked.spec, _settled(load_torchscript(path)), digest(path), ModelInput())


def _bare_weights(asked: _Asked) -> Model:
    spec = asked.spec
    asked.file()
    raise UserError(
        f"{spec} holds weights without their model, or a whole pickled model, which could run anything; name the model "
        f"as package.module:callable, timm:NAME, torchvision:NAME or hf:NAME, and its state dict with --weights {spec}"
    )


# Factories and libraries


def _factory(asked: _Asked) -> Model:
    spec = asked.spec
    made = call_factory(spec, asked.name, asked.folder)
    if not isinstance(made, torch.nn.Module):
        raise UserError(f"{spec} gives a {type(made).__name__}; a torch.nn.Module is allowed")
    return _from_library(asked, made, _told_by(spec, made), [asked.name.partition(":")[0]])


def _timm(asked: _Asked) -> Model:
    timm = optional_library("timm", asked.spec)
    advice = "timm.list_models() lists the names; --weights gives the weights where none can be fetched"
    with failures(asked.spec, advice), _weights_only():
        made = timm.create_model(asked.name, pretrained=asked.weights is None)
    return _from_library(asked, made, _told_by(asked.spec, made), ["timm"])


def _torchvision(asked: _Asked) -> Model:
    models = optional_library("torchvision.models", asked.spec)
    advice = "torchvision.models.list_models() lists the names; --weights gives the weights where none can be fetched"
    with failures(asked.spec, advice), _weights_only():
        made = models.get_model(asked.name, weights="DEFAULT" if asked.weights is None else None)
        known = models.get_model_weights(asked.name)
        preset = known.DEFAULT.transforms() if len(known) else None
    told = ModelInput(preset.crop_size[0], tuple(preset.mean), tuple(preset.std)) if preset else ModelInput()
    return _from_library(asked, made, told, ["torchvision"])


def _hugging_face(asked: _Asked) -> Model:
    transformers = optional_library("transformers", asked.spec)
    family, name = transformers.AutoModelForImageClassification, asked.name
    advice = "a classifier of images is allowed, by its name or folder; models with code of their own are not"
    with failures(asked.spec, advice), _weights_only():
        if asked.weights is None:
            made = family.from_pretrained(name, trust_remote_code=False)
        else:
            config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
            made = family.from_config(config, trust_remote_code=False)
        try:
            processor = transformers.AutoImageProcessor.from_pretrained(name, trust_remote_code=False)
        except OSError:  # a folder without one
            processor = None
        size = getattr(made.config, "image_size", None)
        told = _done_by(processor) if processor else ModelInput(size if isinstance(size, int) else None)
    return _from_library(asked, made, told, ["transformers"])


def _from_library(asked: _Asked, made: torch.nn.Module, told: ModelInput, modules: list[str]) -> Model:
    if asked.weights is not None:
        load_weights(made, asked.weights_file(), asked.spec)
    with failures(asked.spec, "a module with plain tensors for weights is allowed"):
        named = {*modules, *modules_of(made)}
        code = code_digest(made, named)
        return Model(
            asked.spec, _settled(made), weights_digest(made), told, None, code, software(sorted(libraries_of(named)))
        )


def _settled(module: torch.nn.Module) -> torch.nn.Module:
    """The module in evaluation mode for good, its weights fixed."""
    if not isinstance(module, torch.jit.ScriptModule) or hasattr(module, "training"):  # frozen ones have no mode
        module.eval()
    classifier = _Classifier(module).requires_grad_(False)
    classifier.training = False
    return classifier


def _told_by(spec: str, module: torch.nn.Module) -> ModelInput:
    """What a module says in an attribute with a dictionary, as timm's do; else ImageNet's. Raises UserError."""
    with failures(spec, f"an attribute {' or '.join(CONFIGURATIONS)} that can be read is allowed"):
        told = next((told for key in CONFIGURATIONS if isinstance(told := getattr(module, key, None), Mapping)), {})
    shape = told.get("input_size")
    try:
        mean, std = (_triple(told.get(key) or usual) for key, usual in (("mean", IMAGENET_MEAN), ("std", IMAGENET_STD)))
        return ModelInput(_side(shape) if shape else None, mean, std)
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{spec} tells {dict(told)}; (3, H, H) and three numbers each are allowed") from error


def _triple(numbers: Any) -> Triple:
    red, green, blue = map(float, numbers)
    if not all(map(math.isfinite, (red, green, blue))):
        raise ValueError(numbers)
    return red, green, blue


def _side(shape: Any) -> int:
    channels, height, width = shape
    if channels != 3 or height != width:
        raise ValueError(shape)
    return int(height)


def _done_by(processor: Any) -> ModelInput:
    """What an image processor does, seen from what it makes of black and of white: so its quirks need no names."""
    import numpy as np

    sides = []
    for side in (300, 400):
        levels = [np.full((side, side, 3), level, np.uint8) for level in (0, 255)]
        black, white = processor(images=levels, return_tensors="pt")["pixel_values"].double()
        sides.append(_side(black.shape))
    low, high = black[:, 0, 0], white[:, 0, 0]
    std = 1 / (high - low)
    mean, std = (_triple(round(number, 6) for number in values.tolist()) for values in (-low * std, std))
    return ModelInput(sides[0] if sides[0] == sides[1] else None, mean, std)


@contextmanager
def _weights_only() -> Iterator[None]:
    """Lets torch load nothing but weights, whatever a library asks of it."""
    before = os.environ.get(WEIGHTS_ONLY)
    os.environ[WEIGHTS_ONLY] = "1"
    try:
        yield
    finally:
        del os.environ[WEIGHTS_ONLY]
        if before is not None:
            os.environ[WEIGHTS_ONLY] = before


@dataclass(frozen=True)
class _Form:
    """A way to name a model: the texts that match, what is read from them, and how messages write it."""

    pattern: str
    load: Callable[[_Asked], Model]
    has_weights: bool = False
    name: str = ""


FORMS = (
    _Form("timm:(.+)", _timm, name="timm:NAME"),
    _Form("torchvision:(.+)", _torchvision, name="torchvision:NAME"),
    _Form("hf:(.+)", _hugging_face, name="hf:NAME"),
    _Form(r"(.+\.onnx)", _onnx, True, "FILE.onnx"),
    _Form(r"(.+\.pt2)", _exported, True, "FILE.pt2 (torch.export)"),
    _Form(r"(.+\.(?:pt|pth|ts|torchscript))", _torchscript, True, "FILE.pt (TorchScript)"),
    _Form(r"(.+\.(?:safetensors|bin|ckpt|tar))", _bare_weights, True),
    _Form(r"([\w.]+:[\w.]+)", _factory, name="package.module:callable"),
)
"""The first that matches is taken."""
