"""Models from a user's factory, timm, torchvision and transformers."""

import copy
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from pipeline.errors import UserError
from pipeline.evaluate.models.base import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    USE_COPYABLE,
    LogitsOnly,
    Model,
    ModelInput,
    ModelRequest,
    Triple,
    evaluation_mode,
)
from pipeline.evaluate.models.factories import (
    adaptation_digest,
    call_factory,
    code_digest,
    libraries_of,
    library_versions,
    modules_of,
)
from pipeline.evaluate.models.guards import optional_library, user_errors
from pipeline.evaluate.models.state_dicts import check_has_weights, load_weights, weights_digest

WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
"""Environment variable of torch that overrides the arguments of torch.load."""

CONFIGURATIONS = ("pretrained_cfg", "default_cfg")
"""Attributes of timm modules that describe the model input: ``input_size`` (3, H, W), ``mean`` and ``std``."""


def from_factory(request: ModelRequest) -> Model:
    """Load the model that a user's function returns. Raise UserError if it fails or returns another type."""
    spec = request.spec
    network = call_factory(spec, request.name, request.folder)
    if not isinstance(network, torch.nn.Module):
        raise UserError(f"{spec} returns {type(network).__name__}: return a torch.nn.Module")
    model = _model(request, network, _input_from_attributes(spec, network), [request.name.partition(":")[0]])
    return replace(model, again=lambda: from_factory(request))


def from_module(module: torch.nn.Module | Callable[[], torch.nn.Module], adapts: bool = False) -> Model:
    """Return a copy of a module as a model, named after its class.

    Args:
        module: The module, which is not modified; or, for a model that adapts, a function that returns a new one.
        adapts: Whether it may change when it is called, so that its mode must be kept.

    Raises:
        UserError: It is not a module, or cannot be copied.
    """
    if adapts and callable(module) and not isinstance(module, torch.nn.Module):
        return replace(from_module(module(), adapts), again=lambda: from_module(module(), adapts))
    if not isinstance(module, torch.nn.Module):
        raise UserError(f"the model is of type {type(module).__name__}: give the name of a model, or a torch.nn.Module")
    spec = f"{type(module).__module__}.{type(module).__qualname__}"
    check_has_weights(module, spec)
    with user_errors(spec, USE_COPYABLE):
        network = copy.deepcopy(module).cpu()
    request = ModelRequest(spec, spec, None, "", False, adapts)
    return _model(request, network, _input_from_attributes(spec, network), [])


def from_timm(request: ModelRequest) -> Model:
    """Load a timm model. Raise UserError if it is unknown or cannot be downloaded."""
    timm = optional_library("timm", request.spec)
    advice = "timm.list_models() lists the names; give --weights if the weights cannot be downloaded"
    with user_errors(request.spec, advice), _weights_only():
        network = timm.create_model(request.name, pretrained=request.weights is None)
    return _model(request, network, _input_from_attributes(request.spec, network), ["timm"])


def from_torchvision(request: ModelRequest) -> Model:
    """Load a torchvision model. Raise UserError if it is unknown or cannot be downloaded."""
    models = optional_library("torchvision.models", request.spec)
    advice = "torchvision.models.list_models() lists the names; give --weights if the weights cannot be downloaded"
    with user_errors(request.spec, advice), _weights_only():
        network = models.get_model(request.name, weights="DEFAULT" if request.weights is None else None)
        weights = models.get_model_weights(request.name)
        preset = weights.DEFAULT.transforms() if len(weights) else None
    model_input = ModelInput(preset.crop_size[0], tuple(preset.mean), tuple(preset.std)) if preset else ModelInput()
    return _model(request, network, model_input, ["torchvision"])


def from_hugging_face(request: ModelRequest) -> Model:
    """Load an image classifier with transformers. Raise UserError for other models and for models with custom code."""
    transformers = optional_library("transformers", request.spec)
    family, name = transformers.AutoModelForImageClassification, request.name
    advice = "give the name or folder of an image classifier; models with custom code are not supported"
    with user_errors(request.spec, advice), _weights_only():
        if request.weights is None:
            network = family.from_pretrained(name, trust_remote_code=False)
        else:
            config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
            network = family.from_config(config, trust_remote_code=False)
        try:
            processor = transformers.AutoImageProcessor.from_pretrained(name, trust_remote_code=False)
        except OSError:  # the folder has no image processor
            processor = None
        size = getattr(network.config, "image_size", None)
        model_input = (
            _input_of_processor(processor) if processor else ModelInput(size if isinstance(size, int) else None)
        )
    return _model(request, network, model_input, ["transformers"])


def _model(request: ModelRequest, network: torch.nn.Module, model_input: ModelInput, modules: list[str]) -> Model:
    """Return a network as a model, after loading the requested weights. Raise UserError if some are missing."""
    check_has_weights(network, request.spec)
    if request.weights is not None:
        load_weights(network, request.weights_file(), request.spec)
    with user_errors(request.spec, "use a module whose weights are plain tensors"):
        module_names = {*modules, *modules_of(network)}
        code = code_digest(network, module_names)
        libraries = library_versions(sorted(libraries_of(module_names)))
        digest, module = weights_digest(network), LogitsOnly(network) if request.adapts else evaluation_mode(network)
        if request.adapts:
            code = adaptation_digest(network, code)
        return Model(request.spec, module, digest, model_input, None, code, libraries, request.adapts)


def _input_from_attributes(spec: str, module: torch.nn.Module) -> ModelInput:
    """Return the input described by the attributes of a module. Default: any size, normalised as for ImageNet."""
    with user_errors(spec, f"make its attribute {' or '.join(CONFIGURATIONS)} readable"):
        attributes = (getattr(module, key, None) for key in CONFIGURATIONS)
        description: Mapping[str, Any] = next((each for each in attributes if isinstance(each, Mapping)), {})
    shape = description.get("input_size")
    try:
        mean, std = (
            _triple(description.get(key) or default)
            for key, default in (("mean", IMAGENET_MEAN), ("std", IMAGENET_STD))
        )
        return ModelInput(_side(shape) if shape else None, mean, std)
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(
            f"{spec} has an invalid input description {dict(description)}: use input_size (3, H, H), and three numbers "
            "each for mean and std"
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


def _input_of_processor(processor: Any) -> ModelInput:
    """Return the input of an image processor, measured on black and white images, since its options vary."""
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
    """Make torch.load accept only weights, even if a library allows pickled code."""
    before = os.environ.get(WEIGHTS_ONLY)
    os.environ[WEIGHTS_ONLY] = "1"
    try:
        yield
    finally:
        del os.environ[WEIGHTS_ONLY]
        if before is not None:
            os.environ[WEIGHTS_ONLY] = before
