"""The state of the calling process: environment variables, random generators, settings of libraries."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def preserve_process() -> Iterator[None]:
    """Restore environment variables, and the state of libraries that are imported already."""
    libraries = [(sys.modules[name], *functions) for name, functions in _STATE.items() if sys.modules.get(name)]
    environment, states = dict(os.environ), [read(library) for library, read, _ in libraries]
    try:
        yield
    finally:
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)
        for (library, _, restore), state in zip(libraries, states, strict=True):
            restore(library, state)


def _torch_flags(torch: Any) -> list[tuple[Any, str]]:
    """Return the settings that an evaluation changes: object and attribute."""
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    precisions = [(cudnn, "allow_tf32"), (matmul, "allow_tf32")]
    try:
        _ = [getattr(*flag) for flag in precisions]
    except RuntimeError:  # the process has set fp32_precision of torch 2.9, and the flags of before cannot be read
        precisions = [(operation, "fp32_precision") for operation in (cudnn.conv, cudnn.rnn, matmul)]
    return [(cudnn, "deterministic"), (cudnn, "benchmark"), *precisions]


def _torch_state(torch: Any) -> tuple[Any, ...]:
    """Return the settings of cuDNN and of products, and the random states of the CPU and of the GPUs in use."""
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    return [(flag, getattr(*flag)) for flag in _torch_flags(torch)], torch.get_rng_state(), gpus


def _restore_torch(torch: Any, state: tuple[Any, ...]) -> None:
    flags, cpu, gpus = state
    for (owner, name), value in flags:
        setattr(owner, name, value)
    torch.set_rng_state(cpu)
    if gpus is not None:
        torch.cuda.set_rng_state_all(gpus)


_STATE: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], None]]] = {
    "random": (lambda random: random.getstate(), lambda random, state: random.setstate(state)),
    "numpy.random": (lambda random: random.get_state(), lambda random, state: random.set_state(state)),
    "cv2": (lambda cv2: cv2.getNumThreads(), lambda cv2, threads: cv2.setNumThreads(threads)),
    "torch": (_torch_state, _restore_torch),
}
"""Functions that read and restore the global state of a library, by its module."""
