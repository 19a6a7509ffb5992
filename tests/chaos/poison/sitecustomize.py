"""Python runs this in each process whose PYTHONPATH begins here: a decoder that dies of some images.

It stands for a broken native library. The product's decoder is wrapped once it is loaded; while the file named by
CHAOS_POISON is there, bytes that hold its content kill the process, after a line in the file beside it that ends in .deaths.
"""

import ctypes
import importlib.util
import os
import sys
from pathlib import Path


class DeadlyDecoder:
    """Finds ``pipeline.decoders`` as usual, and wraps its ``decode``."""

    def find_spec(self, name, path=None, target=None):
        if name != "pipeline.decoders":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            module.decode = deadly(module.decode)

        spec.loader.exec_module = exec_module
        return spec


def deadly(decode):
    """``decode``, but for poisoned bytes."""
    poison = Path(os.environ["CHAOS_POISON"])

    def decode_or_die(data, *arguments, **options):
        marker = poison.read_bytes() if poison.exists() else b""
        if marker and marker in data:
            with open(poison.with_suffix(".deaths"), "a") as deaths:
                deaths.write(data[data.rindex(marker) + len(marker) :].decode() + "\n")
            ctypes.string_at(0)
        return decode(data, *arguments, **options)

    return decode_or_die


if "CHAOS_POISON" in os.environ:
    sys.meta_path.insert(0, DeadlyDecoder())
