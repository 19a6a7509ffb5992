"""Files in the safetensors format: names, shapes and numbers of tensors, and nothing that could run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

MAX_HEADER = 16 * 2**20
"""Maximum size of the header in bytes. A thousand tensors need 0.1 MiB."""

FLOATS: Mapping[str, str] = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
"""Name of a type of floats -> NumPy's type of the same size."""


def read_tensors(data: NDArray[np.uint8]) -> dict[str, NDArray[np.float32]]:
    """Return the tensors of floats in a file, in the order of the file.

    Args:
        data: The bytes of the file (N,). Arrays may be memory-mapped.

    Raises:
        ValueError: It is not such a file, or is damaged.
    """
    length = int.from_bytes(data[:8].tobytes(), "little")
    if not 2 <= length <= min(MAX_HEADER, len(data) - 8):
        raise ValueError("it is not a safetensors file")
    found, body = dict[str, NDArray[np.float32]](), data[8 + length :]
    try:
        header = json.loads(data[8 : 8 + length].tobytes())
        for name, about in header.items():
            if name != "__metadata__" and about["dtype"] in FLOATS:
                found[name] = _tensor(body, about["dtype"], about["shape"], *about["data_offsets"])
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"it is a damaged safetensors file: {type(error).__name__}: {str(error)[:200]}") from error
    return found


def _tensor(body: NDArray[np.uint8], dtype: str, shape: list[int], start: int, end: int) -> NDArray[np.float32]:
    kind = np.dtype(FLOATS[dtype])
    if not 0 <= start <= end <= len(body) or end - start != prod(shape) * kind.itemsize or min(shape, default=0) < 0:
        raise ValueError(f"bytes {start} to {end} cannot be {dtype} {shape}")
    numbers = np.frombuffer(body[start:end].tobytes(), kind).reshape(shape)
    if dtype == "BF16":
        return (numbers.astype(np.uint32) << 16).view(np.float32)
    return numbers.astype(np.float32)


def tensor_bytes(tensors: Mapping[str, ArrayLike]) -> bytes:
    """Return a file with tensors of float32, in order."""
    header, body = dict[str, object](), b""
    for name, numbers in tensors.items():
        array = np.ascontiguousarray(numbers, "<f4")
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": (len(body), len(body) + array.nbytes)}
        body += array.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + body
