"""The 50,000 validation images of ImageNet, recognised by their names."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from pipeline.evaluate.report.scores import Evaluation, Rows
from pipeline.tasks.lists import IMAGENET

VALIDATION_IMAGES = 50_000

_NAME = re.compile(r"(?:.*/)?ILSVRC2012_val_([0-9]{8})", re.DOTALL)
"""Source id of a validation image: the last part of the path is its file name without suffix."""


def has_imagenet_labels(evaluation: Evaluation) -> bool:
    """Return whether each output of the model is one of ImageNet's 1,000 classes, as far as their number tells."""
    return evaluation.table.labels == len(IMAGENET) and not evaluation.groups_digest


def validation_row(id_: str) -> int | None:
    """Return the position of a validation image by its source id, 0..49,999; None for other images."""
    found = _NAME.fullmatch(id_)
    number = int(found[1]) if found else 0
    return number - 1 if 1 <= number <= VALIDATION_IMAGES else None


def validation_rows(ids: Sequence[str]) -> Rows | None:
    """Return the positions of validation images; None if one of the ids is that of another image."""
    rows = [validation_row(id_) for id_ in ids]
    return None if None in rows else np.array(rows, np.int64)


def complete_images(evaluation: Evaluation, ids: Sequence[str]) -> int:
    """Return the number of images of the complete data set: as its task says, or all validation images; 0 if unknown.

    Args:
        evaluation: The evaluation.
        ids: Source ids of its images.
    """
    if evaluation.table.task:
        return evaluation.table.task.images
    return VALIDATION_IMAGES if has_imagenet_labels(evaluation) and validation_rows(ids) is not None else 0
