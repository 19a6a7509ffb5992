"""Zip archives of torch and the pickles in them, looked through before torch reads them.

What torch's own readers leave open: archives that unfold beyond measure, or that two readers see differently (bounded
here, and written anew before torch reads them); pickles whose tensors reach beyond their bytes, or that take memory for
nothing (followed here with stand-ins for everything that they call).
"""

from __future__ import annotations

import io
import os
import pickle
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.errors import UserError

MAX_PICKLE = 16 * 2**20
"""Bytes of a pickle, tensors apart. A thousand tensors take 0.2 MiB, and a hostile byte becomes up to 64 in memory."""
MAX_TEXT = 64 * 2**20
"""Bytes of a record with code or a graph, and of all compressed records of a file."""

MAX_DIRECTORY = 16 * 2**20
"""Bytes of a zip file's directory: 100,000 records."""

CHUNK = 16 * 2**20
"""Bytes of a record that are in memory when it is copied."""

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


def first_line(error: BaseException) -> str:
    """An error in one line, without torch's advice on how to load a file unsafely."""
    text = (str(error).strip() or "no reason given").splitlines()[0]
    return f"{type(error).__name__}: {'it holds more than weights' if 'weights_only' in text else text}"


class _Directory(io.FileIO):
    """A zip file whose directory is read: at most so much at a time."""

    longest: int | None = MAX_DIRECTORY

    def read(self, size: int | None = -1, /) -> bytes:
        """As any file, up to the limit. Raises BadZipFile beyond."""
        left = os.fstat(self.fileno()).st_size - self.tell()
        wanted = left if size is None or size < 0 else min(size, left)
        if self.longest is not None and wanted > self.longest:
            raise zipfile.BadZipFile(f"its directory has {wanted} bytes; {self.longest} are allowed")
        return super().read(wanted) or b""


