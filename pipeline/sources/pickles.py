"""Pickles of data sets, read without running anything.

The machine below knows the opcodes that such files consist of, and calls nothing but stand-ins of ours: they collect
what the pickle says of an array (shape, kind of numbers, bytes), which is checked before NumPy gets the bytes. NumPy's
own reconstruction believes what it is told.
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
"""Bytes of a file: 1 GiB. The validation images of ImageNet 64 x 64 are 614 MB."""

MAX_OPERATIONS = 4_000_000
"""Steps of a pickle, of which each may take some 100 bytes. 50,000 images with labels and names take 300,000."""

NUMBERS: Mapping[str, str] = {
    **{f"{kind}1": f"|{kind}1" for kind in "ui"},
    **{f"{kind}{size}": f"<{kind}{size}" for kind in "ui" for size in (2, 4, 8)},
    **{f"f{size}": f"<f{size}" for size in (2, 4, 8)},
}
"""Kinds of numbers as pickles name them -> as NumPy is told: little-endian always."""

MAX_DIMENSIONS = 4

LONGEST_LINE = 2**28
"""Bytes of a value that is written as text, as protocol 0 has all of them."""

WIDE_TEXT = 2**24
"""Bytes of all texts with characters beyond Latin-1, which take up to four times as much in memory."""

_LATIN_BYTES = bytes(range(0xC4))
"""Bytes of Latin-1 text in UTF-8."""

_WIDE_ESCAPE = re.compile(rb"\\u(?!00)|\\U")

ORDERS: Mapping[object, Any] = {"C": "C", "F": "F", b"C": "C", b"F": "F"}


class _Numbers:
    """Stands for a dtype: its kind, and the order of its bytes."""

    def __init__(self, kind: object, *_: object) -> None:
        self._kind = kind.decode("latin1") if isinstance(kind, bytes) else kind
        self._rest: object = ("|",)

    def describe(self, state: object) -> None:
        """Take the state that a pickle gives a dtype: version, byte order, then what only structures have."""
        self._rest = state[1:] if isinstance(state, tuple) else state

    def dtype(self) -> np.dtype[Any]:
        """The dtype. Raises UnpicklingError for all but plain little-endian numbers."""
        order, *structure = self._rest if isinstance(self._rest, tuple) and self._rest else (None,)
        known = isinstance(self._kind, str) and self._kind in NUMBERS
        plain = all(each is None or (type(each) is int and each in (-1, 0)) for each in structure)
        if not known or not plain or order not in ("|", "<", "=", b"|", b"<", b"="):
            allowed = ", ".join(NUMBERS)
            shown = self._kind[:20] if isinstance(self._kind, str) else type(self._kind).__name__
            raise pickle.UnpicklingError(f"it has an array of {shown!r}; little-endian numbers are allowed: {allowed}")
        return np.dtype(NUMBERS[self._kind])  # type: ignore[index]


class _Array:
    """Stands for an array: what the pickle says of it, to be looked at when all is there."""

    def __init__(self, shape: object = (), kind: object = None, order: object = "C", data: object = None) -> None:
        self._shape, self._kind, self._order, self._data = shape, kind, order, data

    def describe(self, state: object) -> None:
        """Take the state that a pickle gives an array: version, shape, kind, whether columns come first, bytes."""
        if not isinstance(state, tuple) or len(state) != 5:
            raise pickle.UnpicklingError("it has an array without a description")
        _, self._shape, self._kind, by_columns, self._data = state
        self._order = "F" if by_columns else "C"

    def array(self) -> np.ndarray:
        """The array. Raises UnpicklingError where its bytes are not just what its shape needs."""
        shape, data = self._shape, self._data
        if not isinstance(self._kind, _Numbers) or not isinstance(data, bytes | bytearray):
            raise pickle.UnpicklingError("it has an array of objects, or one without bytes")
        if not isinstance(shape, tuple) or not all(type(side) is int and side >= 0 for side in shape):
            raise pickle.UnpicklingError("it has an array without a shape")
        dtype = self._kind.dtype()
        if len(shape) > MAX_DIMENSIONS or max(shape, default=0) > LARGEST_PICKLE:
            raise pickle.UnpicklingError(f"it has an array of {len(shape)} dimensions, or one of them too long")
        if prod(shape) * dtype.itemsize != len(data):
            raise pickle.UnpicklingError(f"it has an array of {shape} in {len(data)} bytes")
        if self._order not in ("C", "F"):
            raise pickle.UnpicklingError("it has an array in no known order")
        return np.frombuffer(data, dtype).reshape(shape, order=self._order)


class _ArrayClass:
    """Stands for ``numpy.ndarray``, which pickles only name."""


def _empty_array(kind: object, shape: object, code: object) -> _Array:
    """An array still without content, as every pickled array begins; a shape here would only take memory."""
    if kind is not _ArrayClass or shape != (0,):
        raise pickle.UnpicklingError("an array begins with a shape of its own")
    return _Array()


def _array(data: object, kind: object, shape: object, order: object, *axes: object) -> _Array:
    """An array whose content comes with it, as protocol 5 has it."""
    if any(each is not None for each in axes) or not isinstance(order, str | bytes) or order not in ORDERS:
        raise pickle.UnpicklingError("it has an array in no known order")
    return _Array(shape, kind, ORDERS.get(order), data)


def _latin(text: object, encoding: object) -> bytes:
    """``_codecs.encode`` as Python 3 pickles bytes in old protocols with it, for Latin-1 alone."""
    if encoding not in ("latin1", b"latin1") or not isinstance(text, str):
        raise pickle.UnpicklingError("it has text that is encoded otherwise than in latin1")
    return text.encode("latin1")


def _scalar(kind: object, data: object) -> int | float:
    """A single number of NumPy's."""
    return _Array((), kind, "C", data).array().item()


