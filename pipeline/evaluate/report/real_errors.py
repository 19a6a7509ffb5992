"""Errors by the reassessed labels (ReaL) of transformed validation images."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.evaluate import metrics
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.scores import Evaluation, Images, Scores, condition_scores
from pipeline.evaluate.results.predictions import ConditionPredictions
from pipeline.transforms.family import Condition


def real_errors(evaluation: Evaluation, images: Images, context: ReportContext) -> Scores[Condition] | None:
    """Return whether no reassessed label of an image is the predicted class: 1 or 0, (images, conditions).

    Args:
        evaluation: Evaluation on transformed images.
        images: The images that all of its conditions have in common.
        context: State of the report.

    Returns:
        The errors of the images that have reassessed labels; None if there are none.

    Raises:
        UserError: If the user gave the labels, and they do not fit the images or the model.
    """
    real = context.real_images(evaluation, images)
    if real is None:
        return None
    (classes,) = condition_scores(evaluation, [_first_classes])
    hits = [metrics.real_hits(column, real.labels) for column in classes.values[real.rows].T]
    return Scores(images.take(real.rows), classes.keys, 1 - np.stack(hits, axis=1).astype(np.float64))


def _first_classes(evaluation: Evaluation, predicted: ConditionPredictions) -> NDArray[np.int32]:
    return predicted.top1[:, 0]
