"""Pickles of data sets, loaded without executing code from the file.

The restricted unpickler below accepts only the opcodes that such files need, and calls only the placeholders in
:mod:`pipeline.sources.pickled_arrays`. What a loaded pickle contains is checked in :mod:`pipeline.sources.values`.
"""

from __future__ import annotations

import io
import pickle
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, ClassVar, cast

from pipeline.errors import UnreachableError, UserError
from pipeline.sources.pickled_arrays import (
    ALLOWED_GLOBALS,
    CALLABLE,
    LARGEST_PICKLE,
    PickledArray,
    PickledDtype,
    as_text,
)
from pipeline.storage import Place

MAX_OPERATIONS = 4_000_000
"""Maximum number of opcodes, each of which can use about 100 bytes of memory. 50,000 images with labels and names take
300,000 opcodes."""

LONGEST_LINE = 2**28
"""Maximum size in bytes of a value that is written as text, as in protocol 0."""

WIDE_TEXT = 2**24
"""Maximum total size in bytes of strings with characters beyond Latin-1, which take up to four times as much memory."""

_LATIN_BYTES = bytes(range(0xC4))
"""Byte values that occur in Latin-1 text encoded as UTF-8."""

_WIDE_ESCAPE = re.compile(rb"\\u(?!00)|\\U")
"""Escape sequence of a character beyond Latin-1."""

LONGEST_HEADER = 2**10
"""Maximum size of the header of a ``.npy`` file of one object in bytes."""

_OBJECT_HEADER = re.compile(
    rb"\x93NUMPY[\x01-\x03]\0(?s:..)(?:\0\0)?\{'descr': '\|O', 'fortran_order': (?:True|False), 'shape': \(\),? ?\} *\n"
)
"""Header of a ``.npy`` file of one object, as NumPy writes it."""

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
        if (module, name) not in ALLOWED_GLOBALS:
            raise pickle.UnpicklingError(f"it needs {module}.{name}, which is not allowed")
        return ALLOWED_GLOBALS[module, name]

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
        if not any(called is each for each in CALLABLE) or not isinstance(arguments, tuple):
            raise pickle.UnpicklingError("it calls a value that is not callable")
        self.append(called(*arguments))

    def load_build(self) -> None:
        """Set the state of a placeholder."""
        state, placeholder = self.stack.pop(), self.stack[-1]
        if not isinstance(placeholder, PickledDtype | PickledArray):
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
    """A file, from its pickle on, whose reads never exceed the bytes left in it, whatever lengths it declares."""

    def __init__(self, file: BinaryIO) -> None:
        # Files of fsspec do not support a limit in readline.
        self._file = file if isinstance(file, io.BytesIO | io.BufferedReader) else io.BufferedReader(cast(Any, file))
        start, end = _start(self._file), self._file.seek(0, io.SEEK_END)
        self._left = end - self._file.seek(start)
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


def _start(file: Any) -> int:
    """Return the position of the pickle: after the header of a ``.npy`` file of one object, otherwise 0."""
    file.seek(0)
    match = _OBJECT_HEADER.match(file.read(LONGEST_HEADER))
    return match.end() if match else 0


def load(file: BinaryIO | bytes, where: str) -> dict[str, Any]:
    """Load the dictionary in a pickle, or in a ``.npy`` file of one object, without executing code from it.

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
        if isinstance(content, PickledArray):
            content = content.value()
        if isinstance(content, dict):
            return {
                as_text(key): value.value() if isinstance(value, PickledArray) else value
                for key, value in content.items()
            }
    except UnreachableError:
        raise
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
