"""Arrays of ``.npz`` archives, whose declared sizes are checked before decompressing them."""

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
"""Maximum total size of the arrays in bytes: 768 MiB. 50,000 images of 64 x 64 pixels have 614 MB."""

LARGEST_DIRECTORY = 2**16
"""Maximum size of the zip directory in bytes. A member takes about 50 bytes."""

LARGEST_HEADER = 2**13
"""Maximum size of an array header in bytes."""

NUMBERS = frozenset({"|u1", "|i1"} | {f"<{kind}{size}" for kind in "ui" for size in (2, 4, 8)})
"""Supported dtypes: little-endian integers."""

_HEADER = re.compile(
    r"\{'descr': '(?P<kind>[^']{2,8})', 'fortran_order': (?P<columns>True|False), "
    r"'shape': \((?P<shape>(?:\d{1,12}L?, ?)*(?:\d{1,12}L?)?)\),? ?\} *\n?"
)
"""Array header as NumPy writes it, including the ``L`` suffix of integers from Python 2."""

_END, _END_SIZE, _LONGEST_COMMENT = b"PK\5\6", 22, 2**16
_END_64 = b"PK\6\7"


def load(place: Place, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Load arrays of integers.

    Args:
        place: The archive.
        names: Names of the arrays, which must all exist.

    Returns:
        Name -> array.

    Raises:
        UserError: The archive is damaged or too large, or an array is missing or has an unsupported dtype.
    """
    try:
        with place.store.open(place.name) as file:
            _check_directory(file)
            with zipfile.ZipFile(file) as archive:
                infos = _members(archive, names)
                return {name: _array(archive, info) for name, info in infos.items()}
    except _InvalidArchiveError as error:
        raise UserError(f"{place.location} is damaged or unsafe: {error}") from error
    except (
        *(OSError, EOFError, ValueError, KeyError, IndexError, RuntimeError, NotImplementedError, struct.error),
        *(zlib.error, zipfile.BadZipFile, MemoryError, OverflowError),
    ) as error:
        raise UserError(f"{place.location} is not a valid .npz file: {error or type(error).__name__}") from error


class _InvalidArchiveError(Exception):
    """An archive is damaged or unsafe. The message is complete for users."""


def _check_directory(file: BinaryIO) -> None:
    """Raise _InvalidArchiveError if the zip directory is too large, because zipfile would load all of it."""
    total = file.seek(0, io.SEEK_END)
    file.seek(max(0, total - _END_SIZE - _LONGEST_COMMENT))
    tail = file.read()
    start = len(tail) - _END_SIZE
    if tail[start : start + 4] != _END:
        start = tail.rfind(_END)
    if start < 0 or len(tail) - start < _END_SIZE:
        raise _InvalidArchiveError("it is not a zip archive or is truncated")
    (size,) = struct.unpack_from("<L", tail, start + 12)
    if size > LARGEST_DIRECTORY or tail[max(0, start - 20) :].startswith(_END_64):
        raise _InvalidArchiveError(f"its zip directory exceeds the maximum of {LARGEST_DIRECTORY} bytes")
    file.seek(0)


def _members(archive: zipfile.ZipFile, names: Sequence[str]) -> Mapping[str, zipfile.ZipInfo]:
    listed = [info.filename for info in archive.infolist()]
    infos = {}
    for name in names:
        if listed.count(f"{name}.npy") != 1:
            found = ", ".join(listed[:5])[:200] or "nothing"
            raise _InvalidArchiveError(f"it must contain {name}.npy exactly once; it contains {found}")
        infos[name] = info = archive.getinfo(f"{name}.npy")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise _InvalidArchiveError(
                f"{name}.npy has an unsupported compression: write it with numpy.savez_compressed"
            )
    if (total := sum(info.file_size for info in infos.values())) > LARGEST_ARRAY:
        raise _InvalidArchiveError(f"it decompresses to {total} bytes; the maximum is {LARGEST_ARRAY}")
    return infos


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray[Any, Any]:
    """Load one array. Raise _InvalidArchiveError if its size differs from its header or the zip directory."""
    name = info.filename
    with archive.open(info) as file:
        magic = file.read(8)
        width = {b"\x93NUMPY\1\0": "<H", b"\x93NUMPY\2\0": "<L", b"\x93NUMPY\3\0": "<L"}.get(magic)
        if width is None:
            raise _InvalidArchiveError(f"{name} is not a NumPy array")
        (length,) = struct.unpack(width, file.read(struct.calcsize(width)))
        if length > LARGEST_HEADER:
            raise _InvalidArchiveError(f"the header of {name} has {length} bytes; the maximum is {LARGEST_HEADER}")
        header = _HEADER.fullmatch(file.read(length).decode("latin1"))
        if header is None or header["kind"] not in NUMBERS:
            what = f"has the unsupported dtype {header['kind']!r}" if header else "has an invalid header"
            raise _InvalidArchiveError(f"{name} {what}; supported dtypes: {', '.join(sorted(NUMBERS))}")
        shape = tuple(int(side.strip(" L")) for side in header["shape"].split(",") if side.strip())
        dtype = np.dtype(header["kind"])
        size = prod(shape) * dtype.itemsize
        start = len(magic) + struct.calcsize(width) + length
        if start + size != info.file_size or max(shape, default=0) > LARGEST_ARRAY:
            raise _InvalidArchiveError(
                f"{name} declares shape {shape} and dtype {dtype}, but has {info.file_size - start} bytes"
            )
        # Pages of an empty array are allocated when written, so a forged size allocates nothing.
        content = np.empty(size, np.uint8)
        filled = 0
        while filled < size and (chunk := file.read(min(2**20, size - filled))):
            content[filled : filled + len(chunk)] = np.frombuffer(chunk, np.uint8)
            filled += len(chunk)
        if filled < size or file.read(1):  # reading to the end also checks the checksum
            raise _InvalidArchiveError(f"{name} is truncated or too long: expected {size} bytes, read {filled}")
    return content.view(dtype).reshape(shape, order="F" if header["columns"] == "True" else "C")