def _ordered() -> dict[str, Any]:
    """An ``OrderedDict``, of which only the entries matter; they come after it."""
    return {}


_ADMITTED: Mapping[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy._core.multiarray", "_reconstruct"): _empty_array,
    ("numpy.core.numeric", "_frombuffer"): _array,
    ("numpy._core.numeric", "_frombuffer"): _array,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy._core.multiarray", "scalar"): _scalar,
    ("numpy", "ndarray"): _ArrayClass,
    ("numpy", "dtype"): _Numbers,
    ("_codecs", "encode"): _latin,
    ("collections", "OrderedDict"): _ordered,
}
"""Module and name in the pickle -> what stands for it: arrays, their kinds of numbers, bytes, and dictionaries."""

_CALLED = frozenset(_ADMITTED.values()) - {_ArrayClass}

_OPCODES = (
    *("PROTO", "FRAME", "STOP", "MARK", "POP", "POP_MARK", "DUP", "NONE", "NEWTRUE", "NEWFALSE", "INT"),
    *("BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING", "BINSTRING"),
    *("SHORT_BINSTRING", "BINBYTES"),
    *("SHORT_BINBYTES", "BINBYTES8", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_LIST"),
    *("LIST", "APPEND", "APPENDS", "EMPTY_DICT", "GET", "BINGET", "LONG_BINGET", "PUT", "BINPUT"),
    *("LONG_BINPUT", "MEMOIZE", "GLOBAL", "STACK_GLOBAL"),
)
"""What is taken from Python's own machine. None of these calls anything, or hashes what the pickle holds."""


class _Operations(dict[int, Any]):
    """Opcode -> what does it."""

    def __missing__(self, code: int) -> Any:
        raise pickle.UnpicklingError(f"it has the opcode {code:#04x}, which no such data set needs")


class _Restricted(pickle._Unpickler):
    """Python's own unpickler, not the one in C, which makes room for any memo number that nine bytes can name."""

    append: Callable[[Any], None]
    read: Callable[[int], bytes]
    stack: list[Any]
    pop_mark: Callable[[], list[Any]]
    readline: Callable[[], bytes]
    _operations = _wide = 0

    def count(self) -> None:
        """Count one step. Raises UnpicklingError for too many."""
        self._operations += 1
        if self._operations > MAX_OPERATIONS:
            raise pickle.UnpicklingError(f"it takes more than the {MAX_OPERATIONS} steps allowed")

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no such data set needs")
        return _ADMITTED[module, name]

    def load_bytearray8(self) -> None:
        """As it is inherited, but without making room beforehand for the length that is announced."""
        (length,) = struct.unpack("<Q", self.read(8))
        self.append(self.read(length))

    def load_binunicode(self) -> None:
        """Text with its length in four bytes."""
        self._append_text(*struct.unpack("<I", self.read(4)))

    def load_binunicode8(self) -> None:
        """Text with its length in eight bytes."""
        self._append_text(*struct.unpack("<Q", self.read(8)))

    def load_short_binunicode(self) -> None:
        """Text with its length in one byte."""
        self._append_text(*self.read(1))

    def _append_text(self, length: int) -> None:
        data = self.read(length)
        self._count_wide(data if data.translate(None, _LATIN_BYTES) else b"")
        self.append(str(data, "utf-8", "surrogatepass"))

    def load_unicode(self) -> None:
        """Text on a line, with escapes."""
        data = self.readline()[:-1]
        self._count_wide(data if _WIDE_ESCAPE.search(data) else b"")
        self.append(str(data, "raw-unicode-escape"))

    def _count_wide(self, data: bytes) -> None:
        self._wide += len(data)
        if self._wide > WIDE_TEXT:
            raise pickle.UnpicklingError(f"it has more than {WIDE_TEXT} bytes of text beyond Latin-1")

    def load_reduce(self) -> None:
        """Call a stand-in."""
        arguments, called = self.stack.pop(), self.stack.pop()
        if not any(called is each for each in _CALLED) or not isinstance(arguments, tuple):
            raise pickle.UnpicklingError("it calls something that is no part of an array")
        self.append(called(*arguments))

    def load_build(self) -> None:
        """Give a stand-in its description."""
        state, described = self.stack.pop(), self.stack[-1]
        if not isinstance(described, _Numbers | _Array):
            raise pickle.UnpicklingError("it describes something that is no part of an array")
        described.describe(state)

    def load_dict(self) -> None:
        """A dictionary of what lies on the stack."""
        items = self.pop_mark()
        self.append({})
        self._set(items)

    def load_setitem(self) -> None:
        """One entry of a dictionary."""
        value, key = self.stack.pop(), self.stack.pop()
        self._set([key, value])

    def load_setitems(self) -> None:
        """Entries of a dictionary."""
        self._set(self.pop_mark())

    def _set(self, items: Sequence[Any]) -> None:
        """Keys are names: hashing deeply nested ones would end the process."""
        target = self.stack[-1]
        if type(target) is not dict or len(items) % 2 or not all(type(key) in (str, bytes) for key in items[::2]):
            raise pickle.UnpicklingError("it has a dictionary whose keys are no names")
        target.update(zip(items[::2], items[1::2], strict=True))

    dispatch: ClassVar[dict[int, Any]] = _Operations()


def _counted(operation: Any) -> Callable[[_Restricted], None]:
    def counted(machine: _Restricted) -> None:
        machine.count()
        operation(machine)

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
    """A file that is asked for no more than it holds, whatever lengths its content announces."""

    def __init__(self, file: BinaryIO) -> None:
        # Those of fsspec read whole lines alone.
        self._file = file if isinstance(file, io.BytesIO | io.BufferedReader) else io.BufferedReader(cast(Any, file))
        self._left = file.seek(0, io.SEEK_END)
        file.seek(0)
        if self._left > LARGEST_PICKLE:
            raise pickle.UnpicklingError(f"it has {self._left} bytes; {LARGEST_PICKLE} are allowed")

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes."""
        return self._given(self._file.read(min(size, self._left)), size)

    def readline(self) -> bytes:
        """One line."""
        return self._given(self._file.readline(LONGEST_LINE), 1)

    def _given(self, data: bytes, least: int) -> bytes:
        self._left -= len(data)
        if len(data) < least:
            raise EOFError("it is cut short")
        return data


def load(file: BinaryIO | bytes, where: str) -> dict[str, Any]:
    """The dictionary in a pickle, its keys as text. Raises UserError for anything else, without running any of it."""
    try:
        opened = _Bounded(io.BytesIO(file) if isinstance(file, bytes) else file)
        content = _Restricted(opened, encoding="bytes").load()
        if isinstance(content, dict):
            return {_text(key): value.array() if isinstance(value, _Array) else value for key, value in content.items()}
    except Exception as error:  # damaged pickles raise nearly anything
        raise UserError(f"{where} is refused: {type(error).__name__}: {str(error)[:300]}") from error
    raise UserError(f"{where} holds a {type(content).__name__}, not a dictionary")


def load_file(place: Place) -> dict[str, Any]:
    """As :func:`load`, of a file, which is read as it goes along. Raises UserError."""
    try:
        with place.store.open(place.name) as file:
            return load(file, place.location)
    except OSError as error:
        raise UserError(f"{place.location} cannot be read: {error.strerror or error}") from error


def _text(key: str | bytes) -> str:
    return key.decode("latin1") if isinstance(key, bytes) else key


def names(content: Mapping[str, Any], key: str, where: str) -> list[str]:
    """The names under a key; none where there is no such key. Raises UserError."""
    listed = content.get(key, [])
    if not isinstance(listed, list) or not all(isinstance(name, str | bytes) for name in listed):
        raise UserError(f"{where} has no list of names under {key!r}")
    return [_text(name) for name in listed]


def pixels(content: Mapping[str, Any], key: str, where: str) -> np.ndarray:
    """The uint8 array (images, bytes) of a pickle. Raises UserError."""
    array = content.get(key)
    if not isinstance(array, np.ndarray) or array.dtype != np.uint8 or array.ndim != 2:
        raise UserError(f"{where} has no uint8 array of rows under {key!r}")
    return array


def labels(content: Mapping[str, Any], key: str, count: int, where: str) -> list[int]:
    """The whole numbers under a key, one for each image. Raises UserError."""
    values = content.get(key)
    listed = values.tolist() if isinstance(values, np.ndarray) and values.ndim == 1 else values
    if not isinstance(listed, list | tuple) or len(listed) != count:
        raise UserError(f"{where} does not have {count} whole numbers under {key!r}: it has {_described(values)}")
    return [check_label(value, f"{where}, under {key!r}, image {index}") for index, value in enumerate(listed)]


def _described(values: object) -> str:
    if isinstance(values, np.ndarray):
        return f"an array of {values.dtype} {values.shape}"
    return f"{len(values)}" if isinstance(values, list | tuple) else f"a {type(values).__name__}"
