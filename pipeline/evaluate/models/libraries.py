"""Models of a user's factory, of timm, torchvision and transformers."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from pipeline.errors import UserError
from pipeline.evaluate.models.base import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    Model,
    ModelInput,
    ModelRequest,
    Triple,
    evaluated,
)
from pipeline.evaluate.models.factories import call_factory, code_digest, libraries_of, modules_of, software
from pipeline.evaluate.models.guards import failures, optional_library
from pipeline.evaluate.models.state_dicts import load_weights, weights_digest

WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
"""torch's own switch, which overrides what its callers ask for."""

CONFIGURATIONS = ("pretrained_cfg", "default_cfg")
"""timm's attributes of a module with what its weights were trained on: ``input_size`` (3, H, W), ``mean``, ``std``."""


def from_factory(asked: ModelRequest) -> Model:
    """Load the model that a user's function returns. Raise UserError where it fails or returns something else."""
    spec = asked.spec
    made = call_factory(spec, asked.name, asked.folder)
    if not isinstance(made, torch.nn.Module):
        raise UserError(f"{spec} returns a {type(made).__name__}; a torch.nn.Module is allowed")
    return _model(asked, made, _configured(spec, made), [asked.name.partition(":")[0]])


def from_module(module: torch.nn.Module) -> Model:
    """Return a module in memory as a model: a copy of it, called like its class. Raise UserError for anything else."""
    if not isinstance(module, torch.nn.Module):
        raise UserError(f"the model is a {type(module).__name__}: give text that names one, or a torch.nn.Module")
    spec = f"{type(module).__module__}.{type(module).__qualname__}"
    with failures(spec, "a module that copy.deepcopy can copy is allowed"):
        made = copy.deepcopy(module).cpu()
    return _model(ModelRequest(spec, spec, None, "", False), made, _configured(spec, made), [])


def from_timm(asked: ModelRequest) -> Model:
    """Load a model of timm. Raise UserError for an unknown name."""
    timm = optional_library("timm", asked.spec)
    advice = "timm.list_models() lists the names; give --weights where none can be downloaded"
    with failures(asked.spec, advice), _weights_only():
        made = timm.create_model(asked.name, pretrained=asked.weights is None)
    return _model(asked, made, _configured(asked.spec, made), ["timm"])


def from_torchvision(asked: ModelRequest) -> Model:
    """Load a model of torchvision. Raise UserError for an unknown name."""
    models = optional_library("torchvision.models", asked.spec)
    advice = "torchvision.models.list_models() lists the names; give --weights where none can be downloaded"
    with failures(asked.spec, advice), _weights_only():
        made = models.get_model(asked.name, weights="DEFAULT" if asked.weights is None else None)
        known = models.get_model_weights(asked.name)
        preset = known.DEFAULT.transforms() if len(known) else None
    taken = ModelInput(preset.crop_size[0], tuple(preset.mean), tuple(preset.std)) if preset else ModelInput()
    return _model(asked, made, taken, ["torchvision"])


def from_hugging_face(asked: ModelRequest) -> Model:
    """Load an image classifier of transformers, without code of its own. Raise UserError for anything else."""
    transformers = optional_library("transformers", asked.spec)
    family, name = transformers.AutoModelForImageClassification, asked.name
    advice = "an image classifier is allowed, by its name or folder; models with code of their own are not"
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
        taken = _measured(processor) if processor else ModelInput(size if isinstance(size, int) else None)
    return _model(asked, made, taken, ["transformers"])


def _model(asked: ModelRequest, made: torch.nn.Module, taken: ModelInput, modules: list[str]) -> Model:
    """Return a module as a model, with the weights that were asked for."""
    if asked.weights is not None:
        load_weights(made, asked.weights_file(), asked.spec)
    with failures(asked.spec, "a module with plain tensors for weights is allowed"):
        named = {*modules, *modules_of(made)}
        code = code_digest(made, named)
        libraries = software(sorted(libraries_of(named)))
        return Model(asked.spec, evaluated(made), weights_digest(made), taken, None, code, libraries)


def _configured(spec: str, module: torch.nn.Module) -> ModelInput:
    """Return the input that a module's attribute describes, as timm's do; else ImageNet's."""
    with failures(spec, f"an attribute {' or '.join(CONFIGURATIONS)} that can be read is allowed"):
        found = (getattr(module, key, None) for key in CONFIGURATIONS)
        given: Mapping[str, Any] = next((each for each in found if isinstance(each, Mapping)), {})
    shape = given.get("input_size")
    try:
        mean, std = (
            _triple(given.get(key) or usual) for key, usual in (("mean", IMAGENET_MEAN), ("std", IMAGENET_STD))
        )
        return ModelInput(_side(shape) if shape else None, mean, std)
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(
            f"{spec} describes its input as {dict(given)}; input_size (3, H, H), mean and std of three numbers each "
            "are allowed"
        ) from error


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


def _measured(processor: Any) -> ModelInput:
    """Return what an image processor does, measured on black and on white: so its options need no names."""
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
    """Let torch load nothing but weights, whatever a library asks of it."""
    before = os.environ.get(WEIGHTS_ONLY)
    os.environ[WEIGHTS_ONLY] = "1"
    try:
        yield
    finally:
        del os.environ[WEIGHTS_ONLY]
        if before is not None:
            os.environ[WEIGHTS_ONLY] = before
