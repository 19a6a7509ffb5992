"""Arrays of ``.npz`` archives, whose declared sizes are checked before decompressing them."""

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from pipeline.errors import UnreachableError, UserError
from pipeline.storage import Place
from pipeline.storage.arrays import read_header
from pipeline.storage.zips import open_zip

LARGEST_ARRAY = 3 * 2**28
"""Maximum total size of the arrays in bytes: 768 MiB. 50,000 images of 64 x 64 pixels have 614 MB."""


def names(place: Place) -> list[str]:
    """Return the names of the arrays of an archive. Raise UserError as :func:`load` does."""
    with _readable(place) as archive:
        return [each.removesuffix(".npy") for each in archive.namelist()]


def load(place: Place, names: Sequence[str], kinds: str = "iu") -> dict[str, np.ndarray]:
    """Return arrays of an archive by name, of dtypes of these kinds.

    Raises:
        UserError: The archive is damaged or too large, or an array is missing or has an unsupported dtype.
    """
    with _readable(place) as archive:
        found = archive.namelist()
        if missing := [f"{name}.npy" for name in names if f"{name}.npy" not in found]:
            shown = ", ".join(found[:5])[:200] or "nothing"
            raise ValueError(f"it must contain {missing[0]}; it contains {shown}")
        infos = {name: archive.getinfo(f"{name}.npy") for name in names}
        if (total := sum(info.file_size for info in infos.values())) > LARGEST_ARRAY:
            raise ValueError(f"it has arrays of {total} bytes; the maximum is {LARGEST_ARRAY}")
        return {name: _array(archive, info, kinds) for name, info in infos.items()}


@contextmanager
def _readable(place: Place) -> Iterator[zipfile.ZipFile]:
    """Open an archive, and raise UserError for what is wrong with it."""
    try:
        with place.store.open(place.name) as file, open_zip(file, LARGEST_ARRAY) as archive:
            yield archive
    except UnreachableError:
        raise
    except OSError as error:
        raise UserError(f"cannot read {place.location}: {error.strerror or error}") from error
    except Exception as error:  # zipfile and NumPy raise many exception types for damaged files
        raise UserError(f"{place.location} is damaged or unsafe: {error or type(error).__name__}") from error


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, kinds: str) -> np.ndarray[Any, Any]:
    """Load one array. Raise ValueError if its size differs from its header, or its dtype is not supported."""
    with archive.open(info) as start:
        try:
            header = read_header(start, info.file_size)
        except ValueError as error:
            raise ValueError(f"{info.filename}: {error}") from error
    with archive.open(info) as file:
        file.read(header.offset)
        if header.dtype.kind not in kinds or not header.dtype.isnative:
            wanted = "numbers" if "f" in kinds else "integers"
            raise ValueError(f"{info.filename} has the unsupported dtype {header.dtype.str!r}; use {wanted}")
        # Pages of an empty array are allocated when written, so a forged size allocates nothing.
        content = np.empty(prod(header.shape) * header.dtype.itemsize, np.uint8)
        filled = 0
        while chunk := file.read(min(2**20, len(content) - filled)):
            content[filled : filled + len(chunk)] = np.frombuffer(chunk, np.uint8)
            filled += len(chunk)
        if filled < len(content) or file.read(1):  # reading to the end also checks the checksum
            raise ValueError(f"{info.filename} is truncated or too long: expected {len(content)} bytes, read {filled}")
    return content.view(header.dtype).reshape(header.shape, order="F" if header.by_columns else "C")
