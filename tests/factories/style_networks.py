"""Random networks of the architecture that stylised images need."""

from pathlib import Path

import torch
from safetensors.torch import save
from torch import nn

from pipeline.transforms import adain

PUBLISHED = {
    "encoder": (3, 3, 64, 64, 128, 128, 256, 256, 256, 256, 512),
    "decoder": (512, 256, 256, 256, 256, 128, 128, 64, 64, 3),
}
"""Channels before and after each convolution."""

SMALL = {"encoder": (3, 3, 4, 4, 6, 6, 8, 8, 8, 8, 10), "decoder": (10, 8, 8, 8, 8, 6, 6, 4, 4, 3)}
"""Fewer channels, for tests."""


def network(part: str, channels: dict[str, tuple[int, ...]] = SMALL) -> nn.Sequential:
    """Return a network as the published programs write it, with random weights."""
    torch.manual_seed(0)
    modules: list[nn.Module] = []
    pairs = zip(channels[part], channels[part][1:], strict=False)
    for layer in adain.LAYERS[part]:
        if isinstance(layer, int):
            modules += [nn.ReflectionPad2d(1)] if layer == 3 else []
            modules.append(nn.Conv2d(*next(pairs), layer))
            nn.init.kaiming_normal_(modules[-1].weight)
        else:
            others = {"relu": nn.ReLU(), "pool": nn.MaxPool2d(2, ceil_mode=True), "up": nn.Upsample(scale_factor=2)}
            modules.append(others[layer])
    return nn.Sequential(*modules)


def write_weights(folder: Path, part: str, channels: dict[str, tuple[int, ...]] = SMALL, **more: torch.Tensor) -> Path:
    """Write the weights of a network, and more tensors. Return the file."""
    path = folder / f"{part}.safetensors"
    path.write_bytes(save({**network(part, channels).state_dict(), **more}))
    return path
