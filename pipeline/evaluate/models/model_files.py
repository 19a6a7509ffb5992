"""TorchScript archives and state dicts from anyone, read so that nothing in them runs but the model.

TorchScript is code, some of which runs while torch loads it, and which can write and read files: operators that do more
than compute are refused by name.
"""

from __future__ import annotations

import hashlib
import pickletools
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

import torch

from pipeline.errors import UserError
from pipeline.evaluate.models.archives import MAX_PICKLE, Archive, check_pickles, first_line, rewritten
from pipeline.storage import local_path, open_regular

IN_STATE_DICTS = {
    *(("collections", "OrderedDict"), ("collections", "Counter"), ("builtins", "complex")),
    *((module, "set") for module in ("builtins", "__builtin__")),
    *(("torch._utils", "_rebuild_parameter"), ("torch", "Size"), ("torch", "device")),
    *(("torch", name) for name in vars(torch) if isinstance(vars(torch)[name], torch.dtype)),
}
"""What checkpoints call besides tensors. ``weights_only`` admits more: ``bytearray(10**12)``, for one."""
IN_TORCHSCRIPT = {
    *(("collections", "OrderedDict"), ("torch", "device"), ("builtins", "complex")),
    *(("torch.jit._pickle", f"build_{kind}list") for kind in ("int", "double", "bool", "tensor")),
    ("torch.jit._pickle", "restore_type_tag"),
}

REFUSED_OPERATORS = {"from_file", "save", "rpc_async", "rpc_sync", "rpc_remote", "classes"}
"""They reach files and other computers; ``classes`` leads to those of torch's C++ library."""
UPSAMPLING = ("nearest_exact", "bilinear", "bicubic", "lanczos")
PRIVATE_OPERATORS = {
    *("_adaptive_avg_pool2d", "_addmm_activation", "_assert_async", "_assert_scalar", "_assert_tensor_metadata"),
    *("_convolution", "_convolution_mode", "_local_scalar_dense", "_log_softmax", "_native_batch_norm_legit"),
    *("_native_batch_norm_legit_no_training", "_native_multi_head_attention", "_prelu_kernel", "_safe_softmax"),
    *("_scaled_dot_product_attention_math", "_scaled_dot_product_flash_attention_for_cpu", "_set_item"),
    *("_shape_as_tensor", "_softmax", "_to_copy", "_transformer_encoder_layer_fwd", "_unsafe_view"),
    *("_unwrap_optional", "_weight_norm", "_weight_norm_interface"),
    *(f"_upsample_{kind}{number}d{aa}" for kind in UPSAMPLING for number in (1, 2, 3) for aa in ("", "_aa")),
    *("unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes"),
}
"""The operators with an underscore or ``unsafe`` in front that models use; others do not check what they read."""

WORD = re.compile(r"\w+", re.ASCII)
FOREIGN_CODE = re.compile(r"(?<![.\w])ops\b(?!\.(prim|aten)\.| : )|\bgetattr\b(?!\([\w.]+, \"[^\"\\\n]*\"\))", re.ASCII)
"""Operators of other libraries, and attributes whose names are not plain to see."""
SCRIPT_CODE = re.compile(r"code/.+\.py")
SCRIPT_RECORDS = re.compile(r"data\.pkl|constants\.pkl|(data|constants)/\d+|(\.data/)?version|byteorder")
NUMBERS = re.compile(r"(data|constants)/\d+")
STATE_RECORDS = re.compile(r"data\.pkl|data/\d+|(\.data/)?version|byteorder")

PREFIXES = ("module.", "_orig_mod.")
"""What DataParallel and torch.compile put before the names of weights."""

NAMED = 3
"""Of the weights that do not fit, so many are named."""

WRAPPERS = ("state_dict", "model_state_dict", "model")
"""Keys under which training programs put the state dict."""


def model_file(name: str, folder: str, advice: str) -> Path:
    """Return the path of a regular file that can be read; a relative ``name`` starts from ``folder``.

    Raises UserError for what is missing, a folder, a pipe or a device, and for a name that no file can have.
    """
    path = folder / local_path(name)
    try:
        open_regular(path).close()
    except FileNotFoundError:
        raise UserError(f"there is no file {name}; {advice}") from None
    except OSError as error:
        raise UserError(f"the file {name} cannot be read: {error.strerror}; {advice}") from error
    return path


