"""Models whose smallest budgets are known in closed form, a small CNN, and models that cannot be attacked."""

from typing import Any, ClassVar

import numpy as np
import torch

SIDE = 8
PLAIN = {"input_size": (3, SIDE, SIDE), "mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}


def weights() -> torch.Tensor:
    """Return the weights w of f = w.(x - 0.5), float32 of shape (3 * SIDE * SIDE,)."""
    return torch.randn(3 * SIDE * SIDE, generator=torch.Generator().manual_seed(5)) * 0.3


def margin(pixels: np.ndarray) -> float:
    """Return f for an image (SIDE, SIDE, 3) of 8 bits, in float64."""
    return float((pixels.transpose(2, 0, 1).ravel() / 255 - 0.5) @ weights().double().numpy())


class Linear(torch.nn.Module):
    """Logits f, 0, and -100 for each dead class."""

    default_cfg = PLAIN

    def __init__(self, dead: int = 0, scale: float = 1.0) -> None:
        super().__init__()
        self.weights = torch.nn.Parameter(weights() * scale)
        self.dead = dead

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        values = (images.flatten(1) - 0.5) @ self.weights
        dead = [torch.full_like(values, -100.0)] * self.dead
        return torch.stack([values, torch.zeros_like(values), *dead], dim=1)


def two_classes() -> torch.nn.Module:
    return Linear()


def four_classes() -> torch.nn.Module:
    return Linear(dead=2)


def large_logits() -> torch.nn.Module:
    """Return a model whose cross entropy has no gradient left in float32."""
    return Linear(scale=1000.0)


class Wrapped(torch.nn.Module):
    """A linear model whose logits are changed."""

    default_cfg = PLAIN

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.inner, self.kind = Linear(), kind

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits = self.inner(images)
        return logits.softmax(dim=1) if self.kind == "probabilities" else logits + torch.rand_like(logits)


def probabilities() -> torch.nn.Module:
    return Wrapped("probabilities")


def random() -> torch.nn.Module:
    return Wrapped("random")


class Small(torch.nn.Module):
    """A CNN of ten classes."""

    default_cfg: ClassVar[Any] = {**PLAIN, "mean": (0.3, 0.3, 0.3), "std": (0.4, 0.4, 0.4)}

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 12, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
            torch.nn.Linear(192, 10),
        )  # fmt: skip

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)


def small() -> torch.nn.Module:
    """Return the untrained CNN."""
    return Small()
