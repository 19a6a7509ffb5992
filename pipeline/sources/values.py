"""Checked values from the content of a data set's file: a loaded pickle, or an archive of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.errors import UserError
from pipeline.sources.base import check_label
from pipeline.sources.pickles import as_text


def names(content: Mapping[str, Any], key: str, where: str) -> list[str]:
    """Return the class names in a loaded pickle.

    Args:
        content: Content of the pickle.
        key: Key of the names.
        where: Location of the file for error messages.

    Returns:
        The names, or an empty list if the key is missing.

    Raises:
        UserError: The value is not a list of strings.
    """
    listed = content.get(key, [])
    if not isinstance(listed, list) or not all(isinstance(name, str | bytes) for name in listed):
        raise UserError(f"the value of {key!r} in {where} is not a list of names")
    return [as_text(name) for name in listed]


def texts(content: Mapping[str, Any], key: str, count: int, where: str) -> list[str]:
    """Return the texts in a loaded pickle. Numbers become their digits.

    Args:
        content: Content of the pickle.
        key: Key of the texts.
        count: Number of images.
        where: Location of the file for error messages.

    Returns:
        One text per image.

    Raises:
        UserError: The texts are missing or invalid, or their number differs.
    """
    listed = _one_per_image(content, key, count)
    if listed is None or not all(type(each) in (str, bytes, int) for each in listed):
        raise UserError(
            f"the value of {key!r} in {where} must be {count} texts, one per image; it is {_shown(content.get(key))}"
        )
    return [str(each) if isinstance(each, int) else as_text(each) for each in listed]


def pixels(content: Mapping[str, Any], key: str, where: str) -> np.ndarray:
    """Return the images in a loaded pickle or archive.

    Args:
        content: Content of the file.
        key: Key of the images.
        where: Location of the file for error messages.

    Returns:
        uint8 array of shape (images, bytes per image).

    Raises:
        UserError: The value is missing or is not such an array.
    """
    array = content.get(key)
    if not isinstance(array, np.ndarray) or array.dtype != np.uint8 or array.ndim != 2:
        raise UserError(f"the value of {key!r} in {where} is missing or is not a uint8 array with two dimensions")
    return array


def labels(content: Mapping[str, Any], key: str, count: int, where: str) -> list[int]:
    """Return the labels in a loaded pickle or archive.

    Args:
        content: Content of the file.
        key: Key of the labels.
        count: Number of images.
        where: Location of the file for error messages.

    Returns:
        One label per image.

    Raises:
        UserError: The labels are missing or invalid, or their number differs.
    """
    listed = _one_per_image(content, key, count)
    if listed is None:
        raise UserError(
            f"the value of {key!r} in {where} must be {count} labels, one per image; it is {_shown(content.get(key))}"
        )
    return [check_label(value, f"{where}, image {index},") for index, value in enumerate(listed)]


def _one_per_image(content: Mapping[str, Any], key: str, count: int) -> Sequence[Any] | None:
    """Return the values of a list, tuple or array with one dimension; None if there is not one for each image."""
    values = content.get(key)
    listed = values.tolist() if isinstance(values, np.ndarray) and values.ndim == 1 else values
    return listed if isinstance(listed, list | tuple) and len(listed) == count else None


def _shown(values: object) -> str:
    if values is None:
        return "missing"
    if isinstance(values, np.ndarray):
        return f"an array of shape {values.shape} and dtype {values.dtype}"
    what = type(values).__name__
    return f"a {what} of length {len(values)}" if isinstance(values, list | tuple) else f"of type {what}"
