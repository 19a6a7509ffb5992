"""A decoder that crashes on some images. Python runs this file in each process whose PYTHONPATH begins with its folder.

It simulates a broken native library. The decoder is wrapped when its module is loaded. While the file named by
CHAOS_POISON exists, images that contain the bytes of this file crash the process. The bytes after them, the id of the
image, are appended to a file with the same name and the suffix ``.crashes``.
"""

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

DECODERS = "pipeline.images.decoders"


class CrashingLoader(SourceFileLoader):
    """A loader that wraps the function ``decode`` of the module of decoders."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module and wrap its function."""
        super().exec_module(module)
        module.decode = crashing(module.decode)  # type: ignore[attr-defined]


class CrashingFinder(PathFinder):
    """A finder that applies only to the module of decoders."""

    @classmethod
    def find_spec(cls, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Return the usual spec with the wrapping loader."""
        found = super().find_spec(name, path) if name == DECODERS else None
        if found and found.origin:
            found.loader = CrashingLoader(name, found.origin)
        return found


def crashing(decode: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``decode`` with a crash on poisoned bytes."""
    poison = Path(os.environ["CHAOS_POISON"])

    def decode_or_crash(data: bytes, *arguments: Any, **options: Any) -> Any:
        marker = poison.read_bytes() if poison.exists() else b""
        if marker and marker in data:
            with open(poison.with_suffix(".crashes"), "a") as crashes:
                crashes.write(data.partition(marker)[2].decode() + "\n")
            ctypes.string_at(0)
        return decode(data, *arguments, **options)

    return decode_or_crash


if "CHAOS_POISON" in os.environ:
    sys.meta_path.insert(0, CrashingFinder)
