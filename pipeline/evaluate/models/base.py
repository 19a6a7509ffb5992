"""Records of a requested and of a loaded model."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from pipeline.errors import UserError
from pipeline.evaluate.models.factories import library_versions
from pipeline.evaluate.models.guards import model_file, user_errors

Triple = tuple[float, float, float]

IMAGENET_MEAN: Triple = (0.485, 0.456, 0.406)
IMAGENET_STD: Triple = (0.229, 0.224, 0.225)

USE_COPYABLE = "use a module that copy.deepcopy can copy"
"""Advice for a model that cannot be copied."""


@dataclass(frozen=True)
class ModelInput:
    """The input of a model: square RGB images, normalised to (x - mean) / std.

    Attributes:
        size: Side in pixels. None accepts any size.
        mean: Channel means for pixel values 0..1.
        std: Channel standard deviations for pixel values 0..1.
    """

    size: int | None = None
    mean: Triple = IMAGENET_MEAN
    std: Triple = IMAGENET_STD


@dataclass(frozen=True)
class Model:
    """A loaded model on the CPU, in evaluation mode unless it adapts.

    Attributes:
        spec: Name, file or factory that the model was loaded from.
        module: Network that maps normalised images, float32 of shape (N, 3, H, W), to logits of shape (N, classes).
        digest: SHA-256 of its files or weights, hexadecimal.
        input: Input size and normalisation.
        batch: Fixed batch size. None accepts any batch size.
        code: SHA-256 of the code that its outputs depend on, hexadecimal. Empty for model files.
        software: Mapping from library to version, for the libraries that its outputs depend on.
        adapts: Whether it may change when it is called. Its mode is then that of the user's code, and it may compute
            gradients.
        again: Returns a new one, if it is made by a function.
    """

    spec: str
    module: torch.nn.Module
    digest: str
    input: ModelInput
    batch: int | None = None
    code: str = ""
    software: Mapping[str, str] = field(default_factory=library_versions)
    adapts: bool = False
    again: "Callable[[], Model] | None" = None

    @property
    def resets(self) -> bool:
        """Whether it adapts and has a method ``reset``."""
        return self.adapts and callable(getattr(getattr(self.module, "inner", None), "reset", None))

    def for_trial(self) -> "Model":
        """Return a model to call with other images: a copy of one that adapts. Raise UserError if none can be made."""
        if not self.adapts:
            return self
        with user_errors(self.spec, USE_COPYABLE):
            return replace(self, module=copy.deepcopy(self.module))

    @property
    def parameters(self) -> int | None:
        """The number of parameters; None if the model has none that torch knows, as in an ONNX file."""
        return sum(weights.numel() for weights in self.module.parameters()) or None


@dataclass(frozen=True)
class ModelRequest:
    """A model requested by the user.

    Attributes:
        spec: The ``--model`` text, for example timm:resnet50.
        name: The part of ``spec`` after the prefix, for example resnet50.
        weights: File with a state dict. None uses the model's own weights.
        folder: Folder that relative paths start from.
        trust: Whether files that can run code may be loaded.
        adapts: Whether the model may change when it is called, so that its mode must be kept.
    """

    spec: str
    name: str
    weights: str | None
    folder: str
    trust: bool
    adapts: bool = False

    def file(self) -> Path:
        """Return the path of the model file. Raise UserError if it cannot be read."""
        return model_file(self.name, self.folder, "give a model file, or package.module:function")

    def weights_file(self) -> Path:
        """Return the path of the weights file. Raise UserError if it cannot be read."""
        return model_file(self.weights or "", self.folder, "give a file with the state dict of the model")


class LogitsOnly(torch.nn.Module):
    """A wrapper that extracts the logits from the output of a model."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits of shape (N, classes). Raise UserError if the output contains none."""
        returned = output = self.inner(images)
        if isinstance(output, Mapping):
            tensors = [each for each in output.values() if isinstance(each, torch.Tensor)]
            output = output.get("logits", tensors[0] if len(tensors) == 1 else None)
        output = getattr(output, "logits", output)
        if isinstance(output, tuple | list):
            output = next((item for item in output if isinstance(item, torch.Tensor)), None)
        if not _are_logits(output, len(images)):
            raise UserError(
                f"the model returns {_describe(returned if output is None else output)} for {len(images)} images; "
                "write a factory for a model that returns logits: numbers of shape (images, classes), a tuple with "
                "them first, or a mapping or object with them as 'logits'"
            )
        return output


class _EvaluationMode(LogitsOnly):
    """A wrapper that also keeps the model in evaluation mode."""

    def train(self, mode: bool = True) -> "_EvaluationMode":
        """Return the model unchanged: it stays in evaluation mode."""
        return self


def evaluation_mode(module: torch.nn.Module) -> torch.nn.Module:
    """Return a wrapped module that stays in evaluation mode and computes no gradients."""
    if not isinstance(module, torch.jit.ScriptModule) or hasattr(module, "training"):  # frozen modules have no mode
        module.eval()
    model = _EvaluationMode(module).requires_grad_(False)
    model.training = False
    return model


def _are_logits(output: object, images: int) -> bool:
    return (
        isinstance(output, torch.Tensor)
        and output.ndim == 2
        and output.shape[0] == images
        and output.shape[1] > 0
        and output.layout == torch.strided
        and not output.is_complex()
        and output.dtype != torch.bool
    )


def _describe(output: object) -> str:
    if isinstance(output, Mapping):
        return f"{type(output).__name__} with {', '.join(map(ascii, output)) or 'nothing'}"
    return f"{tuple(output.shape)} of {output.dtype}" if isinstance(output, torch.Tensor) else type(output).__name__
