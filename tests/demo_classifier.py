"""A small classifier for the demo, trained in a minute on crops of a few photographs: which one is it?

python -m tests.demo_classifier PHOTOGRAPHS WEIGHTS.pt
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

from pipeline.recipes import library
from pipeline.render.renderer import Renderer
from pipeline.sources.kinds import open_source
from tests.photographs import ONE_CLASS_EACH

STEPS, BATCH = 260, 24
SIDE = 224
MEAN, STD = (0.45, 0.45, 0.45), (0.25, 0.25, 0.25)


def classifier() -> nn.Module:
    """Return the untrained network: four convolutions on a reduced image."""

    def stage(channels: int, wider: int) -> list[nn.Module]:
        return [nn.Conv2d(channels, wider, 3, padding=1, bias=False), nn.BatchNorm2d(wider), nn.ReLU(), nn.MaxPool2d(2)]

    layers = [nn.AvgPool2d(2), nn.Conv2d(3, 16, 5, stride=2, padding=2), nn.ReLU(), *stage(16, 32), *stage(32, 64)]
    layers += [*stage(64, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, len(ONE_CLASS_EACH))]
    network = nn.Sequential(*layers)
    network.default_cfg = {"mean": MEAN, "std": STD, "input_size": (3, SIDE, SIDE)}  # type: ignore[assignment]
    return network


def train(photographs: Path) -> nn.Module:
    """Train the network on some hundred batches of random crops, mirrored or not. The weights are reproducible."""
    torch.manual_seed(0)
    generator = np.random.default_rng(0)
    images, labels = _photographs(photographs)
    network = classifier().train()
    optimiser = torch.optim.AdamW(network.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=6e-3, total_steps=STEPS)
    for step in range(STEPS):
        chosen = generator.integers(len(images), size=BATCH)
        batch = np.stack([_crop(images[index], generator) for index in chosen])
        values = (torch.from_numpy(batch).permute(0, 3, 1, 2).float() / 255 - MEAN[0]) / STD[0]
        loss = nn.functional.cross_entropy(network(values), torch.tensor([labels[index] for index in chosen]))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 50 == 0 or step == STEPS - 1:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    return network.eval()


def _photographs(folder: Path) -> tuple[list[np.ndarray], list[int]]:
    """Return the photographs at the size from which crops are taken, and their labels."""
    source, renderer = open_source("imagefolder", str(folder)), Renderer(library.load("imagenet-c"))
    listed = list(source)
    decoded = [np.asarray(renderer.decode(source.read(image))) for image in listed]
    return decoded, [image.label for image in listed]


def _crop(image: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return a random square crop, between half and all of the shorter side, resized to the model's input."""
    import cv2

    shorter = min(image.shape[:2])
    side = int(generator.integers(shorter // 2, shorter + 1))
    top, left = (int(generator.integers(0, length - side + 1)) for length in image.shape[:2])
    window = cv2.resize(image[top : top + side, left : left + side], (SIDE, SIDE), interpolation=cv2.INTER_AREA)
    return window[:, ::-1] if generator.random() < 0.5 else window


if __name__ == "__main__":
    torch.save(train(Path(sys.argv[1])).state_dict(), sys.argv[2])
