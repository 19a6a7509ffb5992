"""Pickles of data sets, read without running anything: only the types that those files hold are let in."""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from pipeline.errors import UserError

_RECONSTRUCT: Any = np.zeros(0).__reduce__()[0]
"""What rebuilds an array: its state is filled in afterwards. NumPy versions name its module differently."""


def _empty_array(kind: Any, shape: Any, code: Any) -> Any:
    """An array still without content, as every pickled array begins; a shape here would only take memory."""
    if kind is not np.ndarray or shape != (0,):
        raise pickle.UnpicklingError(f"an array begins with {shape!r}")
    return _RECONSTRUCT(kind, shape, code)


def _array(data: Any, dtype: np.dtype[Any], shape: Any, order: Any) -> Any:
    """An array whose content stands in the pickle, as protocol 5 has it. Objects cannot be made so."""
    return np.frombuffer(data, dtype).reshape(shape, order=order)


def _latin(text: str, encoding: str) -> bytes:
    """``_codecs.encode`` as Python 3 pickles bytes in old protocols with it, for Latin-1 alone."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"encoding {encoding!r} is not let in")
    return text.encode("latin1")


_ADMITTED: Mapping[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy._core.multiarray", "_reconstruct"): _empty_array,
    ("numpy.core.numeric", "_frombuffer"): _array,
    ("numpy._core.numeric", "_frombuffer"): _array,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _latin,
}
"""Module and name in the pickle -> what stands for it: arrays, their types, and bytes."""


class _Restricted(pickle._Unpickler):
    """Python's own unpickler, not the one in C, which makes room for any memo number that nine bytes can name."""

    def load_bytearray8(self) -> None:
        """As it is inherited, but without making room beforehand for the length that is announced."""
        read: Callable[[int], bytes] = self.read  # type: ignore[attr-defined]
        (length,) = struct.unpack("<Q", read(8))
        self.append(bytearray(read(length)))  # type: ignore[attr-defined]

    dispatch: ClassVar[dict[int, Any]] = {**pickle._Unpickler.dispatch, pickle.BYTEARRAY8[0]: load_bytearray8}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no such data set needs")
        return _ADMITTED[module, name]

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to objects outside of itself")


def load(data: bytes, where: str) -> dict[str, Any]:
    """The dictionary in a pickle, its keys as text. Raises UserError for anything else, without running any of it."""
    try:
        content = _Restricted(io.BytesIO(data), encoding="bytes").load()
    except Exception as error:  # damaged pickles raise nearly anything
        raise UserError(f"{where} is refused: {type(error).__name__}: {error}") from error
    if not isinstance(content, dict):
        raise UserError(f"{where} holds a {type(content).__name__}, not a dictionary")
    return {key.decode("latin1") if isinstance(key, bytes) else str(key): value for key, value in content.items()}


def pixels(content: Mapping[str, Any], key: str, where: str) -> np.ndarray:
    """The uint8 array (images, bytes) of a pickle. Raises UserError."""
    array = content.get(key)
    if not isinstance(array, np.ndarray) or array.dtype != np.uint8 or array.ndim != 2:
        raise UserError(f"{where} has no uint8 array of rows under {key!r}")
    return array


def labels(content: Mapping[str, Any], key: str, count: int, where: str) -> list[int]:
    """The whole numbers under a key, one for each image. Raises UserError."""
    values = content.get(key)
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    if not isinstance(listed, list) or len(listed) != count or not all(isinstance(value, int) for value in listed):
        raise UserError(f"{where} does not have {count} whole numbers under {key!r}")
    return listed
