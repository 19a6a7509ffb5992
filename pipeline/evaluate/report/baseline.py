"""What figures are divided by: published ones, or those of a model that was evaluated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.evaluate.metrics import alexnet as baselines
from pipeline.evaluate.results.folder import EvaluationTable

Errors = Callable[[str, Sequence[int]], Sequence[float] | None]
"""A corruption and severities -> its error at each, where all are known."""


@dataclass(frozen=True)
class Baseline:
    """What figures are divided by: errors by corruption and severity, flip probabilities and top-5 distances by
    perturbation and difficulty, all as far as they are known.

    ``relative_errors`` are over the images of which the clean error is known.
    """

    name: str
    clean_error: float | None
    errors: Errors
    relative_errors: Errors
    flip_probabilities: Mapping[tuple[str, int], float]
    top5_distances: Mapping[tuple[str, int], float]


ALEXNET = "AlexNet (published)"


ALEXNET_IMAGES = 50_000


IMAGENET_CLASSES = 1000


def _published_baseline(table: EvaluationTable) -> Baseline | None:
    """AlexNet, for what it was measured on: 1000 classes, 224 pixels."""
    if table.data_set.profile != "imagenet" or table.model.classes != IMAGENET_CLASSES:
        return None

    def errors(name: str, levels: Sequence[int]) -> Sequence[float] | None:
        try:
            return baselines.alexnet_errors(name, levels)
        except ValueError:  # not published: a corruption of others, or part of the levels of one of validation
            return None

    flips = {(name, 1): value for name, value in baselines.ALEXNET_FLIP_PROBABILITIES.items()}
    return Baseline(ALEXNET, baselines.ALEXNET_CLEAN_ERROR, errors, errors, flips, {})
