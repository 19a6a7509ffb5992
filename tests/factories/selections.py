"""Made-up accuracies with a known structure, for the analysis of candidates."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

BLOCKS: Mapping[str, Sequence[str]] = {
    "blurs": ("Blur", "GaussianBlur", "MedianBlur", "MotionBlur"),
    "noise": ("GaussNoise", "ISONoise", "MultiplicativeNoise"),
    "spatial": ("Affines", "Flip", "Perspective", "Rotate", "Transpose"),
}
"""Corruptions that help against each other."""

NAMES = [name for members in BLOCKS.values() for name in members]
BLOCK_OF = np.array([number for number, members in enumerate(BLOCKS.values()) for _ in members])
MODELS = 12


def trained(seed: int = 0) -> np.ndarray:
    """Return accuracies (C + 1, C + 1): training with a corruption helps much against its block, and little else."""
    rng = np.random.default_rng(seed)
    count = len(NAMES)
    table = np.full((count + 1, count + 1), 0.3)
    table[:, 0] = 0.7
    same = BLOCK_OF[:, None] == BLOCK_OF
    table[1:, 1:] += np.where(same, 0.25, 0.02) + 0.01 * rng.random((count, count)) + 0.05 * np.eye(count)
    return table


def measured(seed: int = 0) -> dict[str, np.ndarray]:
    """Return accuracies of ``MODELS`` models: on clean images, on candidates, and on two natural sets.

    Models differ in their robustness to each block. The set ``blurred`` takes as much as the blurs do, ``any`` as much
    as all blocks do on average.
    """
    rng = np.random.default_rng(seed)
    loss = 0.1 + 0.3 * rng.random((MODELS, len(BLOCKS)))
    clean = np.full(MODELS, 0.75) + 0.01 * rng.random(MODELS)
    candidates = clean[:, None] - loss[:, BLOCK_OF] - 0.01 * rng.random((MODELS, len(NAMES)))
    return {
        "clean": clean,
        "candidates": candidates,
        "blurred": clean - loss[:, 0] - 0.01 * rng.random(MODELS),
        "any": clean - loss.mean(axis=1) - 0.01 * rng.random(MODELS),
    }


def write_csv(path: Path, columns: Mapping[str, Sequence[float]], rows: Sequence[str]) -> str:
    """Write a table with the column ``model``, and return its path."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["model", *columns])
        writer.writerows([name, *values] for name, *values in zip(rows, *columns.values(), strict=True))
    return str(path)


def write_accuracies(folder: Path, seed: int = 0) -> None:
    """Write ``trained.csv``, ``candidates.csv`` and ``natural.csv``."""
    names, models, made = ["clean", *NAMES], [f"model{number}" for number in range(MODELS)], measured(seed)
    write_csv(folder / "trained.csv", dict(zip(names, trained(seed).T.tolist(), strict=True)), names)
    candidates = dict(zip(NAMES, made["candidates"].T.tolist(), strict=True))
    write_csv(folder / "candidates.csv", {"clean": made["clean"].tolist(), **candidates}, models)
    write_csv(folder / "natural.csv", {name: made[name].tolist() for name in ("blurred", "any")}, models)
