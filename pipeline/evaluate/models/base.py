"""A model ready to evaluate, and how it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

from pipeline.errors import UserError
from pipeline.evaluate.models.factories import software
from pipeline.evaluate.models.files import model_file

Triple = tuple[float, float, float]

IMAGENET_MEAN: Triple = (0.485, 0.456, 0.406)
IMAGENET_STD: Triple = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class ModelInput:
    """What a model takes: square RGB images of side ``size`` (None: any), scaled to (x - mean) / std on 0..1."""

    size: int | None = None
    mean: Triple = IMAGENET_MEAN
    std: Triple = IMAGENET_STD


@dataclass(frozen=True)
class Model:
    """A model ready to evaluate, on the CPU.

    ``module`` maps normalised images (N, 3, H, W) float32 to logits (N, classes). ``digest``: SHA-256 of its files or
    weights. ``batch``: the only batch size that it takes, None for any. ``code``: SHA-256 of what else decides its
    outputs, empty for files. ``software``: library -> version.
    """

    spec: str
    module: torch.nn.Module
    digest: str
    input: ModelInput
    batch: int | None = None
    code: str = ""
    software: Mapping[str, str] = field(default_factory=software)


@dataclass(frozen=True)
class ModelRequest:
    """What a user asks for: the whole text, the name in it, and where relative paths start from."""

    spec: str
    name: str
    weights: str | None
    folder: str
    trust: bool

    def file(self) -> Path:
        """Return the file that the text names. Raise UserError where it cannot be read."""
        return model_file(self.name, self.folder, "name a model's file, or package.module:function")

    def weights_file(self) -> Path:
        """Return the file of ``weights``. Raise UserError where it cannot be read."""
        return model_file(self.weights or "", self.folder, "name the file with the model's state dict")


class LogitsOnly(torch.nn.Module):
    """A model in evaluation mode that returns its logits alone, whatever its library returns."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits (N, classes). Raise UserError where the model returns something else."""
        output = self.inner(images)
        if isinstance(output, Mapping):
            output = output.get("logits", next(iter(output.values()), None))
        output = getattr(output, "logits", output)
        if isinstance(output, tuple | list):
            output = next((item for item in output if isinstance(item, torch.Tensor)), None)
        if not _are_logits(output, len(images)):
            raise UserError(
                f"the model returns {_described(output)} for {len(images)} images; logits of shape (images, classes) "
                "are allowed: wrap it in a factory"
            )
        return output

    def train(self, mode: bool = True) -> LogitsOnly:
        """Return this model unchanged: it is evaluated in one mode."""
        return self


def evaluated(module: torch.nn.Module) -> torch.nn.Module:
    """Return a module in evaluation mode for good, its weights fixed."""
    if not isinstance(module, torch.jit.ScriptModule) or hasattr(module, "training"):  # frozen ones have no mode
        module.eval()
    model = LogitsOnly(module).requires_grad_(False)
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
    )


def _described(output: object) -> str:
    return f"{tuple(output.shape)} of {output.dtype}" if isinstance(output, torch.Tensor) else type(output).__name__
