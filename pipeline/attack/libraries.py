"""Libraries that compute attacks, the devices they run on, and the determinism of both."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import torch

from pipeline.errors import UserError
from pipeline.evaluate.models.base import Model
from pipeline.software import ATTACK_LIBRARIES, installed_versions

_SEED_BYTES = 7


def required_version(name: str, wanted_by: str) -> str:
    """Return the version of a library of ``ATTACK_LIBRARIES`` that an attack needs.

    Raises:
        UserError: It is not installed, or cannot be imported; the message has the command that installs it.
    """
    found = installed_versions([name])
    if not found:
        raise UserError(f"{wanted_by} needs {name}, which is not installed: {ATTACK_LIBRARIES[name]}")
    try:
        import_module(name)
    except Exception as error:  # a library that does not fit the others can raise any exception
        raise UserError(
            f"{wanted_by} needs {name}, which cannot be imported ({type(error).__name__}: {error}): install it "
            f"again, with versions of its requirements that fit: {ATTACK_LIBRARIES[name]}"
        ) from error
    return found[name]


def compute_deterministically(device: str) -> None:
    """Make the results of this process a function of their input: one thread on a CPU, no racing kernels on a GPU."""
    if torch.device(device).type == "cpu":
        torch.set_num_threads(1)
        return
    request_deterministic_cublas()
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.use_deterministic_algorithms(True, warn_only=True)


def request_deterministic_cublas() -> None:
    """Set the variable that cuBLAS reads when a process first uses it, without which its sums may be reordered."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def release(model: Model) -> None:
    """Move a model back to the CPU and free the GPU memory of this process, which workers need."""
    model.module.to("cpu")
    torch.cuda.empty_cache()


def seed_of(*parts: object) -> int:
    """Return a seed from values that JSON can hold."""
    content = json.dumps(parts).encode()
    return int.from_bytes(hashlib.blake2b(content, digest_size=_SEED_BYTES).digest(), "big")


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's generators in the block, and restore them after it."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that the memory of a device or of the machine is exhausted."""
    text = str(error).lower()
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in text


@contextmanager
def memory_for(what: str, batch: int) -> Iterator[None]:
    """Raise UserError with a smaller batch size if the memory is exhausted in the block, where this happens."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise UserError(
            f"out of memory while {what} at once: use --batch-size {max(batch // 2, 1)} and another output folder, "
            "since the batch size decides the images"
        ) from error
