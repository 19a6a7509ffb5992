"""State dicts from anyone: loaded without running code, in bounded memory, and only whole."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch

from pipeline.errors import UserError
from pipeline.evaluate.models.archives import Archive, is_zip, rewritten
from pipeline.evaluate.models.guards import first_line, optional_library
from pipeline.evaluate.models.pickles import MAX_PICKLE, check_pickles

RECORDS = re.compile(r"data\.pkl|data/\d+|(\.data/)?version|byteorder")
NUMBERS = re.compile(r"data/\d+")
"""The records of torch's archives that a state dict needs, and those of them that are bytes of tensors."""

LEGACY_PICKLES = 5
"""Pickles before the tensors in torch's format before 1.6: magic number, version, machine, content, storages."""

PREFIXES = ("module.", "_orig_mod.")
"""What DataParallel and torch.compile put before the names of weights."""

WRAPPERS = ("state_dict", "model_state_dict", "model")
"""Keys under which training programs put the state dict."""

SHOWN = 3
"""Mismatched weights that a message names."""


def load_weights(module: torch.nn.Module, path: Path, spec: str) -> None:
    """Load a file's weights into a module, all of them and no others.

    Reads both formats of torch.save, and safetensors. The state dict may be under "state_dict", "model_state_dict" or
    "model", its names may have the prefixes of DataParallel and torch.compile.

    Args:
        module: Gets the weights.
        path: A checkpoint.
        spec: The name of the model, for messages.

    Raises:
        UserError: The file contains something else, or weights that do not fit; the message names them.
    """
    wanted = {name: value for name, value in module.state_dict().items() if isinstance(value, torch.Tensor)}
    with _state_dict(path) as content:
        fitting = _without_prefixes(content, wanted)
        _check_fit(fitting, wanted, f"{path} does not fit {spec}")
        try:
            module.load_state_dict(fitting)
        except RuntimeError as error:
            raise UserError(f"{path} does not fit {spec}: {first_line(error)}") from error


def weights_digest(module: torch.nn.Module) -> str:
    """Return the SHA-256 of the names, types, shapes and bytes of a module's state dict."""
    total = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        if isinstance(value, torch.Tensor):
            total.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
            total.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


@contextmanager
def _state_dict(path: Path) -> Iterator[dict[str, torch.Tensor]]:
    """Yield the weights in a file, name -> tensor, which are valid within ``with`` only."""
    if path.suffix == ".safetensors":
        yield _safetensors(path)
    elif is_zip(path):
        with Archive(path) as archive:
            check_pickles(archive.read("data.pkl", MAX_PICKLE), path, lambda key: archive.size(f"data/{key}"))
            names = [name for name in archive if RECORDS.fullmatch(name)]
            records = {name: None if NUMBERS.fullmatch(name) else archive.read(name, MAX_PICKLE) for name in names}
            with rewritten(archive, records) as copy:
                yield _weights(path, copy, mmap=True)
    else:
        with path.open("rb") as file:
            beginning = file.read(MAX_PICKLE)
        check_pickles(beginning, path, lambda _: path.stat().st_size, LEGACY_PICKLES)
        yield _weights(path, path, mmap=False)


def _safetensors(path: Path) -> dict[str, torch.Tensor]:
    library = optional_library("safetensors.torch", str(path))
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
    if length > min(MAX_PICKLE, path.stat().st_size - 8):
        raise UserError(
            f"{path} is refused: it declares a header of {length} bytes; at most {MAX_PICKLE}, within the file, are "
            "allowed"
        )
    try:
        return library.load_file(path)
    except Exception as error:
        raise UserError(f"{path} cannot be read as safetensors: {first_line(error)}") from error


def _weights(path: Path, copy: Path, mmap: bool) -> dict[str, torch.Tensor]:
    """Return the state dict in a checkpoint that was checked."""
    try:
        content = torch.load(copy, map_location="cpu", weights_only=True, mmap=mmap)
    except Exception as error:
        raise UserError(f"{path} cannot be read as a state dict: {first_line(error)}") from error
    if isinstance(content, Mapping):
        content = next((content[key] for key in WRAPPERS if isinstance(content.get(key), Mapping)), content)
    if not isinstance(content, Mapping) or not all(
        isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in content.items()
    ):
        found = ", ".join(map(str, list(content)[:5])) if isinstance(content, Mapping) else type(content).__name__
        raise UserError(
            f"{path} contains {found} instead of a state dict; a state dict is allowed, alone or under "
            f"{', '.join(WRAPPERS)}"
        )
    return dict(content)


def _without_prefixes(content: dict[str, torch.Tensor], wanted: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    for prefix in PREFIXES * 2:  # either may be around the other
        if not content.keys() & wanted.keys() and all(name.startswith(prefix) for name in content):
            content = {name.removeprefix(prefix): value for name, value in content.items()}
    return content


def _check_fit(content: Mapping[str, torch.Tensor], wanted: Mapping[str, torch.Tensor], complaint: str) -> None:
    """Raise UserError where weights differ from those wanted in name, shape or kind of number."""
    both = wanted.keys() & content.keys()
    shapes = [name for name in both if wanted[name].shape != content[name].shape]
    halves = [name for name in both if content[name].is_complex() and not wanted[name].is_complex()]
    faults = [
        f"{len(names)} {kind} ({', '.join(sorted(names)[:SHOWN])}{' ...' if len(names) > SHOWN else ''})"
        for kind, names in (
            ("missing", wanted.keys() - content.keys()),
            ("unexpected", content.keys() - wanted.keys()),
            ("of another shape", shapes),
            ("of complex numbers, which would lose their imaginary part", halves),
        )
        if names
    ]
    if faults:
        raise UserError(
            f"{complaint}: {'; '.join(faults)}; name the model that it was saved from, or for another number of "
            "classes a factory, package.module:function, that builds it"
        )
