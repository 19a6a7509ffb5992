"""Python runs this in each process whose PYTHONPATH begins here: a decoder that dies of some images.

It stands for a broken native library. The product's decoder is wrapped when it is loaded; while the file that
CHAOS_POISON names is there, bytes that hold the file's content kill the process. What stands behind it in them (the
image's name) goes to the file beside it that ends in ``.deaths``.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

DECODERS = "pipeline.images.decoders"


class DeadlyLoader(SourceFileLoader):
    """Loads the decoders and wraps their entry."""

    def exec_module(self, module: ModuleType) -> None:
        """As ever, and then some."""
        super().exec_module(module)
        module.decode = deadly(module.decode)  # type: ignore[attr-defined]


class DeadlyFinder(PathFinder):
    """Finds the module of the decoders, and no other."""

    @classmethod
    def find_spec(cls, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Its place as usual, with a loader of ours."""
        found = super().find_spec(name, path) if name == DECODERS else None
        if found and found.origin:
            found.loader = DeadlyLoader(name, found.origin)
        return found


def deadly(decode: Callable[..., Any]) -> Callable[..., Any]:
    """``decode``, but for poisoned bytes."""
    poison = Path(os.environ["CHAOS_POISON"])

    def decode_or_die(data: bytes, *arguments: Any, **options: Any) -> Any:
        marker = poison.read_bytes() if poison.exists() else b""
        if marker and marker in data:
            with open(poison.with_suffix(".deaths"), "a") as deaths:
                deaths.write(data.partition(marker)[2].decode() + "\n")
            ctypes.string_at(0)
        return decode(data, *arguments, **options)

    return decode_or_die


if "CHAOS_POISON" in os.environ:
    sys.meta_path.insert(0, DeadlyFinder)
