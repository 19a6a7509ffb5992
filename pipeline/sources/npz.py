"""Arrays of ``.npz`` archives: what they announce is checked before anything is unfolded."""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, BinaryIO

import numpy as np

from pipeline.errors import UserError
from pipeline.storage import Place

LARGEST_ARRAY = 3 * 2**28
"""Bytes of all arrays that are read: 768 MiB. 50,000 images of 64 x 64 take 614 MB."""

LARGEST_DIRECTORY = 2**16
"""Bytes of a zip's list of members. Each takes some 50."""

LARGEST_HEADER = 2**13

NUMBERS = frozenset({"|u1", "|i1"} | {f"<{kind}{size}" for kind in "ui" for size in (2, 4, 8)})
"""Kinds of numbers: whole ones, little-endian."""

_HEADER = re.compile(
    r"\{'descr': '(?P<kind>[^']{2,8})', 'fortran_order': (?P<columns>True|False), "
    r"'shape': \((?P<shape>(?:\d{1,12}L?, ?)*(?:\d{1,12}L?)?)\),? ?\} *\n?"
)
"""The one form that NumPy writes, Python 2's long numbers included."""

_END, _END_SIZE, _LONGEST_COMMENT = b"PK\5\6", 22, 2**16
_END_64 = b"PK\6\7"


def load(place: Place, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The arrays of these names. Raises UserError for damaged or too large ones, and for all but whole numbers."""
    try:
        with place.store.open(place.name) as file:
            _check_directory(file)
            with zipfile.ZipFile(file) as archive:
                infos = _members(archive, names)
                return {name: _array(archive, info) for name, info in infos.items()}
    except _RefusedError as error:
        raise UserError(f"{place.location} is refused: {error}") from error
    except (
        *(OSError, EOFError, ValueError, KeyError, IndexError, RuntimeError, NotImplementedError, struct.error),
        *(zlib.error, zipfile.BadZipFile, MemoryError, OverflowError),
    ) as error:
        raise UserError(f"{place.location} is no readable .npz file: {error or type(error).__name__}") from error


class _RefusedError(Exception):
    """Something of an archive that is not read. The message stands by itself."""


def _check_directory(file: BinaryIO) -> None:
    """Raise _RefusedError for an archive whose list of members is long: zipfile reads it whole, whatever it holds."""
    total = file.seek(0, io.SEEK_END)
    file.seek(max(0, total - _END_SIZE - _LONGEST_COMMENT))
    tail = file.read()
    place = len(tail) - _END_SIZE
    if tail[place : place + 4] != _END:
        place = tail.rfind(_END)
    if place < 0 or len(tail) - place < _END_SIZE:
        raise _RefusedError("it is no zip archive, or cut short")
    (size,) = struct.unpack_from("<L", tail, place + 12)
    if size > LARGEST_DIRECTORY or tail[max(0, place - 20) :].startswith(_END_64):
        raise _RefusedError(f"its list of members has more than the {LARGEST_DIRECTORY} bytes allowed")
    file.seek(0)


def _members(archive: zipfile.ZipFile, names: Sequence[str]) -> Mapping[str, zipfile.ZipInfo]:
    listed = [info.filename for info in archive.infolist()]
    infos = {}
    for name in names:
        if listed.count(f"{name}.npy") != 1:
            raise _RefusedError(f"it must hold {name}.npy once, it holds {', '.join(listed[:5])[:200] or 'nothing'}")
        infos[name] = info = archive.getinfo(f"{name}.npy")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise _RefusedError(f"{name}.npy is compressed otherwise than numpy.savez does it")
    if (total := sum(info.file_size for info in infos.values())) > LARGEST_ARRAY:
        raise _RefusedError(f"it unfolds to {total} bytes; {LARGEST_ARRAY} are allowed")
    return infos


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray[Any, Any]:
    """One array, of just as many bytes as its header and the archive say."""
    name = info.filename
    with archive.open(info) as file:
        magic = file.read(8)
        width = {b"\x93NUMPY\1\0": "<H", b"\x93NUMPY\2\0": "<L", b"\x93NUMPY\3\0": "<L"}.get(magic)
        if width is None:
            raise _RefusedError(f"{name} is no array of NumPy")
        (length,) = struct.unpack(width, file.read(struct.calcsize(width)))
        if length > LARGEST_HEADER:
            raise _RefusedError(f"the header of {name} has {length} bytes; {LARGEST_HEADER} are allowed")
        header = _HEADER.fullmatch(file.read(length).decode("latin1"))
        if header is None or header["kind"] not in NUMBERS:
            kind = repr(header["kind"]) if header else "something else"
            raise _RefusedError(f"{name} holds {kind}; whole numbers are allowed: {', '.join(sorted(NUMBERS))}")
        shape = tuple(int(side.strip(" L")) for side in header["shape"].split(",") if side.strip())
        dtype = np.dtype(header["kind"])
        size = prod(shape) * dtype.itemsize
        start = len(magic) + struct.calcsize(width) + length
        if start + size != info.file_size or max(shape, default=0) > LARGEST_ARRAY:
            raise _RefusedError(f"{name} says that it has {shape} numbers of {dtype} in {info.file_size - start} bytes")
        # Memory is taken as it is filled, so an archive that lies about its sizes takes none.
        content = np.empty(size, np.uint8)
        filled = 0
        while filled < size and (chunk := file.read(min(2**20, size - filled))):
            content[filled : filled + len(chunk)] = np.frombuffer(chunk, np.uint8)
            filled += len(chunk)
        if filled < size or file.read(1):  # the read at the end also compares the checksum
            raise _RefusedError(f"{name} is cut short: {filled} of {size} bytes are there")
    return content.view(dtype).reshape(shape, order="F" if header["columns"] == "True" else "C")
