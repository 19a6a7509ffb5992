"""Files of torch.save, read without torch.load.

``weights_only`` runs no code from a file, but it allocates whatever the file requests, for example
``bytearray(10**12)``, and before torch 2.10 a forged size made it read outside of its memory.
"""

import io
import pickle
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from pipeline.errors import UserError
from pipeline.evaluate.models.guards import first_line
from pipeline.storage.pickles import Calls, SafeUnpickler
from pipeline.storage.zips import open_zip

MAX_PICKLE = 16 * 2**20
"""Maximum size of a pickle without tensor data, in bytes. A thousand tensors need 0.2 MiB."""

MAX_COMPRESSED = 64 * 2**20
"""Maximum total decompressed size of the compressed records of TorchScript, in bytes. Tensors are never compressed."""

MAGIC_NUMBER, OLD_VERSION = torch.serialization.MAGIC_NUMBER, 1001
"""Contents of the first two pickles in the file format of torch < 1.6."""

DTYPES: Mapping[str, torch.dtype] = {
    **{f"{name}Storage": getattr(torch, name.lower()) for name in ("Double", "Float", "Half", "BFloat16", "Bool")},
    **{f"{name}Storage": getattr(torch, name.lower()) for name in ("Long", "Int", "Short")},
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "ComplexFloatStorage": torch.complex64,
    "ComplexDoubleStorage": torch.complex128,
}
"""Name of a torch storage class -> the dtype of its elements."""


class _Skipped(dict[Any, Any]):
    """A placeholder for a value that is not a tensor, or for an ordered dictionary, whose items follow."""

    def __init__(self, *_: object) -> None:
        super().__init__()

    def describe(self, state: object) -> None:
        """Ignore the state."""


def _tensor(storage: object, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: object) -> torch.Tensor:
    """Return a view of a storage. torch raises RuntimeError if it does not fit."""
    if not isinstance(storage, torch.Tensor):
        raise pickle.UnpicklingError("it contains a tensor with an invalid storage")
    return storage.as_strided(size, stride, offset)


def _parameter(data: object, *_: object) -> object:
    return data


CALLS: Calls = {
    **{("torch", name): dtype for name, dtype in DTYPES.items()},
    **{("torch._utils", name): _tensor for name in ("_rebuild_tensor", "_rebuild_tensor_v2")},
    ("torch._utils", "_rebuild_parameter"): _parameter,
    **dict.fromkeys((("collections", "OrderedDict"), ("collections", "Counter"), ("builtins", "complex")), _Skipped),
    **dict.fromkeys(((module, "set") for module in ("builtins", "__builtin__")), _Skipped),
    **dict.fromkeys((("torch", "Size"), ("torch", "device")), _Skipped),
    **{("torch", name): None for name in vars(torch) if isinstance(vars(torch)[name], torch.dtype)},
}
"""What checkpoints refer to. ``weights_only`` allows more."""


class _Reference(NamedTuple):
    """A reference to a storage in a pickle."""

    key: str
    dtype: torch.dtype
    size: int


def _reference(pid: Any) -> _Reference:
    kind, dtype, key, _, count, *view = pid
    is_valid = isinstance(dtype, torch.dtype) and isinstance(key, str) and type(count) is int and count >= 0
    if kind != "storage" or not is_valid or any(view):
        raise pickle.UnpicklingError("it contains an invalid reference to a storage")
    return _Reference(key, dtype, count * dtype.itemsize)


@contextmanager
def _rejections(path: Path) -> Iterator[None]:
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # damaged files raise many exception types
        raise UserError(
            f"{path} was rejected: {first_line(error)}; save only the state dict: torch.save(model.state_dict(), FILE)"
        ) from error


def is_torchscript(path: Path) -> bool:
    """Return whether a file is a TorchScript archive, by the same criterion as torch. Raise UserError if damaged."""
    if not _is_zip(path):
        return False
    with _rejections(path), path.open("rb") as file, open_zip(file, MAX_COMPRESSED) as archive:
        return _folder(archive) + "constants.pkl" in archive.namelist()


