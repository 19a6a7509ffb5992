"""Compiled inner loops, one module per kind of operation. Modules that all folders use stand beside them.

Kernels take and return plain arrays and numbers and do not validate them. Unless noted, H and W are the sides of an
image, P is a number of pixels, and rows of an image are interleaved (W * 3 values).
"""

import fcntl
import importlib
import platform
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any

import numba
import numpy as np
from numba import njit
from numba.core.caching import FunctionCache
from numba.core.codegen import get_host_cpu_features
from numba.np import linalg

from corruptions.cache import compiled_folder
from corruptions.kernels.copies import Compiler

ARM = frozenset({"aarch64", "arm64"})
"""Names of 64-bit ARM CPUs, as the operating system reports them."""

WITHOUT_SVE = "-sve"
"""LLVM's setting that excludes ARM's scalable vectors and all extensions of them (SVE2).

LLVM 22.1 miscompiles sums of small integers for SVE of 256 bits (llvm-project issue 204939): part of the sum is lost.
Remove this when the oldest supported llvmlite contains a release of LLVM with the fix.
"""


def target_features(machine: str, host: str, chosen: str | None = None) -> str:
    """Return the CPU features for which kernels are compiled.

    On ARM, SVE is always excluded, also if a value was chosen. On x86-64, a chosen value is kept. Otherwise, full
    vectors are enabled where they are faster: LLVM uses only half of a 64-byte vector on Intel CPUs, because full
    vectors slowed down the clock of the first ones. The feature avx512vbmi2 identifies CPUs since Ice Lake.

    Args:
        machine: Name of this CPU's architecture.
        host: Features of this CPU, as LLVM lists them.
        chosen: Value of the environment variable NUMBA_CPU_FEATURES, None if it is not set.

    Returns:
        The features, separated by commas. Later ones override earlier ones.
    """
    features = host if chosen is None else chosen
    if machine.lower() in ARM:
        return ",".join(filter(None, (features, WITHOUT_SVE)))
    if chosen is None and "+avx512vbmi2" in host.split(","):
        return f"{host},-prefer-256-bit"
    return features


numba_config: Any = numba.config
"""Settings of numba. They apply to the whole process; numba has none for a single function."""

if numba_config.DISABLE_JIT:
    raise ImportError("NUMBA_DISABLE_JIT is set, but kernels only run compiled: unset it")

numba_config.CPU_FEATURES = target_features(platform.machine(), get_host_cpu_features(), numba_config.CPU_FEATURES)


def load_array_functions() -> None:
    """Load what numba needs for its first kernel, but not SciPy's linear algebra, which takes longer than the rest.

    numba would only look whether it is installed, and looks again before it compiles a function that uses it.
    """
    check, linalg.ensure_blas = linalg.ensure_blas, lambda: None
    try:
        importlib.import_module("numba.np.arraymath")
    finally:
        linalg.ensure_blas = check


load_array_functions()

LARGEST_MAPPED = 2**25 - 2**14
"""Bytes of the largest block from whose release glibc learns: 32 MiB with its header."""


def keep_freed_memory() -> None:
    """Let glibc keep up to 64 MiB of freed memory for the next image, instead of returning it after each large one.

    At 1024 x 2048, the page faults of the next image would take as long as its arithmetic. glibc keeps twice as much as
    the largest block that was freed so far. This block is freed at once, and never written to.
    """
    np.empty(LARGEST_MAPPED, np.uint8)


keep_freed_memory()

_HERE = Path(__file__).parent

SOURCES = ("corruptions", "perturbations")
"""Packages that contain kernels or types of their arguments. Perturbations inline kernels of corruptions."""

COMPILED = compiled_folder(
    chain.from_iterable((_HERE.parents[1] / package).rglob("*.py") for package in SOURCES),
    Path(numba_config.CACHE_DIR or _HERE / "__pycache__"),
)
"""Folder of compiled kernels: in NUMBA_CACHE_DIR if that environment variable is set, else beside the sources."""

_CONFIG_LOCK = Lock()
"""Held while the setting of numba's cache folder is changed."""


class _Cache(FunctionCache):
    """The cached versions of a kernel. Only one process at a time adds one, because numba's index would lose others."""

    def save_overload(self, sig: Any, data: Any) -> None:
        with open(COMPILED / "lock", "a", encoding="utf-8") as lock:
            with suppress(OSError):  # without locks, a lost kernel is compiled again
                fcntl.flock(lock, fcntl.LOCK_EX)
            super().save_overload(sig, data)


def _cached(compiled: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make a numba decorator cache kernels in COMPILED. The cache folder of other packages is not changed."""

    def decorate(function: Any) -> Any:
        with _CONFIG_LOCK:
            previous, numba_config.CACHE_DIR = numba_config.CACHE_DIR, str(COMPILED)
            try:
                dispatcher = compiled(function)
                dispatcher._cache = _Cache(function)
            finally:
                numba_config.CACHE_DIR = previous
        return dispatcher

    return decorate


kernel = _cached(njit(nogil=True, error_model="numpy", pipeline_class=Compiler))
"""Decorator that compiles a kernel, the only one used in this project.

Kernels are cached on disk and compiled without fast-math, so that rounding is the same on every CPU.
"""

inlined = _cached(njit(nogil=True, error_model="numpy", inline="always"))
"""Decorator that compiles a function into each kernel that calls it."""


@inlined
def copy(source, target):
    """Copy ``source`` to ``target`` in the type of ``target``.

    A loop is compiled to vector instructions; an assignment to a slice is not.
    """
    for i in range(target.size):
        target[i] = source[i]


LINE = 64
"""Bytes of a cache line and of the widest vectors."""


@inlined
def scratch(size, dtype):
    """Return an uninitialised array (size,) that begins at a cache line.

    Vectors that cross a cache line are slower to read and write. Use it for arrays that a kernel accesses often.
    """
    buffer = np.empty(size + LINE, dtype)
    start = -buffer.ctypes.data % LINE // buffer.itemsize
    return buffer[start : start + size]
