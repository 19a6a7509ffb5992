"""Checks of the pickles in state dict files, which limit the memory that torch needs to unpickle them.

torch's ``weights_only`` mode runs no code from a file, but it allocates whatever the file requests, for example
``bytearray(10**12)``, tensors larger than the file, or copies of copies. This module first unpickles a file with
placeholders, which need almost no memory.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping, Sized
from typing import Any

import torch

from pipeline.errors import UserError
from pipeline.evaluate.models.guards import first_line

MAX_PICKLE = 16 * 2**20
"""Maximum size of a pickle without tensor data, in bytes. A thousand tensors need 0.2 MiB."""

ITEM_SIZES: Mapping[str, int] = {
    f"{kind}Storage": size
    for size, kinds in {
        16: ("ComplexDouble",),
        8: ("Double", "Long", "ComplexFloat"),
        4: ("Float", "Int"),
        2: ("Half", "BFloat16", "Short"),
        1: ("Char", "Byte", "Bool"),
    }.items()
    for kind in kinds
}
"""Mapping from torch storage class to bytes per element."""

TENSORS = {("torch._utils", "_rebuild_tensor"), ("torch._utils", "_rebuild_tensor_v2")}

OTHER_NAMES = {
    *(("collections", "OrderedDict"), ("collections", "Counter"), ("builtins", "complex")),
    *((module, "set") for module in ("builtins", "__builtin__")),
    *(("torch._utils", "_rebuild_parameter"), ("torch", "Size"), ("torch", "device")),
    *(("torch", name) for name in vars(torch) if isinstance(vars(torch)[name], torch.dtype)),
}
"""Other names that pickles may refer to: those that checkpoints use. ``weights_only`` allows more."""


class _ItemSize(int):
    """A placeholder for a storage class: its bytes per element. A separate type, since a pickle can contain any int."""


class _PickleChecker(pickle._Unpickler):  # not the C unpickler, which allocates memory for any memo index
    """An unpickler that creates placeholders instead of objects."""

    def __init__(self, file: io.BytesIO, bytes_of: Callable[[str], int]) -> None:
        super().__init__(file)
        self._bytes_of = bytes_of
        self._items_left = len(file.getbuffer())
        self._placeholder = self._make_placeholder()

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in ITEM_SIZES:
            return _ItemSize(ITEM_SIZES[name])
        if (module, name) in TENSORS:
            return _check_tensor
        if (module, name) in OTHER_NAMES:
            return self._placeholder
        raise pickle.UnpicklingError(f"it refers to {module}.{name}, which weights do not need")

    def persistent_load(self, pid: Any) -> int:
        """Return the number of elements of a storage. Raise UnpicklingError if the file has fewer bytes."""
        kind, item_size, key, _, count = pid[:5]
        if kind != "storage" or type(item_size) is not _ItemSize or not _are_counts(count) or not isinstance(key, str):
            raise pickle.UnpicklingError("it contains an invalid reference to a storage")
        if item_size * count > self._bytes_of(key):
            raise pickle.UnpicklingError(f"it declares {count} elements, but the file has fewer bytes")
        return int(count)

    def _make_placeholder(self) -> type:
        """Return a placeholder class. The total size of its instances is limited."""
        checker = self

        class Placeholder:
            size = 0

            def __new__(cls, *arguments: object) -> Placeholder:
                placeholder = super().__new__(cls)
                placeholder.size = checker._count_items(arguments)
                return placeholder

            def __init__(self, *_: object) -> None:
                pass

            def __len__(self) -> int:
                return self.size

            def __setstate__(self, state: object) -> None:
                checker._count_items((state,))

            def __setitem__(self, key: object, value: object) -> None:
                self.size += 1

        return Placeholder

    def _count_items(self, arguments: tuple[object, ...]) -> int:
        """Return the number of items that a call copies. Raise UnpicklingError if all calls copy too many."""
        items = sum(len(each) for each in arguments if isinstance(each, Sized) and not isinstance(each, str))
        self._items_left -= items
        if self._items_left < 0:
            raise pickle.UnpicklingError("it copies the same items repeatedly")
        return items


def _are_counts(*values: object) -> bool:
    return all(type(value) is int and value >= 0 for value in values)


def _check_tensor(count: int, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: object) -> None:
    """Raise UnpicklingError if a tensor does not fit into its storage of ``count`` elements."""
    if not _are_counts(count, offset, *size, *stride) or len(size) != len(stride):
        raise pickle.UnpicklingError("it contains a tensor with an invalid shape")
    last = offset + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    if 0 not in size and last >= count:
        raise pickle.UnpicklingError("it contains a tensor that is larger than its storage")


def check_pickles(data: bytes, path: object, bytes_of: Callable[[str], int], count: int = 1) -> None:
    """Raise UserError if pickles contain more than weights, or would allocate more memory than the file justifies.

    Args:
        data: Concatenated pickles.
        path: File that contains them, for the error message.
        bytes_of: Function from the key of a storage to its size in the file, in bytes.
        count: Number of pickles.
    """
    file = io.BytesIO(data)
    try:
        for _ in range(count):
            _PickleChecker(file, bytes_of).load()
    except UserError:
        raise
    except Exception as error:  # damaged pickles raise many exception types
        message = (
            f"{path} was rejected: {first_line(error)}; save only the state dict: torch.save(model.state_dict(), FILE)"
        )
        raise UserError(message) from error
