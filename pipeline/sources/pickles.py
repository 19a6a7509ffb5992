"""Pickles of data sets: dictionaries of arrays, numbers and texts, loaded without executing code from the file.

Arrays become placeholders that record their shape, dtype and bytes, and check them before NumPy creates them, because
NumPy's own functions for unpickling can crash the process. :class:`Content` checks what a file contains.
"""

import io
import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, BinaryIO

import numpy as np

from pipeline.errors import UnreachableError, UserError
from pipeline.sources.base import check_label
from pipeline.storage import Place
from pipeline.storage.pickles import Calls, SafeUnpickler

LARGEST_PICKLE = 2**30
"""Maximum size of a file in bytes: 1 GiB. The validation images of ImageNet 64 x 64 have 614 MB."""

MAX_DIMENSIONS = 4
"""Maximum number of dimensions of an array."""

_NUMBER, _TEXT, _OBJECT = re.compile("[ui][1248]|f[248]"), re.compile("[US][0-9]{1,4}"), re.compile("O[48]?")
"""Names of the supported dtypes: numbers, texts with their length, and objects."""

_LITTLE_ENDIAN = ("|", "<", "=", b"|", b"<", b"=")
"""Byte orders in pickles that are little-endian, or of no importance."""

_ORDERS = {"C": "C", "F": "F", b"C": "C", b"F": "F"}

_OBJECT_HEADER = re.compile(
    rb"\x93NUMPY[\x01-\x03]\0(?s:..)(?:\0\0)?\{'descr': '\|O', 'fortran_order': (?:True|False), 'shape': \(\),? ?\} *\n"
)
"""Header of a ``.npy`` file of one object, as NumPy writes it."""

_LONGEST_HEADER = 2**10
"""Maximum size of this header in bytes."""


def as_text(value: Any) -> Any:
    """Return bytes as a string, because Python 2 wrote text as bytes. Return any other value as it is."""
    return value.decode("latin1") if isinstance(value, bytes) else value


class _Dtype:
    """Placeholder for a NumPy dtype: its name and byte order."""

    def __init__(self, name: object, *_: object) -> None:
        text = as_text(name)
        self.name = text if isinstance(text, str) else type(text).__name__
        self._state: tuple[object, ...] = ("|",)

    def describe(self, state: object) -> None:
        """Store the pickled state of a dtype: version, byte order, then fields of structured dtypes."""
        self._state = (state[1:] if isinstance(state, tuple) else ()) or (None,)

    def dtype(self) -> np.dtype[Any]:
        """Return the dtype. Raise UnpicklingError unless it is a little-endian number, or text."""
        order, *structure = self._state
        is_plain = all(each is None or (type(each) is int and each in (-1, 0)) for each in structure)
        is_text = _TEXT.fullmatch(self.name) is not None
        if order not in _LITTLE_ENDIAN or not (is_text or (is_plain and _NUMBER.fullmatch(self.name))):
            raise pickle.UnpicklingError(
                f"it has an array of unsupported dtype {self.name[:20]!r}; supported dtypes (little-endian): texts, "
                "integers, and floating-point numbers of 2 to 8 bytes"
            )
        return np.dtype("<" + self.name)


class _Array:
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
        shape, kind, data = self._shape, self._kind, self._data
        if isinstance(kind, _Dtype) and _OBJECT.fullmatch(kind.name):
            if not isinstance(data, list) or shape not in ((), (len(data),)) or (shape == () and len(data) != 1):
                raise pickle.UnpicklingError("it has an array of objects with an invalid shape")
            return data if shape else data[0]
        if not isinstance(kind, _Dtype) or not isinstance(data, bytes | bytearray):
            raise pickle.UnpicklingError("it has an array without data")
        if not isinstance(shape, tuple) or not all(type(side) is int and side >= 0 for side in shape):
            raise pickle.UnpicklingError("it has an array with an invalid shape")
        dtype = kind.dtype()
        if len(shape) > MAX_DIMENSIONS or max(shape, default=0) > LARGEST_PICKLE:
            raise pickle.UnpicklingError(
                f"it has an array with a shape of {len(shape)} dimensions that is too large; the maximum is "
                f"{MAX_DIMENSIONS} dimensions of {LARGEST_PICKLE}"
            )
        if prod(shape) * dtype.itemsize != len(data):
            raise pickle.UnpicklingError(f"it has an array of shape {shape} and dtype {dtype} in {len(data)} bytes")
        array = np.frombuffer(data, dtype).reshape(shape, order=self._order)  # type: ignore[call-overload]
        return array.tolist() if dtype.kind in "US" else array


