"""Classifiers that tests evaluate: tiny, with fixed weights, or with faults."""

from __future__ import annotations

import time

import torch
from torch import nn


def tiny(classes: int = 7, seed: int = 0) -> nn.Module:
    """One convolution and a linear layer; takes images of any size."""
    torch.manual_seed(seed)
    layers = [nn.Conv2d(3, 8, 7, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, classes)]
    return nn.Sequential(*layers).eval()


def other() -> nn.Module:
    """Other weights than ``tiny``."""
    return tiny(seed=1)


def half() -> nn.Module:
    """As ``tiny``, its weights in half precision."""
    return tiny().half()


def few_classes() -> nn.Module:
    """Knows less classes than the photographs have."""
    return tiny(classes=1)


def thousand() -> nn.Module:
    """As many classes as ImageNet."""
    return tiny(classes=1000)


def told() -> nn.Module:
    """Says what input it wants."""
    network = tiny()
    network.default_cfg = {"mean": (0.1, 0.2, 0.3), "std": (0.4, 0.5, 0.6), "input_size": (3, 96, 96)}  # type: ignore[assignment]
    return network


class _Slow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = tiny()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        time.sleep(0.3)
        return self.network(images)


def slow() -> nn.Module:
    """As ``tiny``, but a batch takes its time."""
    return _Slow().eval()


class _NaN(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.flatten(1)[:, :5] * float("nan")


def not_a_number() -> nn.Module:
    """Gives NaN for every class."""
    return _NaN()


class _Grid(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images


def no_classifier() -> nn.Module:
    """Gives images back."""
    return _Grid()
