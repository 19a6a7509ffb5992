"""What loaders read, as values that tests compare, and functions that loader processes can import."""

import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader

import robustshards as rs

CONDITIONS: list[Any] = [
    ("gaussian_noise", 3),
    ("contrast", 1),
    ("gaussian_noise", 3),
    [("contrast", 3), ("gaussian_noise", 1)],
]
"""A repetition and a mixture of the conditions of ``built_once``."""


def pixels_of(data: str | Path | rs.DataSet) -> dict[str, NDArray[np.uint8]]:
    """Return key -> pixels of all samples of a data set."""
    data_set = data if isinstance(data, rs.DataSet) else rs.open(data)
    return {sample.row.key: sample.pixels() for sample in data_set.samples()}


def keys(items: Iterable[Any]) -> list[Any]:
    """Return the keys of items or batches that were read with ``columns=["key"]``."""
    return [columns["key"] for _, _, columns in items]


def loaded(data_set: Any, processes: int, **options: Any) -> list[Any]:
    """Return what loader processes read, without batching."""
    return list(DataLoader(data_set, batch_size=None, num_workers=processes, **options))


def half(image: torch.Tensor) -> torch.Tensor:
    """Return an image at half its brightness."""
    return image // 2


def kill_process(image: torch.Tensor) -> torch.Tensor:
    """Kill the process that reads an image."""
    os.kill(os.getpid(), signal.SIGKILL)
    return image
