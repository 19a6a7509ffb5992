"""The memory that a state dict's pickle takes, checked before torch unpickles it.

``weights_only`` runs no code of a file, but allocates what the file asks for: ``bytearray(10**12)``, tensors larger
than their bytes, copies of copies. Here a pickle is followed with stand-ins that allocate nothing.
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
"""Largest pickle in bytes, without the tensors. A thousand tensors take 0.2 MiB."""

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
"""Storage class of torch -> bytes of one number."""

TENSORS = {("torch._utils", "_rebuild_tensor"), ("torch._utils", "_rebuild_tensor_v2")}

OTHERS = {
    *(("collections", "OrderedDict"), ("collections", "Counter"), ("builtins", "complex")),
    *((module, "set") for module in ("builtins", "__builtin__")),
    *(("torch._utils", "_rebuild_parameter"), ("torch", "Size"), ("torch", "device")),
    *(("torch", name) for name in vars(torch) if isinstance(vars(torch)[name], torch.dtype)),
}
"""What checkpoints call besides tensors. ``weights_only`` allows more."""


class _ItemSize(int):
    """A stand-in for a class of storages: bytes of one number. Its own type, since a pickle can contain any int."""


class _Walk(pickle._Unpickler):  # the one in Python: the one in C allocates for any memo number
    """Follow a pickle without building what it describes."""

    def __init__(self, file: io.BytesIO, bytes_of: Callable[[str], int]) -> None:
        super().__init__(file)
        self._bytes_of = bytes_of
        self._room = len(file.getbuffer())
        self._stand_in = self._make_stand_in()

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in ITEM_SIZES:
            return _ItemSize(ITEM_SIZES[name])
        if (module, name) in TENSORS:
            return _check_tensor
        if (module, name) in OTHERS:
            return self._stand_in
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which weights do not need")

    def persistent_load(self, pid: Any) -> int:
        """Return the count of numbers in a storage. Raise UnpicklingError for more than its bytes hold."""
        kind, item_size, key, _, count = pid[:5]
        if kind != "storage" or type(item_size) is not _ItemSize or not _whole(count) or not isinstance(key, str):
            raise pickle.UnpicklingError("it refers to something that is not a storage")
        if item_size * count > self._bytes_of(key):
            raise pickle.UnpicklingError(f"it declares {count} numbers where there are fewer bytes")
        return int(count)

    def _make_stand_in(self) -> type:
        """Return a class for whatever a pickle makes, of which all copies together are bounded."""
        walk = self

        class StandIn:
            size = 0

            def __new__(cls, *arguments: object) -> StandIn:
                made = super().__new__(cls)
                made.size = walk._copied(arguments)
                return made

            def __init__(self, *_: object) -> None:
                pass

            def __len__(self) -> int:
                return self.size

            def __setstate__(self, state: object) -> None:
                walk._copied((state,))

            def __setitem__(self, key: object, value: object) -> None:
                self.size += 1

        return StandIn

    def _copied(self, arguments: tuple[object, ...]) -> int:
        """Return the count of items that a call copies; over a pickle it is at most that of the pickle's bytes."""
        items = sum(len(each) for each in arguments if isinstance(each, Sized) and not isinstance(each, str))
        self._room -= items
        if self._room < 0:
            raise pickle.UnpicklingError("it copies the same items again and again")
        return items


def _whole(*values: object) -> bool:
    return all(type(value) is int and value >= 0 for value in values)


def _check_tensor(count: int, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: object) -> None:
    """Raise UnpicklingError for a tensor outside of its storage of ``count`` numbers."""
    if not _whole(count, offset, *size, *stride) or len(size) != len(stride):
        raise pickle.UnpicklingError("it has a tensor with an invalid shape")
    last = offset + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    if 0 not in size and last >= count:
        raise pickle.UnpicklingError("it has a tensor that reaches beyond its bytes")


def check_pickles(data: bytes, where: object, bytes_of: Callable[[str], int], count: int = 1) -> None:
    """Raise UserError for pickles that contain more than weights, or that would take memory for nothing.

    Args:
        data: Pickles, one after the other.
        where: The file, for the message.
        bytes_of: Key of a storage -> its bytes in the file.
        count: How many pickles there are.
    """
    file = io.BytesIO(data)
    try:
        for _ in range(count):
            _Walk(file, bytes_of).load()
    except UserError:
        raise
    except Exception as error:  # damaged pickles raise nearly anything
        message = (
            f"{where} is refused: {first_line(error)}; save only the state dict, torch.save(model.state_dict(), FILE)"
        )
        raise UserError(message) from error
