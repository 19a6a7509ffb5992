"""Pickles of data sets, loaded without executing code from the file.

The restricted unpickler below accepts only the opcodes that such files need, and calls only the placeholder classes and
functions of this module. These record the shape, dtype and bytes of an array, which are checked before NumPy creates
it. NumPy's own functions for unpickling do not check them and can crash the process.
"""

from __future__ import annotations

import io
import pickle
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, BinaryIO, ClassVar, cast

import numpy as np

from pipeline.errors import UserError
from pipeline.sources.base import check_label
from pipeline.storage import Place

LARGEST_PICKLE = 2**30
"""Maximum size of a file in bytes: 1 GiB. The validation images of ImageNet 64 x 64 have 614 MB."""

MAX_OPERATIONS = 4_000_000
"""Maximum number of opcodes, each of which can use about 100 bytes of memory. 50,000 images with labels and names take
300,000 opcodes."""

NUMBERS: Mapping[str, str] = {
    **{f"{kind}1": f"|{kind}1" for kind in "ui"},
    **{f"{kind}{size}": f"<{kind}{size}" for kind in "ui" for size in (2, 4, 8)},
    **{f"f{size}": f"<f{size}" for size in (2, 4, 8)},
}
"""Name of a dtype in pickles -> its little-endian dtype in NumPy."""

MAX_DIMENSIONS = 4
"""Maximum number of dimensions of an array."""

LONGEST_LINE = 2**28
"""Maximum size in bytes of a value that is written as text, as in protocol 0."""

WIDE_TEXT = 2**24
"""Maximum total size in bytes of strings with characters beyond Latin-1, which take up to four times as much memory."""

_LATIN_BYTES = bytes(range(0xC4))
"""Byte values that occur in Latin-1 text encoded as UTF-8."""

_WIDE_ESCAPE = re.compile(rb"\\u(?!00)|\\U")
"""Escape sequence of a character beyond Latin-1."""

ORDERS: Mapping[object, Any] = {"C": "C", "F": "F", b"C": "C", b"F": "F"}


class _Dtype:
    """Placeholder for a NumPy dtype: its name and byte order."""

    def __init__(self, kind: object, *_: object) -> None:
        self._kind = kind.decode("latin1") if isinstance(kind, bytes) else kind
        self._rest: object = ("|",)

    def describe(self, state: object) -> None:
        """Store the pickled state of a dtype: version, byte order, then fields of structured dtypes."""
        self._rest = state[1:] if isinstance(state, tuple) else state

    def dtype(self) -> np.dtype[Any]:
        """Return the dtype. Raise UnpicklingError unless it is a plain little-endian number."""
        order, *structure = self._rest if isinstance(self._rest, tuple) and self._rest else (None,)
        known = isinstance(self._kind, str) and self._kind in NUMBERS
        plain = all(each is None or (type(each) is int and each in (-1, 0)) for each in structure)
        if not known or not plain or order not in ("|", "<", "=", b"|", b"<", b"="):
            allowed = ", ".join(NUMBERS)
            shown = self._kind[:20] if isinstance(self._kind, str) else type(self._kind).__name__
            raise pickle.UnpicklingError(
                f"it has an array of unsupported dtype {shown!r}; supported dtypes (little-endian): {allowed}"
            )
        return np.dtype(NUMBERS[self._kind])  # type: ignore[index]


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

    def array(self) -> np.ndarray:
        """Return the array. Raise UnpicklingError if its shape, dtype and bytes do not match."""
        shape, data = self._shape, self._data
        if not isinstance(self._kind, _Dtype) or not isinstance(data, bytes | bytearray):
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


def _empty_array(kind: object, shape: object, code: object) -> _Array:
    """Return an array without content. NumPy writes shape (0,); any other shape could only allocate memory."""
    if kind is not _ArrayClass or shape != (0,):
        raise pickle.UnpicklingError("it has an array with an invalid initial shape")
    return _Array()


def _array(data: object, kind: object, shape: object, order: object, *axes: object) -> _Array:
    """Return an array with its content, as protocol 5 writes it."""
    if any(each is not None for each in axes) or not isinstance(order, str | bytes) or order not in ORDERS:
        raise pickle.UnpicklingError("it has an array in an unknown order")
    return _Array(shape, kind, ORDERS.get(order), data)


def _latin(text: object, encoding: object) -> bytes:
    """Encode text as Latin-1, in place of ``_codecs.encode``, which Python 3 uses for bytes in old protocols."""
    if encoding not in ("latin1", b"latin1") or not isinstance(text, str):
        raise pickle.UnpicklingError("it has text in an encoding other than latin1")
    return text.encode("latin1")


def _scalar(kind: object, data: object) -> int | float:
    """Return a NumPy scalar as a Python number."""
    return _Array((), kind, "C", data).array().item()


def _ordered() -> dict[str, Any]:
    """Return a dictionary in place of an ``OrderedDict``. Its items follow in the pickle."""
    return {}


