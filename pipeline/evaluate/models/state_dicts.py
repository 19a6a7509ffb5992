"""Loading of untrusted state dicts, without running code and with limited memory."""

import hashlib
from collections.abc import Mapping
from itertools import chain
from pathlib import Path

import torch

from pipeline.errors import UserError
from pipeline.evaluate.models.checkpoints import MAX_PICKLE, read_checkpoint
from pipeline.evaluate.models.guards import first_line, optional_library

PREFIXES = ("module.", "_orig_mod.")
"""Prefixes that DataParallel and torch.compile add to the names of weights."""

WRAPPERS = ("state_dict", "model_state_dict", "model")
"""Keys under which training programs save the state dict."""

MAX_SHOWN = 3
"""Maximum number of weights listed per mismatch in an error message."""


def load_weights(module: torch.nn.Module, path: Path, spec: str) -> None:
    """Load a state dict from a file into a module. All names and shapes must match.

    The file may be in either format of torch.save or in the safetensors format. The state dict may be saved under the
    key "state_dict", "model_state_dict" or "model", and its names may have the prefixes of DataParallel and
    torch.compile. ``spec`` is the name of the model, for error messages.

    Raises:
        UserError: The file contains no state dict, or weights that do not match; the message names the weights.
    """
    expected = {name: value for name, value in module.state_dict().items() if isinstance(value, torch.Tensor)}
    fitting = _without_prefixes(_state_dict(path), expected)
    _check_fit(fitting, expected, f"{path} does not fit {spec}")
    try:
        module.load_state_dict(fitting)
    except RuntimeError as error:
        raise UserError(f"{path} does not fit {spec}: {first_line(error)}") from error


def check_has_weights(module: torch.nn.Module, spec: str) -> None:
    """Raise UserError if parameters or buffers of a module are on the device meta, which has shapes but no values."""
    tensors = chain(module.named_parameters(), module.named_buffers())
    if missing := [name for name, value in tensors if value.is_meta]:
        shown = ", ".join(missing[:MAX_SHOWN]) + (", ..." if len(missing) > MAX_SHOWN else "")
        raise UserError(
            f"the model {spec} has no weights (device meta) in {shown}: create it on the device cpu, or load them with "
            "load_state_dict(..., assign=True), before it is evaluated"
        )


def weights_digest(module: torch.nn.Module) -> str:
    """Return the hexadecimal SHA-256 of the names, dtypes, shapes and bytes of the state dict of a module."""
    total = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        if isinstance(value, torch.Tensor):
            total.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
            total.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def _safetensors(path: Path) -> dict[str, torch.Tensor]:
    library = optional_library("safetensors.torch", str(path))
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
    if length > min(MAX_PICKLE, path.stat().st_size - 8):
        raise UserError(
            f"{path} was rejected: it declares a header of {length} bytes; the limit is the file size and {MAX_PICKLE} "
            "bytes"
        )
    try:
        return library.load_file(path)
    except Exception as error:
        raise UserError(f"{path} cannot be read as safetensors: {first_line(error)}") from error


def _state_dict(path: Path) -> dict[str, torch.Tensor]:
    """Return the state dict in a file."""
    if path.suffix == ".safetensors":
        return _safetensors(path)
    content = read_checkpoint(path)
    if isinstance(content, Mapping):
        content = next((content[key] for key in WRAPPERS if isinstance(content.get(key), Mapping)), content)
    if not isinstance(content, Mapping) or not all(
        isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in content.items()
    ):
        keys = ", ".join(map(str, list(content)[:5])) if isinstance(content, Mapping) else type(content).__name__
        raise UserError(
            f"{path} contains {keys} instead of a state dict: save the state dict alone, or under the key "
            f"{', '.join(WRAPPERS)}"
        )
    return dict(content)


def _without_prefixes(
    content: dict[str, torch.Tensor], expected: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    for prefix in PREFIXES * 2:  # the prefixes may be nested in either order
        if not content.keys() & expected.keys() and all(name.startswith(prefix) for name in content):
            content = {name.removeprefix(prefix): value for name, value in content.items()}
    return content


def _check_fit(content: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor], message: str) -> None:
    """Raise UserError if weights differ from the expected ones in name or shape, or are complex instead of real."""
    common = expected.keys() & content.keys()
    shapes = [name for name in common if expected[name].shape != content[name].shape]
    complex_weights = [name for name in common if content[name].is_complex() and not expected[name].is_complex()]
    mismatches = [
        f"{len(names)} {kind} ({', '.join(sorted(names)[:MAX_SHOWN])}{' ...' if len(names) > MAX_SHOWN else ''})"
        for kind, names in (
            ("missing", expected.keys() - content.keys()),
            ("unexpected", content.keys() - expected.keys()),
            ("with another shape", shapes),
            ("with complex instead of real values", complex_weights),
        )
        if names
    ]
    if mismatches:
        raise UserError(
            f"{message}: {'; '.join(mismatches)}; give the model that it was saved from, or, if the number of classes "
            "differs, a factory package.module:function that creates it"
        )
