"""Made-up sets of natural images, and a model that reads the true class of ImageNet off their pixels."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

from pipeline.tasks.library import load
from pipeline.tasks.lists import IMAGENET
from pipeline.tasks.objectnet import DISPLAY_NAMES, IMAGENET_LABELS, LABEL_LINES, LINE_OF_OUTPUT

RED = (255, 0, 0)

HUNDREDS, UNITS = 20, 2
"""Grey levels for each hundred of a class index in the left half, and for the rest in the right half."""

OBJECTNET_FOLDERS = tuple(sorted([*load("objectnet").folders, *(f"other_{number:03d}" for number in range(200))]))
"""Folders of the made-up ObjectNet: the 113 of the task, and 200 others."""


def write_truth(path: Path, output: int, size: tuple[int, int] = (40, 40), border: int = 0) -> None:
    """Write a grey image of the class ``output``, of a size (height, width), with a red border around it."""
    height, width = size
    hundreds, units = divmod(output, 100)
    pixels = np.empty((height, width, 3), np.uint8)
    pixels[:, : width // 2], pixels[:, width // 2 :] = hundreds * HUNDREDS, units * UNITS
    if border:
        framed = np.full((height + 2 * border, width + 2 * border, 3), RED, np.uint8)
        framed[border:-border, border:-border] = pixels
        pixels = framed
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def write_tree(root: Path, outputs: Mapping[str, int], border: int = 0) -> Path:
    """Write one image for each folder, of its class ``outputs[folder]``. All have different sizes."""
    for number, (folder, output) in enumerate(outputs.items()):
        write_truth(root / folder / "image.png", output, (40 + number % 20, 40 + number // 20), border)
    return root


def outputs_of(task: str) -> dict[str, int]:
    """Return the last output of each folder of a task."""
    loaded = load(task)
    groups = loaded.task.groups or tuple((output,) for output in range(loaded.task.outputs))
    return {folder: groups[label][-1] for folder, label in loaded.folders.items()}


class Reader(nn.Module):
    """A classifier whose largest logit is that of the true class."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if (images[:, 0] - images[:, 1]).max() > 0.1:
            raise ValueError("the model sees red")
        row = images[:, 0, images.shape[2] // 2] * 255
        hundreds = (row[:, row.shape[1] // 4] / HUNDREDS).round().long()
        units = (row[:, 3 * row.shape[1] // 4] / UNITS).round().long()
        return nn.functional.one_hot(100 * hundreds + units, len(IMAGENET)).float()


def reader() -> nn.Module:
    """Return the model that is always right."""
    return Reader()


def display_name(folder: str) -> str:
    """Return a display name that sorts otherwise than the folder: those of even length come last."""
    return f"{' ' if len(folder) % 2 else ''}{folder.replace('_', ' ').capitalize()}!"


def write_mappings(folder: Path) -> Path:
    """Write mappings as in the download of ObjectNet, which agree with the shipped task."""
    task = load("objectnet")
    lines = [f"Label {output}" for output in reversed(range(1000))]
    labels = {
        display_name(name): "; ".join(f"Label {output}" for output in task.task.groups[label])
        for name, label in task.folders.items()
    }
    contents = {
        DISPLAY_NAMES: json.dumps({name: display_name(name) for name in OBJECTNET_FOLDERS}),
        IMAGENET_LABELS: json.dumps(labels),
        LABEL_LINES: "\n".join(lines) + "\n",
        LINE_OF_OUTPUT: json.dumps({str(output): 999 - output for output in range(1000)}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_text(content)
    return folder
