"""Pickles of untrusted files, loaded without executing code from them.

The restricted unpickler below accepts only the opcodes that data need, and calls only the functions that its reader
passes: placeholders, which check what they are given before anything is created from it.
"""

import io
import pickle
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, ClassVar, cast

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

_OPCODES = (
    *("PROTO", "FRAME", "STOP", "MARK", "POP", "POP_MARK", "DUP", "NONE", "NEWTRUE", "NEWFALSE", "INT", "BININT"),
    *("BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING", "BINSTRING", "SHORT_BINSTRING"),
    *("UNICODE", "BINUNICODE", "BINUNICODE8", "SHORT_BINUNICODE", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    *("BYTEARRAY8", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_LIST", "LIST", "APPEND", "APPENDS"),
    *("EMPTY_SET", "ADDITEMS", "EMPTY_DICT", "DICT", "SETITEM", "SETITEMS", "GET", "BINGET", "LONG_BINGET", "PUT"),
    *("BINPUT", "LONG_BINPUT", "MEMOIZE", "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD", "BINPERSID"),
)
"""Supported opcodes."""

Calls = Mapping[tuple[str, str], Any]
"""Module and name in a pickle -> the function that is called in its place, or a value if it is not called."""


class _Operations(dict[int, Any]):
    """Opcode -> its handler. Unknown opcodes raise UnpicklingError."""

    def __missing__(self, code: int) -> Any:
        raise pickle.UnpicklingError(f"it has the unsupported opcode {code:#04x}")


class SafeUnpickler(pickle._Unpickler):
    """A restricted unpickler. Damaged pickles raise any exception.

    Based on the Python implementation, because the C implementation allocates memory for any memo index in the file.
    An object with a method ``describe`` is given its state by it.
    """

    append: Callable[[Any], None]
    read: Callable[[int], bytes]
    stack: list[Any]
    pop_mark: Callable[[], list[Any]]
    readline: Callable[[], bytes]
    _operations = _wide = 0

    def __init__(
        self,
        file: BinaryIO,
        calls: Calls,
        purpose: str,
        stored: Callable[[Any], Any] | None = None,
        encoding: str = "bytes",
    ) -> None:
        """Prepare to load the pickles at the position of a file.

        Args:
            file: The file.
            calls: Functions that may be called, by their names in the pickle.
            purpose: What the names are for, for the message about another name.
            stored: Function of a persistent id, which returns the object that is stored outside of the pickle.
            encoding: Encoding of the strings of Python 2.
        """
        super().__init__(_Bounded(file), encoding=encoding)
        self._calls, self._purpose, self._stored = calls, purpose, stored

    def count(self) -> None:
        """Count one opcode. Raise UnpicklingError if there are too many."""
        self._operations += 1
        if self._operations > MAX_OPERATIONS:
            raise pickle.UnpicklingError(f"it has more than {MAX_OPERATIONS} opcodes, the maximum")

    def find_class(self, module: str, name: str) -> Any:
        """Return the function that is called in place of a name."""
        if (module, name) not in self._calls:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}, which {self._purpose} do not need")
        return self._calls[module, name]

    def persistent_load(self, pid: Any) -> Any:
        """Return an object that is stored outside of the pickle."""
        if self._stored is None:
            raise pickle.UnpicklingError("it refers to an object outside of the pickle")
        return self._stored(pid)

    def _load_text(self, form: str) -> None:
        """Load a string after its length, which is a number of this form."""
        data = self.read(*struct.unpack(form, self.read(struct.calcsize(form))))
        self._count_wide(data if data.translate(None, _LATIN_BYTES) else b"")
        self.append(str(data, "utf-8", "surrogatepass"))

    def _load_line(self) -> None:
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

    def _reduce(self) -> None:
        """Call a placeholder."""
        arguments, called = self.stack.pop(), self.stack.pop()
        if not callable(called) or not isinstance(arguments, tuple):
            raise pickle.UnpicklingError("it calls a value that is not callable")
        self.append(called(*arguments))

    def _build(self) -> None:
        """Set the state of a placeholder."""
        state, placeholder = self.stack.pop(), self.stack[-1]
        describe = getattr(type(placeholder), "describe", None)
        if describe is None:
            raise pickle.UnpicklingError("it sets the state of a value that has no state")
        describe(placeholder, state)

    def _load_dict(self) -> None:
        """Create a dictionary from the items on the stack."""
        items = self.pop_mark()
        self.append({})
        self._set(items)

    def _set(self, items: Sequence[Any]) -> None:
        """Set items whose keys are strings or integers. Hashing deeply nested keys would crash the process."""
        target = self.stack[-1]
        if (
            not isinstance(target, dict)
            or len(items) % 2
            or not all(type(key) in (str, bytes, int) for key in items[::2])
        ):
            raise pickle.UnpicklingError("it has a dictionary with a key that is not a string or integer")
        target.update(zip(items[::2], items[1::2], strict=True))

    dispatch: ClassVar[dict[int, Any]] = _Operations()


_OWN: Mapping[str, Any] = {
    "BYTEARRAY8": lambda self: self.append(self.read(*struct.unpack("<Q", self.read(8)))),
    "BINUNICODE": lambda self: self._load_text("<I"),
    "BINUNICODE8": lambda self: self._load_text("<Q"),
    "SHORT_BINUNICODE": lambda self: self._load_text("<B"),
    "UNICODE": SafeUnpickler._load_line,
    "REDUCE": SafeUnpickler._reduce,
    "BUILD": SafeUnpickler._build,
    "DICT": SafeUnpickler._load_dict,
    "SETITEM": lambda self: self._set([self.stack.pop(-2), self.stack.pop()]),
    "SETITEMS": lambda self: self._set(self.pop_mark()),
    "EMPTY_SET": pickle._Unpickler.load_empty_list,  # type: ignore[attr-defined]
    "ADDITEMS": pickle._Unpickler.load_appends,  # type: ignore[attr-defined]
}
"""Operations that differ from those of the base class, which call any function, hash any key, or first allocate the
length that a pickle declares. A set becomes a list."""


def _counted(operation: Callable[[SafeUnpickler], None]) -> Callable[[SafeUnpickler], None]:
    def counted(unpickler: SafeUnpickler) -> None:
        unpickler.count()
        operation(unpickler)

    return counted


for _name in _OPCODES:
    _code = getattr(pickle, _name)[0]
    SafeUnpickler.dispatch[_code] = _counted(_OWN.get(_name, pickle._Unpickler.dispatch[_code]))


class _Bounded:
    """The rest of a file, whose reads never exceed the bytes left in it, whatever lengths a pickle declares."""

    def __init__(self, file: BinaryIO) -> None:
        # Files of fsspec do not support a limit in readline.
        self._file = file if isinstance(file, io.BytesIO | io.BufferedReader) else io.BufferedReader(cast(Any, file))
        start = self._file.tell()
        self._left = self._file.seek(0, io.SEEK_END) - start
        self._file.seek(start)

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