def digest(*paths: Path) -> str:
    """SHA-256, hexadecimal: of the one file, or of the digests of several."""
    digests = []
    for path in paths:
        with path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def optional_library(name: str, purpose: str) -> ModuleType:
    """A library that only some models need. Raises UserError with the command that installs it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        missing = (error.name or name).split(".")[0]
        message = f"{purpose} needs {missing}, which is not installed; install it: pip install {missing}"
        raise UserError(message) from error
    except Exception as error:  # a library made for another version of torch fails as it likes
        raise UserError(f"{purpose} needs {name}, which cannot be imported: {first_line(error)}") from error


def refused_operator(name: str) -> bool:
    """Whether an operator of torch may do more than compute on tensors, or reads memory unchecked."""
    hidden = "unsafe" in name or (name.startswith("_") and not name.startswith("__"))
    return name in REFUSED_OPERATORS or (hidden and name not in PRIVATE_OPERATORS and hasattr(torch.ops.aten, name))


def _select(archive: Archive, wanted: re.Pattern[str]) -> dict[str, bytes | None]:
    """Records whose names match: name -> content, or None for the bytes of a tensor."""
    names = [name for name in archive if wanted.fullmatch(name)]
    return {name: None if NUMBERS.fullmatch(name) else archive.read(name, MAX_PICKLE) for name in names}


def is_torchscript(path: Path) -> bool:
    """Whether a file is a TorchScript archive, as torch tells them from state dicts. Raises UserError for damage."""
    if not _is_zip(path):
        return False
    with Archive(path) as archive:
        return "constants.pkl" in archive


def _is_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def load_torchscript(path: Path) -> torch.nn.Module:
    """The module in a TorchScript archive, on the CPU.

    Raises UserError for what is none, for code with operators that do more than compute, and for attributes other than
    tensors, numbers, texts and modules.
    """
    with Archive(path) as archive:
        records = _select(archive, SCRIPT_RECORDS)
        for name in archive:
            if SCRIPT_CODE.fullmatch(name):
                records[name] = code = archive.read(name)
                _check_code(archive, name, code)
        for name in ("data.pkl", "constants.pkl"):
            _check_script_pickle(archive, name, archive.read(name, MAX_PICKLE))
        with rewritten(archive, records) as copy, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # torch's advice to its users, not to ours
            try:
                return torch.jit.load(copy, map_location="cpu")  # type: ignore[no-untyped-call]
            except Exception as error:
                raise archive.refusal(f"torch cannot load it as TorchScript ({first_line(error)})") from error


def _check_code(archive: Archive, name: str, code: bytes) -> None:
    """Raises UserError for TorchScript code that names what it may not.

    Words are looked for in the raw text, strings included: so the code need not be read just as the compiler does.
    """
    text = code.decode("utf-8", "replace")
    refused = sorted(word for word in set(WORD.findall(text)) if refused_operator(word))
    refused += sorted({match[0] for match in FOREIGN_CODE.finditer(text)})
    if refused:
        raise archive.refusal(
            f"{name} names {', '.join(refused)}, which may reach files or memory; export the model with torch.export"
        )


def _check_script_pickle(archive: Archive, name: str, data: bytes) -> None:
    def admitted(module: str, called: str) -> bool:
        path = f"{module}.{called}".split(".")
        return (module, called) in IN_TORCHSCRIPT or (path[0] == "__torch__" and "classes" not in path)

    check_pickles(data, archive.path, admitted, lambda key: archive.size(f"{name.removesuffix('.pkl')}/{key}"))
    memo = [argument for code, argument, _ in pickletools.genops(data) if code.name == "LONG_BINPUT"]
    if any(number is None or number > len(data) for number in memo):  # torch's reader, in C++, makes room for all below
        raise archive.refusal(f"{name} asks for more memory than it needs")


@contextmanager
def _state_dict(path: Path) -> Iterator[dict[str, torch.Tensor]]:
    """The weights in a file, name -> tensor, to be copied within ``with``. Raises UserError."""
    if path.suffix == ".safetensors":
        yield _safetensors(path)
    elif _is_zip(path):
        with Archive(path) as archive:
            check_pickles(
                archive.read("data.pkl", MAX_PICKLE), path, _in_state_dicts, lambda key: archive.size(f"data/{key}")
            )
            with rewritten(archive, _select(archive, STATE_RECORDS)) as copy:
                yield _weights(path, copy, mmap=True)
    else:
        with path.open("rb") as file:
            beginning = file.read(MAX_PICKLE)
        # Magic number, version, machine, content, names of the storages, which follow.
        check_pickles(beginning, path, _in_state_dicts, lambda _: path.stat().st_size, count=5)
        yield _weights(path, path, mmap=False)


def _safetensors(path: Path) -> dict[str, torch.Tensor]:
    library = optional_library("safetensors.torch", str(path))
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
    if length > min(MAX_PICKLE, path.stat().st_size - 8):
        raise UserError(f"{path} is refused: it announces a header of {length} bytes, more than it has or is allowed")
    try:
        return library.load_file(path)
    except Exception as error:
        raise UserError(f"{path} cannot be read as safetensors: {first_line(error)}") from error


def _in_state_dicts(module: str, name: str) -> bool:
    return (module, name) in IN_STATE_DICTS


def _weights(path: Path, copy: Path, mmap: bool) -> dict[str, torch.Tensor]:
    try:
        content = torch.load(copy, map_location="cpu", weights_only=True, mmap=mmap)
    except Exception as error:
        raise UserError(f"{path} cannot be read as a state dict: {first_line(error)}") from error
    if isinstance(content, Mapping):
        content = next((content[key] for key in WRAPPERS if isinstance(content.get(key), Mapping)), content)
    if not isinstance(content, Mapping) or not all(
        isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in content.items()
    ):
        held = ", ".join(map(str, list(content)[:5])) if isinstance(content, Mapping) else type(content).__name__
        raise UserError(f"{path} holds no state dict but {held}; a state dict is allowed, alone or under {WRAPPERS}")
    return dict(content)


def load_weights(module: torch.nn.Module, path: Path, spec: str) -> None:
    """Puts a file's weights into a module, all of them and no others: torch.save's two formats, safetensors.

    Found also under "state_dict", "model_state_dict" or "model", and with the prefixes of DataParallel and
    torch.compile. Raises UserError for anything else in the file, and names the weights that do not fit ``spec``.
    """
    wanted = {name: value for name, value in module.state_dict().items() if isinstance(value, torch.Tensor)}
    with _state_dict(path) as content:
        fitting = _without_prefixes(content, wanted)
        _check_fit(fitting, wanted, f"{path} does not fit {spec}")
        try:
            module.load_state_dict(fitting)
        except RuntimeError as error:
            raise UserError(f"{path} does not fit {spec}: {first_line(error)}") from error


def _without_prefixes(content: dict[str, torch.Tensor], wanted: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    for prefix in PREFIXES * 2:  # either may be around the other
        if not content.keys() & wanted.keys() and all(name.startswith(prefix) for name in content):
            content = {name.removeprefix(prefix): value for name, value in content.items()}
    return content


def _check_fit(content: Mapping[str, torch.Tensor], wanted: Mapping[str, torch.Tensor], complaint: str) -> None:
    both = wanted.keys() & content.keys()
    shapes = [name for name in both if wanted[name].shape != content[name].shape]
    halves = [name for name in both if content[name].is_complex() and not wanted[name].is_complex()]
    faults = [
        f"{len(names)} {kind} ({', '.join(sorted(names)[:NAMED])}{' ...' if len(names) > NAMED else ''})"
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
            f"{complaint}: {'; '.join(faults)}; name the model that it was saved from, for other classes a factory, "
            "package.module:callable, that makes it"
        )


def weights_digest(module: torch.nn.Module) -> str:
    """SHA-256 of the names, types, shapes and bytes of a module's state dict."""
    total = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        if isinstance(value, torch.Tensor):
            total.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
            total.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()