_ALLOWED_GLOBALS: Mapping[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy._core.multiarray", "_reconstruct"): _empty_array,
    ("numpy.core.numeric", "_frombuffer"): _array,
    ("numpy._core.numeric", "_frombuffer"): _array,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy._core.multiarray", "scalar"): _scalar,
    ("numpy", "ndarray"): _ArrayClass,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _latin,
    ("collections", "OrderedDict"): _ordered,
}
"""Module and name in the pickle -> its placeholder."""

_CALLABLE = frozenset(_ALLOWED_GLOBALS.values()) - {_ArrayClass}
"""Placeholders that a pickle may call."""

_OPCODES = (
    *("PROTO", "FRAME", "STOP", "MARK", "POP", "POP_MARK", "DUP", "NONE", "NEWTRUE", "NEWFALSE", "INT"),
    *("BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING", "BINSTRING"),
    *("SHORT_BINSTRING", "BINBYTES"),
    *("SHORT_BINBYTES", "BINBYTES8", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_LIST"),
    *("LIST", "APPEND", "APPENDS", "EMPTY_DICT", "GET", "BINGET", "LONG_BINGET", "PUT", "BINPUT"),
    *("LONG_BINPUT", "MEMOIZE", "GLOBAL", "STACK_GLOBAL"),
)
"""Opcodes handled by Python's unpickler. None of them calls a function or hashes a value from the pickle."""


class _Operations(dict[int, Any]):
    """Opcode -> its handler. Unknown opcodes raise UnpicklingError."""

    def __missing__(self, code: int) -> Any:
        raise pickle.UnpicklingError(f"it has the unsupported opcode {code:#04x}")


class _Restricted(pickle._Unpickler):
    """A restricted unpickler.

    Based on the Python implementation, because the C implementation allocates memory for any memo index in the file.
    """

    append: Callable[[Any], None]
    read: Callable[[int], bytes]
    stack: list[Any]
    pop_mark: Callable[[], list[Any]]
    readline: Callable[[], bytes]
    _operations = _wide = 0

    def count(self) -> None:
        """Count one opcode. Raise UnpicklingError if there are too many."""
        self._operations += 1
        if self._operations > MAX_OPERATIONS:
            raise pickle.UnpicklingError(f"it has more than {MAX_OPERATIONS} opcodes, the maximum")

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED_GLOBALS:
            raise pickle.UnpicklingError(f"it needs {module}.{name}, which is not allowed")
        return _ALLOWED_GLOBALS[module, name]

    def load_bytearray8(self) -> None:
        """Load a bytearray without first allocating its declared length, as the base class does."""
        (length,) = struct.unpack("<Q", self.read(8))
        self.append(self.read(length))

    def load_binunicode(self) -> None:
        """Load a string with its length in four bytes."""
        self._append_text(*struct.unpack("<I", self.read(4)))

    def load_binunicode8(self) -> None:
        """Load a string with its length in eight bytes."""
        self._append_text(*struct.unpack("<Q", self.read(8)))

    def load_short_binunicode(self) -> None:
        """Load a string with its length in one byte."""
        self._append_text(*self.read(1))

    def _append_text(self, length: int) -> None:
        data = self.read(length)
        self._count_wide(data if data.translate(None, _LATIN_BYTES) else b"")
        self.append(str(data, "utf-8", "surrogatepass"))

    def load_unicode(self) -> None:
        """Load a string written as a line with escape sequences."""
        data = self.readline()[:-1]
        self._count_wide(data if _WIDE_ESCAPE.search(data) else b"")
        self.append(str(data, "raw-unicode-escape"))

    def _count_wide(self, data: bytes) -> None:
        self._wide += len(data)
        if self._wide > WIDE_TEXT:
            raise pickle.UnpicklingError(
                f"it has text with characters beyond Latin-1 that exceeds {WIDE_TEXT} bytes, the maximum"
            )

    def load_reduce(self) -> None:
        """Call a placeholder."""
        arguments, called = self.stack.pop(), self.stack.pop()
        if not any(called is each for each in _CALLABLE) or not isinstance(arguments, tuple):
            raise pickle.UnpicklingError("it calls a value that is not callable")
        self.append(called(*arguments))

    def load_build(self) -> None:
        """Set the state of a placeholder."""
        state, placeholder = self.stack.pop(), self.stack[-1]
        if not isinstance(placeholder, _Dtype | _Array):
            raise pickle.UnpicklingError("it sets the state of a value that is not an array or dtype")
        placeholder.describe(state)

    def load_dict(self) -> None:
        """Create a dictionary from the items on the stack."""
        items = self.pop_mark()
        self.append({})
        self._set(items)

    def load_setitem(self) -> None:
        """Set one item of a dictionary."""
        value, key = self.stack.pop(), self.stack.pop()
        self._set([key, value])

    def load_setitems(self) -> None:
        """Set items of a dictionary."""
        self._set(self.pop_mark())

    def _set(self, items: Sequence[Any]) -> None:
        """Set items whose keys are strings. Hashing deeply nested keys would crash the process."""
        target = self.stack[-1]
        if type(target) is not dict or len(items) % 2 or not all(type(key) in (str, bytes) for key in items[::2]):
            raise pickle.UnpicklingError("it has a dictionary with a key that is not a string")
        target.update(zip(items[::2], items[1::2], strict=True))

    dispatch: ClassVar[dict[int, Any]] = _Operations()


def _counted(operation: Any) -> Callable[[_Restricted], None]:
    def counted(unpickler: _Restricted) -> None:
        unpickler.count()
        operation(unpickler)

    return counted


_OWN: Mapping[bytes, Callable[[Any], None]] = {
    pickle.BYTEARRAY8: _Restricted.load_bytearray8,
    pickle.BINUNICODE: _Restricted.load_binunicode,
    pickle.BINUNICODE8: _Restricted.load_binunicode8,
    pickle.SHORT_BINUNICODE: _Restricted.load_short_binunicode,
    pickle.UNICODE: _Restricted.load_unicode,
    pickle.REDUCE: _Restricted.load_reduce,
    pickle.BUILD: _Restricted.load_build,
    pickle.DICT: _Restricted.load_dict,
    pickle.SETITEM: _Restricted.load_setitem,
    pickle.SETITEMS: _Restricted.load_setitems,
}
_inherited = {code: pickle._Unpickler.dispatch[code[0]] for code in (getattr(pickle, name) for name in _OPCODES)}
_Restricted.dispatch.update({code[0]: _counted(operation) for code, operation in {**_inherited, **_OWN}.items()})


class _Bounded:
    """A file whose reads never exceed the bytes left in it, whatever lengths its content declares."""

    def __init__(self, file: BinaryIO) -> None:
        # Files of fsspec do not support a limit in readline.
        self._file = file if isinstance(file, io.BytesIO | io.BufferedReader) else io.BufferedReader(cast(Any, file))
        self._left = file.seek(0, io.SEEK_END)
        file.seek(0)
        if self._left > LARGEST_PICKLE:
            raise pickle.UnpicklingError(f"it has {self._left} bytes; the maximum is {LARGEST_PICKLE}")

    def read(self, size: int) -> bytes:
        """Read ``size`` bytes. Raise EOFError if fewer are left."""
        return self._checked(self._file.read(min(size, self._left)), size)

    def readline(self) -> bytes:
        """Read one line. Raise EOFError at the end of the file."""
        return self._checked(self._file.readline(LONGEST_LINE), 1)

    def _checked(self, data: bytes, minimum: int) -> bytes:
        self._left -= len(data)
        if len(data) < minimum:
            raise EOFError("it is truncated")
        return data


def load(file: BinaryIO | bytes, where: str) -> dict[str, Any]:
    """Load the dictionary in a pickle without executing code from it.

    Args:
        file: The pickle.
        where: Location of the file for error messages.

    Returns:
        The dictionary with its keys as strings.

    Raises:
        UserError: The pickle is damaged, unsafe, or not a dictionary.
    """
    try:
        opened = _Bounded(io.BytesIO(file) if isinstance(file, bytes) else file)
        content = _Restricted(opened, encoding="bytes").load()
        if isinstance(content, dict):
            return {_text(key): value.array() if isinstance(value, _Array) else value for key, value in content.items()}
    except Exception as error:  # damaged pickles can raise any exception
        raise UserError(f"{where} is damaged or unsafe: {type(error).__name__}: {str(error)[:300]}") from error
    raise UserError(f"{where} contains a {type(content).__name__}; expected a dictionary")


def load_file(place: Place) -> dict[str, Any]:
    """Load the dictionary in a pickle file. Raise UserError as :func:`load` does, or if the file cannot be read."""
    try:
        with place.store.open(place.name) as file:
            return load(file, place.location)
    except OSError as error:
        raise UserError(f"cannot read {place.location}: {error.strerror or error}") from error


def _text(key: str | bytes) -> str:
    return key.decode("latin1") if isinstance(key, bytes) else key


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
    return [_text(name) for name in listed]


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
    values = content.get(key)
    listed = values.tolist() if isinstance(values, np.ndarray) and values.ndim == 1 else values
    if not isinstance(listed, list | tuple) or len(listed) != count:
        raise UserError(
            f"the value of {key!r} in {where} must be {count} labels, one per image; it is {_shown(values)}"
        )
    return [check_label(value, f"{where}, image {index},") for index, value in enumerate(listed)]


def _shown(values: object) -> str:
    if values is None:
        return "missing"
    if isinstance(values, np.ndarray):
        return f"an array of shape {values.shape} and dtype {values.dtype}"
    what = type(values).__name__
    return f"a {what} of length {len(values)}" if isinstance(values, list | tuple) else f"of type {what}"
