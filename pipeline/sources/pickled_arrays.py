"""Arrays in pickles: placeholders that record their shape, dtype and bytes, and check them before NumPy creates them.

NumPy's own functions for unpickling do not check them and can crash the process. The unpickler in
:mod:`pipeline.sources.pickles` calls nothing but the placeholders of this module.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

LARGEST_PICKLE = 2**30
"""Maximum size of a file in bytes: 1 GiB. The validation images of ImageNet 64 x 64 have 614 MB."""

NUMBERS: Mapping[str, str] = {
    **{f"{kind}1": f"|{kind}1" for kind in "ui"},
    **{f"{kind}{size}": f"<{kind}{size}" for kind in "ui" for size in (2, 4, 8)},
    **{f"f{size}": f"<f{size}" for size in (2, 4, 8)},
}
"""Name of a dtype in pickles -> its little-endian dtype in NumPy."""

OBJECTS = frozenset({"O", "O4", "O8"})
"""Names of the dtype of arrays of objects in pickles. Such arrays become lists."""

_TEXT = re.compile(r"[US][0-9]{1,4}")
"""Name of a dtype of texts with their length: of characters, or of bytes."""

MAX_DIMENSIONS = 4
"""Maximum number of dimensions of an array."""

LITTLE_ENDIAN = ("|", "<", "=", b"|", b"<", b"=")
"""Byte orders in pickles that are little-endian, or of no importance."""

ORDERS: Mapping[object, Any] = {"C": "C", "F": "F", b"C": "C", b"F": "F"}


def as_text(value: Any) -> Any:
    """Return bytes as a string, because Python 2 wrote text as bytes. Return any other value as it is."""
    return value.decode("latin1") if isinstance(value, bytes) else value


class PickledDtype:
    """Placeholder for a NumPy dtype: its name and byte order."""

    def __init__(self, kind: object, *_: object) -> None:
        self._kind = as_text(kind)
        self._rest: object = ("|",)

    def describe(self, state: object) -> None:
        """Store the pickled state of a dtype: version, byte order, then fields of structured dtypes."""
        self._rest = state[1:] if isinstance(state, tuple) else state

    def dtype(self) -> np.dtype[Any]:
        """Return the dtype. Raise UnpicklingError unless it is a little-endian number, or text."""
        order, *structure = self._rest if isinstance(self._rest, tuple) and self._rest else (None,)
        if (text := self._text_dtype(order)) is not None:
            return text
        known = isinstance(self._kind, str) and self._kind in NUMBERS
        plain = all(each is None or (type(each) is int and each in (-1, 0)) for each in structure)
        if not known or not plain or order not in LITTLE_ENDIAN:
            allowed = ", ".join(NUMBERS)
            shown = self._kind[:20] if isinstance(self._kind, str) else type(self._kind).__name__
            raise pickle.UnpicklingError(
                f"it has an array of unsupported dtype {shown!r}; supported dtypes (little-endian): {allowed}"
            )
        return np.dtype(NUMBERS[self._kind])

    def is_objects(self) -> bool:
        """Return whether this is the dtype of arrays of objects."""
        return isinstance(self._kind, str) and self._kind in OBJECTS

    def _text_dtype(self, order: object) -> np.dtype[Any] | None:
        """Return the dtype of texts; None if this is not one."""
        if not isinstance(self._kind, str) or not _TEXT.fullmatch(self._kind):
            return None
        return np.dtype("<" + self._kind) if order in LITTLE_ENDIAN else None


class PickledArray:
    """Placeholder for an array: its shape, dtype, order and bytes, checked when the pickle is complete."""

    def __init__(self, shape: object = (), kind: object = None, order: object = "C", data: object = None) -> None:
        self._shape, self._kind, self._order, self._data = shape, kind, order, data

    def describe(self, state: object) -> None:
        """Store the pickled state of an array: version, shape, dtype, whether it is in Fortran order, bytes."""
        if not isinstance(state, tuple) or len(state) != 5:
            raise pickle.UnpicklingError("it has an array with an invalid state")
        _, self._shape, self._kind, by_columns, self._data = state
        self._order = "F" if by_columns else "C"

    def value(self) -> Any:
        """Return the array; a list for an array of texts or objects, and the only object of one without dimensions.

        Raise UnpicklingError if its shape, dtype and content do not match.
        """
        if not isinstance(self._kind, PickledDtype) or not self._kind.is_objects():
            array = self.array()
            return array.tolist() if array.dtype.kind in "US" else array
        shape, items = self._shape, self._data
        if not isinstance(items, list) or shape not in ((), (len(items),)) or (shape == () and len(items) != 1):
            raise pickle.UnpicklingError("it has an array of objects with an invalid shape")
        return items if shape else items[0]

    def array(self) -> np.ndarray:
        """Return the array. Raise UnpicklingError if its shape, dtype and bytes do not match."""
        shape, data = self._shape, self._data
        if not isinstance(self._kind, PickledDtype) or not isinstance(data, bytes | bytearray):
            raise pickle.UnpicklingError("it has an array of objects, or an array without data")
        if not isinstance(shape, tuple) or not all(type(side) is int and side >= 0 for side in shape):
            raise pickle.UnpicklingError("it has an array with an invalid shape")
        dtype = self._kind.dtype()
        if len(shape) > MAX_DIMENSIONS or max(shape, default=0) > LARGEST_PICKLE:
            raise pickle.UnpicklingError(
                f"it has an array with a shape of {len(shape)} dimensions that is too large; the maximum is "
                f"{MAX_DIMENSIONS} dimensions of {LARGEST_PICKLE}"
            )
        if prod(shape) * dtype.itemsize != len(data):
            raise pickle.UnpicklingError(f"it has an array of shape {shape} and dtype {dtype} in {len(data)} bytes")
        if self._order not in ("C", "F"):
            raise pickle.UnpicklingError("it has an array in an unknown order")
        return np.frombuffer(data, dtype).reshape(shape, order=self._order)


class _ArrayClass:
    """Placeholder for ``numpy.ndarray``. Pickles pass it as an argument but do not call it."""


def _empty_array(kind: object, shape: object, code: object) -> PickledArray:
    """Return an array without content. NumPy writes shape (0,); any other shape could only allocate memory."""
    if kind is not _ArrayClass or shape != (0,):
        raise pickle.UnpicklingError("it has an array with an invalid initial shape")
    return PickledArray()


def _array(data: object, kind: object, shape: object, order: object, *axes: object) -> PickledArray:
    """Return an array with its content, as protocol 5 writes it."""
    if any(each is not None for each in axes) or not isinstance(order, str | bytes) or order not in ORDERS:
        raise pickle.UnpicklingError("it has an array in an unknown order")
    return PickledArray(shape, kind, ORDERS.get(order), data)


def _latin(text: object, encoding: object) -> bytes:
    """Encode text as Latin-1, in place of ``_codecs.encode``, which Python 3 uses for bytes in old protocols."""
    if encoding not in ("latin1", b"latin1") or not isinstance(text, str):
        raise pickle.UnpicklingError("it has text in an encoding other than latin1")
    return text.encode("latin1")


def _scalar(kind: object, data: object) -> int | float:
    """Return a NumPy scalar as a Python number."""
    return PickledArray((), kind, "C", data).array().item()


def _ordered() -> dict[str, Any]:
    """Return a dictionary in place of an ``OrderedDict``. Its items follow in the pickle."""
    return {}


ALLOWED_GLOBALS: Mapping[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy._core.multiarray", "_reconstruct"): _empty_array,
    ("numpy.core.numeric", "_frombuffer"): _array,
    ("numpy._core.numeric", "_frombuffer"): _array,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy._core.multiarray", "scalar"): _scalar,
    ("numpy", "ndarray"): _ArrayClass,
    ("numpy", "dtype"): PickledDtype,
    ("_codecs", "encode"): _latin,
    ("collections", "OrderedDict"): _ordered,
}
"""Module and name in the pickle -> its placeholder."""

CALLABLE = frozenset(ALLOWED_GLOBALS.values()) - {_ArrayClass}
"""Placeholders that a pickle may call."""
