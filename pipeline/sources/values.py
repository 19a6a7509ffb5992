"""Checked values from the content of a data set's file: a loaded pickle, or an archive of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.errors import UserError
from pipeline.sources.base import check_label
from pipeline.sources.pickles import as_text


@dataclass(frozen=True)
class Content:
    """The content of a file: a loaded pickle or archive, and its location for error messages."""

    values: Mapping[str, Any]
    where: str

    def names(self, key: str) -> list[str]:
        """Return a list of names; empty if the key is missing. Raise UserError if it is not a list of strings."""
        listed = self.values.get(key, [])
        if not isinstance(listed, list) or not all(isinstance(name, str | bytes) for name in listed):
            raise UserError(f"the value of {key!r} in {self.where} is not a list of names")
        return [as_text(name) for name in listed]

    def pixels(self, key: str) -> np.ndarray:
        """Return the images: uint8 array (images, bytes per image). Raise UserError if there is no such array."""
        array = self.values.get(key)
        if not isinstance(array, np.ndarray) or array.dtype != np.uint8 or array.ndim != 2:
            raise UserError(
                f"the value of {key!r} in {self.where} is missing or is not a uint8 array with two dimensions"
            )
        return array

    def texts(self, key: str, count: int) -> list[str]:
        """Return ``count`` texts, one per image; numbers become their digits. Raise UserError if they are invalid."""
        listed = self._one_per_image(key, count, "texts")
        if not all(type(each) in (str, bytes, int) for each in listed):
            raise self._invalid(key, count, "texts")
        return [str(each) if isinstance(each, int) else as_text(each) for each in listed]

    def labels(self, key: str, count: int) -> list[int]:
        """Return ``count`` labels, one per image. Raise UserError if they are missing or invalid."""
        listed = self._one_per_image(key, count, "labels")
        return [check_label(value, f"{self.where}, image {index},") for index, value in enumerate(listed)]

    def _one_per_image(self, key: str, count: int, what: str) -> Sequence[Any]:
        """Return the values of a list, tuple or array with one dimension. Raise UserError if it has another length."""
        values = self.values.get(key)
        listed = values.tolist() if isinstance(values, np.ndarray) and values.ndim == 1 else values
        if not isinstance(listed, list | tuple) or len(listed) != count:
            raise self._invalid(key, count, what)
        return listed

    def _invalid(self, key: str, count: int, what: str) -> UserError:
        found = _shown(self.values.get(key))
        return UserError(f"the value of {key!r} in {self.where} must be {count} {what}, one per image; it is {found}")


def _shown(values: object) -> str:
    if values is None:
        return "missing"
    if isinstance(values, np.ndarray):
        return f"an array of shape {values.shape} and dtype {values.dtype}"
    what = type(values).__name__
    return f"a {what} of length {len(values)}" if isinstance(values, list | tuple) else f"of type {what}"
