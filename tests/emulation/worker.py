"""The process that computes digests: names come in as JSON, and finished digests go out as JSON lines.

It runs on the emulated CPU and writes its lines to standard output.
"""

import argparse
import json
import platform
import sys
import time
from importlib import metadata
from typing import Any
from unittest.mock import patch

from numba.core.codegen import JITCPUCodegen

REPORTED = ("numpy", "opencv-python", "pillow", "simplejpeg", "av", "numba", "llvmlite")
"""Libraries whose versions are reported."""


def main() -> None:
    """Compute the digests whose names standard input lists."""
    parser = argparse.ArgumentParser(prog="python -m tests.emulation.worker", description=__doc__)
    parser.add_argument("--features", help="Features for which kernels are compiled. Default: the project's choice.")
    features = parser.parse_args().features
    if features is None:
        compute(json.load(sys.stdin))
    else:
        with patch.object(JITCPUCodegen, "_get_host_cpu_features", lambda codegen: features):
            compute(json.load(sys.stdin))


def compute(names: list[str]) -> None:
    """Print the software and each digest as soon as it is finished.

    Imports of the project are local, because numba asks for the features only once, when the first kernel is declared.
    """
    from tests.emulation.results import print_line
    from tests.golden.digests import computations

    functions = computations()
    print_line(kernels=_kernels(), versions=_versions())
    for name in names:
        start = time.process_time()
        try:
            found: dict[str, Any] = {"digest": functions[name]()}
        except Exception as error:  # it is reported as a difference
            found = {"error": f"{type(error).__name__}: {error}"}
        print_line(name=name, seconds=time.process_time() - start, **found)


def _kernels() -> str:
    """Return the CPU for which kernels are compiled, and the features that differ from it, as LLVM names them."""
    from numba.core.registry import cpu_target

    _, cpu, features = cpu_target.target_context.codegen().magic_tuple()
    return f"{cpu} {features}".strip()


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in REPORTED}}


if __name__ == "__main__":
    main()
