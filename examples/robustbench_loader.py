"""Loaders of images for RobustBench, with the arguments of ``robustbench.data.load_cifar10c``.

robustbench.data.CORRUPTION_DATASET_LOADERS[dataset][threat_model] = load_corrupted
"""

import random

import torch

import robustshards as rs
from robustshards.torch import Stream


def load_corrupted(n_examples, severity=5, data_dir="imagenet-c", shuffle=False, corruptions=("fog",), prepr=None):
    """Return images, float32 of shape (N, 3, H, W) from 0 to 1, and labels.

    Args:
        n_examples: Number of images, equally many of each corruption: those of the same random photographs, not the
            first ones, which are of a single class.
        severity: Severity.
        data_dir: Folder or URL of the data set, or what ``robustshards.open`` returns.
        shuffle: Whether to mix the corruptions.
        corruptions: Names of corruptions.
        prepr: Function of a PIL image that returns a tensor. None for images as they are.
    """
    rows = rs.open(data_dir).rows({"transform": corruptions[:1], "level": [severity], "status": ["ok"]})
    ids, each = sorted({row.source_id for row in rows}), -(-n_examples // len(corruptions))
    if each > len(ids):
        raise ValueError(f"n_examples {n_examples} needs {each} images of each corruption: there are {len(ids)}")
    conditions = [(name, severity) for name in corruptions]
    chosen = random.Random(0).sample(ids, each)
    form = {"input_transform": prepr, "as_": "pil"} if prepr else {"as_": "float"}
    stream = Stream(data_dir, [conditions] if shuffle else conditions, ids=chosen, **form)
    images, labels = zip(*stream, strict=True)
    return torch.stack(images)[:n_examples], torch.tensor(labels)[:n_examples]
