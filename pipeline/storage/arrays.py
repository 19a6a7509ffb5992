"""Headers of ``.npy`` files, read without unpickling."""

import io
import warnings
from collections.abc import Callable, Mapping
from math import prod
from typing import IO, Any, NamedTuple

import numpy as np

MAX_HEADER = 1000
"""Maximum size of a header in bytes. NumPy writes 128, or slightly more."""

_HEADERS: Mapping[tuple[int, int], Callable[..., tuple[tuple[int, ...], bool, np.dtype[Any]]]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""Version of the format -> function that reads its header."""


class ArrayHeader(NamedTuple):
    """The checked header of an array file.

    Attributes:
        shape: Lengths of the dimensions.
        dtype: Type of the elements.
        by_columns: Whether the elements are in Fortran order.
        offset: Position of the first element in bytes.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_columns: bool
    offset: int


def read_header(file: IO[bytes], size: int) -> ArrayHeader:
    """Return the header at the start of an array file of ``size`` bytes.

    Raises:
        ValueError: The header is damaged, describes Python objects, or does not match the size of the file.
        OSError: The file cannot be read.
    """
    start = io.BytesIO(file.read(MAX_HEADER))  # NumPy would read as many bytes as the file declares
    try:
        version = np.lib.format.read_magic(start)
        if version not in _HEADERS:
            raise ValueError(f"version {version} of the format is not supported; use 1.0 or 2.0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about headers from Python 2
            shape, by_columns, dtype = _HEADERS[version](start, max_header_size=MAX_HEADER)
    except Exception as error:  # NumPy and Python's parser raise many exception types
        raise ValueError(f"its header is invalid: {type(error).__name__}: {str(error)[:200]}") from error
    if dtype.hasobject or dtype.kind == "V":
        raise ValueError(f"it contains Python objects ({dtype}), which are not unpickled")
    if any(type(side) is not int or side < 0 for side in shape):
        raise ValueError(f"invalid shape {shape}: use non-negative integers")
    expected = start.tell() + prod(shape) * dtype.itemsize
    if expected != size:
        raise ValueError(
            f"it has {size} bytes instead of {expected}, for shape {shape} of {dtype}: it is truncated or damaged; "
            "copy or download it again"
        )
    return ArrayHeader(shape, dtype, by_columns, start.tell())