def read_checkpoint(path: Path) -> Any:
    """Return the content of a file of torch.save: dictionaries, lists, numbers, texts and tensors.

    Values of other types that checkpoints contain become empty dictionaries. The memory for tensors is that of the
    file.

    Raises:
        UserError: The file is damaged, has sizes that conflict, or contains more than weights.
    """
    with _rejections(path), path.open("rb") as file:
        if not _is_zip(path):
            return _old_content(file, path.stat().st_size)
        with open_zip(file, MAX_PICKLE) as archive:
            return _content(archive)


def _is_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _folder(archive: zipfile.ZipFile) -> str:
    """Return the folder that contains all records of a torch archive."""
    return archive.infolist()[0].filename.split("/")[0] + "/"


def _content(archive: zipfile.ZipFile) -> Any:
    folder = _folder(archive)
    buffers: dict[str, bytearray] = {}

    def stored(pid: Any) -> torch.Tensor:
        key, dtype, size = _reference(pid)
        info = archive.getinfo(f"{folder}data/{key}")
        if info.file_size and info.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"its record data/{key} is compressed")
        if size > info.file_size:
            raise ValueError(f"it declares {size} bytes of data/{key}, but the file has fewer: {info.file_size}")
        if key not in buffers:
            buffers[key] = bytearray(archive.read(info))
        return _elements(buffers[key], dtype, size)

    if f"{folder}byteorder" in archive.namelist() and _record(archive, f"{folder}byteorder") != b"little":
        raise ValueError("its numbers are not little-endian")
    return _load(io.BytesIO(_record(archive, f"{folder}data.pkl")), stored)


def _record(archive: zipfile.ZipFile, name: str) -> bytes:
    if (size := archive.getinfo(name).file_size) > MAX_PICKLE:
        raise ValueError(f"its record {name} has {size} bytes; the limit is {MAX_PICKLE}")
    return archive.read(name)


def _old_content(file: Any, total: int) -> Any:
    """Return the content of a file of torch < 1.6: five pickles, then the bytes of each storage after their number."""
    head = io.BytesIO(file.read(MAX_PICKLE))
    references: dict[str, tuple[_Reference, bytearray]] = {}

    def stored(pid: Any) -> torch.Tensor:
        reference = _reference(pid)
        if reference.key not in references:
            if sum(each.size for each, _ in references.values()) + reference.size > total:
                raise ValueError(f"it declares more bytes of tensors than the file has: {total}")
            references[reference.key] = reference, bytearray(reference.size)
        return _elements(references[reference.key][1], reference.dtype, reference.size)

    if (_load(head), _load(head)) != (MAGIC_NUMBER, OLD_VERSION):
        raise ValueError("it is neither a zip archive nor a file of an older torch")
    _load(head)  # describes the machine
    content, keys = _load(head, stored), _load(head)
    file.seek(head.tell())
    for key in keys:
        reference, buffer = references[key]
        count = int.from_bytes(file.read(8), "little")
        if count * reference.dtype.itemsize != reference.size or file.readinto(buffer) != reference.size:
            raise ValueError(f"its storage {key} is truncated or has another size than declared")
    return content


def _load(file: io.BytesIO, stored: Callable[[Any], torch.Tensor] | None = None) -> Any:
    return SafeUnpickler(file, CALLS, "weights", stored, encoding="utf-8").load()


def _elements(buffer: bytearray, dtype: torch.dtype, size: int) -> torch.Tensor:
    """Return a tensor that shares the memory of a storage. Raise an error if it does not have ``size`` bytes."""
    if size > len(buffer):
        raise ValueError(f"it declares {size} bytes of a storage that has fewer: {len(buffer)}")
    return torch.frombuffer(buffer, dtype=dtype, count=size // dtype.itemsize) if size else torch.empty(0, dtype=dtype)
