"""Accuracy by the reassessed labels (ReaL) of the ImageNet validation images, of which an image may have several.

Source: Beyer et al., Are we done with ImageNet?, arXiv 2006.07159.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
from numpy.typing import ArrayLike, NDArray

NO_LABEL = -1
"""Value that fills the rows of label arrays."""


def label_array(lists: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    """Return lists of labels as an array.

    Args:
        lists: Labels of each image, 0 or larger. A list may be empty.

    Returns:
        Labels of shape (images, length of the longest list); shorter rows are filled with ``NO_LABEL``.
    """
    columns = list(zip_longest(*lists, fillvalue=NO_LABEL))
    return np.array(columns, np.int32).reshape(len(columns), len(lists)).T


def real_hits(predicted: ArrayLike, labels: ArrayLike) -> NDArray[np.bool_]:
    """Return whether one of the predicted classes of each image is one of its labels.

    Args:
        predicted: Predicted classes of shape (images,), or (images, k) for the k most probable ones.
        labels: Labels of shape (images, any length), filled with ``NO_LABEL``.

    Returns:
        Booleans of shape (images,); False for images without labels.

    Raises:
        ValueError: If the numbers of images differ, or a predicted class is negative.
    """
    classes, truth = np.asarray(predicted), np.asarray(labels)
    if classes.ndim not in {1, 2} or truth.ndim != 2 or len(classes) != len(truth):
        raise ValueError(
            f"invalid shapes {classes.shape} of predicted classes and {truth.shape} of labels: pass (images,) or "
            "(images, k), and (images, labels), of the same images"
        )
    if classes.size and classes.min() < 0:
        raise ValueError(f"invalid predicted class {classes.min()}: use classes from 0")
    return np.asarray((classes.reshape(len(classes), -1, 1) == truth[:, None, :]).any(axis=(1, 2)))


def real_accuracy(predicted: ArrayLike, labels: Sequence[Sequence[int]]) -> float:
    """Return the accuracy (ReaL): the fraction of images with labels of which a predicted class is a label.

    Args:
        predicted: Predicted classes of shape (images,), or (images, k) for top-k accuracy.
        labels: Labels of each image, 0 or larger. Images with an empty list are not counted.

    Returns:
        Accuracy 0..1.

    Raises:
        ValueError: If no image has a label, the numbers of images differ, or a predicted class is negative.
    """
    counted = np.array([len(each) > 0 for each in labels], np.bool_)
    if not counted.any():
        raise ValueError(f"none of {len(counted)} images has a label: pass at least one image with labels")
    return float(real_hits(predicted, label_array(labels))[counted].mean())