class Archive:
    """The records of a zip file of torch, which stand in one folder. To be used in ``with``.

    Raises UserError for what is no such file, for zip bombs and for names that come twice.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        file = _Directory(path)
        try:
            self._zip = zipfile.ZipFile(file)
        except Exception as error:  # damaged ones raise more than BadZipFile
            file.close()
            raise self.refusal(f"it is no sound zip file ({error})") from error
        file.longest = None
        self._file = file
        infos = self._zip.infolist()
        folder = infos[0].filename.split("/")[0] + "/" if infos else ""
        self._records = {info.filename.removeprefix(folder): info for info in infos}
        stored = sum(info.file_size for info in infos if info.compress_type == zipfile.ZIP_STORED)
        folded = sum(info.file_size for info in infos) - stored
        names = {name.lower() for name in self._records}  # torch's reader does not tell case
        if len(names) != len(infos) or stored > path.stat().st_size or folded > MAX_TEXT:
            self._close()
            raise self.refusal("its records overlap, unfold beyond measure, or have names that come twice")

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __contains__(self, name: str) -> bool:
        return name in self._records

    def refusal(self, reason: str) -> UserError:
        """The error that says why this file is not read."""
        return UserError(f"{self.path} is refused: {reason}")

    def size(self, name: str) -> int:
        """Bytes of a record, unfolded. Raises UserError where it is missing."""
        if name not in self._records:
            raise self.refusal(f"it has no record {name}")
        return self._records[name].file_size

    def read(self, name: str, limit: int = MAX_TEXT) -> bytes:
        """A record with text or a pickle, at most ``limit`` bytes. Raises UserError."""
        if self.size(name) > limit:
            raise self.refusal(f"its record {name} has {self.size(name)} bytes; {limit} are allowed")
        return self._unfold(name)

    def numbers(self, name: str) -> bytes:
        """A record with the bytes of a tensor, which is never compressed. Raises UserError."""
        self._require_stored(name)
        return self._unfold(name)

    def parts_of_numbers(self, name: str) -> Iterator[bytes]:
        """The bytes of a tensor's record, a part in memory at a time. Raises UserError as :meth:`numbers`."""
        self._require_stored(name)
        left = self.size(name)
        with self._damage(name):
            record = self._zip.open(self._records[name])
        with record:
            while left:
                with self._damage(name):
                    part = record.read(CHUNK)
                if not part:
                    raise self.refusal(f"its record {name} is cut short")
                left -= len(part)
                yield part

    def _require_stored(self, name: str) -> None:
        if self.size(name) and self._records[name].compress_type != zipfile.ZIP_STORED:
            raise self.refusal(f"its record {name} is compressed, as no tensor is")

    def _close(self) -> None:
        self._zip.close()
        self._file.close()

    def _unfold(self, name: str) -> bytes:
        with self._damage(name):
            return self._zip.read(self._records[name])

    @contextmanager
    def _damage(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # damaged ones raise more than BadZipFile
            raise self.refusal(f"its record {name} is damaged ({error})") from error


@contextmanager
def rewritten(archive: Archive, records: Mapping[str, bytes | None]) -> Iterator[Path]:
    """A new archive for torch, in a temporary folder: what was looked at, and nothing that another reader would see.

    ``records``: name -> content, or None for the bytes of a tensor, copied a part at a time.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "archive.pt"
        try:
            with zipfile.ZipFile(path, "w") as copy:
                for name, content in records.items():
                    if content is not None:
                        copy.writestr(f"archive/{name}", content)
                        continue
                    with copy.open(f"archive/{name}", "w", force_zip64=True) as target:
                        target.writelines(archive.parts_of_numbers(name))
        except OSError as error:
            message = f"{archive.path} cannot be copied to {folder} ({error}); TMPDIR can name a folder with room"
            raise UserError(message) from error
        yield path


class _ItemSize(int):
    """Stands for a class of storages: bytes of one number. A type of its own, for a pickle can hold any int."""


class _Inert:
    """Stands for whatever a pickle makes or calls."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        pass

    def __setitem__(self, key: object, value: object) -> None:
        pass


class _Walk(pickle._Unpickler):  # the one in Python: that in C takes memory for whatever memo number it is told
    """Follows a pickle without making what it describes, and checks that its tensors lie within their bytes."""

    def __init__(self, data: io.BytesIO, admitted: Callable[[str, str], bool], bytes_of: Callable[[str], int]) -> None:
        super().__init__(data)
        self._admitted, self._bytes_of = admitted, bytes_of

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in ITEM_SIZES:
            return _ItemSize(ITEM_SIZES[name])
        if (module, name) in TENSORS:
            return _tensor
        if not self._admitted(module, name):
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which weights do not need")
        return _Inert

    def persistent_load(self, pid: Any) -> int:
        """How many numbers a storage has. Raises UnpicklingError for more than its bytes."""
        kind, item_size, key, _, count = pid[:5]
        if kind != "storage" or type(item_size) is not _ItemSize or not _whole(count) or not isinstance(key, str):
            raise pickle.UnpicklingError("it refers to something that is no storage")
        if item_size * count > self._bytes_of(key):
            raise pickle.UnpicklingError(f"it promises {count} numbers where there are fewer bytes")
        return int(count)


def _whole(*values: object) -> bool:
    return all(type(value) is int and value >= 0 for value in values)


def _tensor(count: int, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: object) -> _Inert:
    if not _whole(count, offset, *size, *stride) or len(size) != len(stride):
        raise pickle.UnpicklingError("it has a tensor whose shape is none")
    last = offset + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    if 0 not in size and last >= count:
        raise pickle.UnpicklingError("it has a tensor that reaches beyond its bytes")
    return _Inert()


def check_pickles(
    data: bytes, where: object, admitted: Callable[[str, str], bool], bytes_of: Callable[[str], int], count: int = 1
) -> None:
    """Raises UserError for pickles, one after the other, that hold more than weights."""
    buffer = io.BytesIO(data)
    try:
        for _ in range(count):
            _Walk(buffer, admitted, bytes_of).load()
    except UserError:
        raise
    except Exception as error:  # damaged pickles raise nearly anything
        message = (
            f"{where} is refused: {first_line(error)}; save only the state dict, torch.save(model.state_dict(), FILE)"
        )
        raise UserError(message) from error