_ARRAY_CLASS = object()
"""Placeholder for ``numpy.ndarray``. Pickles pass it as an argument but do not call it."""


def _empty_array(kind: object, shape: object, code: object) -> _Array:
    """Return an array without content. NumPy writes shape (0,); any other shape could only allocate memory."""
    if kind is not _ARRAY_CLASS or shape != (0,):
        raise pickle.UnpicklingError("it has an array with an invalid initial shape")
    return _Array()


def _array(data: object, kind: object, shape: object, order: object, *axes: object) -> _Array:
    """Return an array with its content, as protocol 5 writes it."""
    if any(each is not None for each in axes) or not isinstance(order, str | bytes) or order not in _ORDERS:
        raise pickle.UnpicklingError("it has an array in an unknown order")
    return _Array(shape, kind, _ORDERS[order], data)


def _latin(text: object, encoding: object) -> bytes:
    """Encode text as Latin-1, in place of ``_codecs.encode``, which Python 3 uses for bytes in old protocols."""
    if encoding not in ("latin1", b"latin1") or not isinstance(text, str):
        raise pickle.UnpicklingError("it has text in an encoding other than latin1")
    return text.encode("latin1")


def _scalar(kind: object, data: object) -> Any:
    """Return a NumPy scalar as a Python number."""
    value = _Array((), kind, "C", data).value()
    return value.item() if isinstance(value, np.ndarray) else value


def _ordered() -> dict[str, Any]:
    """Return a dictionary in place of an ``OrderedDict``. Its items follow in the pickle."""
    return {}


CALLS: Calls = {
    **dict.fromkeys(((f"numpy.{core}.multiarray", "_reconstruct") for core in ("core", "_core")), _empty_array),
    **dict.fromkeys(((f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")), _array),
    **dict.fromkeys(((f"numpy.{core}.multiarray", "scalar") for core in ("core", "_core")), _scalar),
    ("numpy", "ndarray"): _ARRAY_CLASS,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _latin,
    ("collections", "OrderedDict"): _ordered,
}
"""What the pickles of data sets refer to."""


def load(file: BinaryIO | bytes, where: str) -> dict[str, Any]:
    """Return the dictionary in a pickle, or in a ``.npy`` file of one object, without executing code from it.

    Its keys become strings. ``where`` is the location of the file for error messages.

    Raises:
        UserError: The pickle is damaged, unsafe, or not a dictionary.
    """
    opened = io.BytesIO(file) if isinstance(file, bytes) else file
    try:
        if (size := opened.seek(0, io.SEEK_END)) > LARGEST_PICKLE:
            raise pickle.UnpicklingError(f"it has {size} bytes; the maximum is {LARGEST_PICKLE}")
        opened.seek(0)
        header = _OBJECT_HEADER.match(opened.read(_LONGEST_HEADER))
        opened.seek(header.end() if header else 0)
        content = SafeUnpickler(opened, CALLS, "data sets").load()
        if isinstance(content, _Array):
            content = content.value()
        if isinstance(content, dict):
            return {
                as_text(key): value.value() if isinstance(value, _Array) else value for key, value in content.items()
            }
    except UnreachableError:
        raise
    except Exception as error:  # damaged pickles can raise any exception
        raise UserError(f"{where} is damaged or unsafe: {type(error).__name__}: {str(error)[:300]}") from error
    raise UserError(f"{where} contains a {type(content).__name__}; expected a dictionary")


def load_file(place: Place) -> "Content":
    """Load the dictionary in a pickle file. Raise UserError as :func:`load` does, or if the file cannot be read."""
    try:
        with place.store.open(place.name) as file:
            return Content(load(file, place.location), place.location)
    except OSError as error:
        raise UserError(f"cannot read {place.location}: {error.strerror or error}") from error


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
