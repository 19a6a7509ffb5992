"""Classifiers for tests: small, with fixed weights, or faulty."""

import time

import psutil
import torch
from torch import nn

from tests.factories.processes import is_loader


def tiny(classes: int = 7, seed: int = 0) -> nn.Sequential:
    """Return a convolution and a linear layer, for images of any size."""
    torch.manual_seed(seed)
    layers = [nn.Conv2d(3, 8, 7, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, classes)]
    return nn.Sequential(*layers).eval()


def other() -> nn.Module:
    """Return ``tiny`` with different weights."""
    return tiny(seed=1)


def half() -> nn.Module:
    """Return ``tiny`` with weights in half precision."""
    return tiny().half()


def few_classes() -> nn.Module:
    """Return a model with fewer outputs than the labels count."""
    return tiny(classes=1)


def three() -> nn.Module:
    """Return a model with as many classes as the small CIFAR-10."""
    return tiny(classes=3)


def five() -> nn.Module:
    """Return a model with 5 outputs, the number of classes of the photographs."""
    return tiny(classes=5)


def configured() -> nn.Module:
    """Return a model with an attribute that describes its input."""
    network = tiny()
    network.default_cfg = {"mean": (0.1, 0.2, 0.3), "std": (0.4, 0.5, 0.6), "input_size": (3, 96, 96)}  # type: ignore[assignment]
    return network


class _Flat(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.view(len(images), -1)


def viewing() -> nn.Module:
    """Return ``tiny`` with a call of ``view``, which fails with channels last."""
    network = tiny()
    network[3] = _Flat()
    return network


class _Threads(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.eye(7)[torch.get_num_threads() % 7].repeat(len(images), 1)


def threads() -> nn.Module:
    """Return a model that predicts the number of its threads, modulo 7."""
    return _Threads()


class _Slow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = tiny()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        time.sleep(0.3)
        return self.network(images)


def slow() -> nn.Module:
    """Return ``tiny`` with a delay per batch."""
    return _Slow().eval()


class _Stuck(_Slow):
    batches = 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.batches += 1
        time.sleep(5 * (self.batches > 8))
        return self.network(images)


def stuck() -> nn.Module:
    """Return ``tiny``, whose batches after the eighth take five seconds, because signals wait for their end."""
    return _Stuck().eval()


class _LoaderKiller(_Slow):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        for child in filter(is_loader, psutil.Process().children()):
            child.kill()
        return super().forward(images)


def loader_killer() -> nn.Module:
    """Return a model that kills the loader processes while it computes, as Linux does if memory runs out."""
    return _LoaderKiller().eval()


class _NaN(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.flatten(1)[:, :7] * float("nan")


def not_a_number() -> nn.Module:
    """Return a model whose logits are NaN."""
    return _NaN()


class _Grid(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images


def no_classifier() -> nn.Module:
    """Return a model that returns its input."""
    return _Grid()


class Adapting(nn.Module):
    """A classifier that adapts at test time: it lowers the entropy of each batch, after predicting it.

    Its batch normalisation is in training mode, and it keeps what it was called with.
    """

    def __init__(self, rate: float = 0.05) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Conv2d(3, 8, 7, stride=4), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
            nn.Linear(128, 7),
        )  # fmt: skip
        self.optimizer = torch.optim.SGD(self.network[1].parameters(), lr=rate, momentum=0.9)
        self.batches: list[int] = []
        self.images: torch.Tensor | None = None

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        assert self.network.training
        self.batches.append(len(images))
        self.images = images
        logits = self.network(images)
        self.optimizer.zero_grad()
        torch.distributions.Categorical(logits=logits).entropy().mean().backward()
        self.optimizer.step()
        return logits


def adapting() -> nn.Module:
    """Return a model that adapts at test time, with fixed weights."""
    torch.manual_seed(0)
    return Adapting()
