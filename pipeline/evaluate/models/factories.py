"""Models from the user's own code: import and call of a factory, and a digest of the code."""

import ast
import hashlib
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module, invalidate_caches
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import torch

from corruptions.registry import suggestion
from pipeline.errors import UserError
from pipeline.evaluate.models.guards import user_errors
from pipeline.software import PACKAGES, installed_versions

ADVICE = "write it as package.module:function (no .py), importable from the current folder, without arguments"

LIBRARIES = ("timm", "torchvision", "hf")
"""Prefixes of models of libraries, which may be misspelled."""

PROJECT_MODULES = frozenset({*PACKAGES, "robustshards", "__main__"})
"""Top-level modules of this project, which contain no models."""

REQUIRED_DISTRIBUTIONS = ("robustshards", "torch", "numpy", "opencv-python", "simplejpeg", "av")
"""Distributions that the predictions of every model depend on."""

MAX_SOURCE_BYTES = 2**26
"""Maximum size of a source file, in bytes."""

_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_PACKAGE_FOLDERS = frozenset({"site-packages", "dist-packages"})

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")


def call_factory(spec: str, name: str, folder: str) -> Any:
    """Import and call the function ``package.module:function``, and return its result.

    Args:
        spec: The ``--model`` text, for error messages.
        name: Module and function, separated by a colon.
        folder: Folder that is searched last for modules. Empty searches no folder.

    Raises:
        UserError: The module cannot be imported, the function fails, or an installed module has the same name as a
            module in ``folder``.
    """
    module_name, _, attributes = name.partition(":")
    words = [*module_name.split("."), *attributes.split(".")]
    if not all(word.isidentifier() for word in words):
        raise UserError(f"invalid function name {spec!r}: {ADVICE}")
    if words[0] in PROJECT_MODULES:
        raise UserError(f"{spec} was rejected: {words[0]} is part of this project; give a function from your own code")
    _add_user_folder(folder)
    with user_errors(spec, f"{ADVICE}{suggestion(module_name, LIBRARIES)}"):
        value: Any = import_module(module_name)
        _check_not_shadowed(spec, words[0], folder)
        for attribute in attributes.split("."):
            value = getattr(value, attribute)
        return value()


class _UserFolderFinder(MetaPathFinder):
    """A finder of modules in the user's folder, which runs after all other finders.

    Adding the folder to ``sys.path`` would put it before projects in editable installs, and child processes would
    inherit it.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a top-level module."""
        return PathFinder.find_spec(fullname, [self.folder], target) if path is None else None


def _add_user_folder(folder: str) -> None:
    """Add a folder to the module search, after all other locations."""
    known = any(isinstance(each, _UserFolderFinder) and each.folder == folder for each in sys.meta_path)
    if folder and not known:
        sys.meta_path.append(_UserFolderFinder(folder))
    invalidate_caches()


def _check_not_shadowed(spec: str, top: str, folder: str) -> None:
    """Raise UserError if an installed module was imported instead of one of the same name in the user's folder."""
    user_file = next(
        (path for path in (Path(folder, f"{top}.py"), Path(folder, top, "__init__.py")) if path.exists()), ""
    )
    origin = getattr(sys.modules[top], "__file__", None)
    if folder and user_file and not (origin and Path(origin).resolve().is_relative_to(Path(folder).resolve())):
        imported = origin or "a module of Python"
        raise UserError(f"{spec} refers to {imported}, not to {user_file}: both are called {top}; rename your module")


def modules_of(network: torch.nn.Module) -> set[str]:
    """Return the names of the modules that define the classes of a network."""
    return {type(part).__module__ for part in network.modules()}


def code_digest(network: torch.nn.Module, modules: Iterable[str]) -> str:
    """Return the hexadecimal SHA-256 of the code that the outputs of a network depend on.

    It covers the structure of the network (name and class of each submodule, settings of torch's submodules) and the
    source files of the user's modules among ``modules``, which define it, including the modules that they import.
    """
    total = hashlib.sha256()
    for path, part in network.named_modules():
        kind = type(part)
        settings = _ADDRESS.sub("", part.extra_repr()) if kind.__module__.startswith("torch.nn.") else ""
        total.update(f"{path} {kind.__module__}.{kind.__qualname__}({settings})\n".encode("utf-8", "replace"))
    for name, content in user_sources(modules).items():
        total.update(f"{name} {hashlib.sha256(content).hexdigest()}\n".encode())
    return total.hexdigest()


def adaptation_digest(network: torch.nn.Module, code: str) -> str:
    """Return the hexadecimal SHA-256 of what determines the outputs of a network that adapts, besides its weights.

    It covers the digest of the code, and of each submodule its mode, its attributes that are numbers or text, the
    parameters that require gradients, and the settings of its optimizers. The network has not been called yet.
    """
    total = hashlib.sha256(code.encode())
    for path, part in network.named_modules():
        attributes = sorted(vars(part).items())
        settings = [(name, value) for name, value in attributes if _is_plain(value)]
        settings += [
            (f"{name} {number} {key}", value)
            for name, optimizer in attributes
            if isinstance(optimizer, torch.optim.Optimizer)
            for number, group in enumerate(optimizer.param_groups)
            for key, value in group.items()
            if key != "params"
        ]
        learned = [name for name, weights in part.named_parameters(recurse=False) if weights.requires_grad]
        total.update(f"{path} {settings} {learned}\n".encode("utf-8", "replace"))
    return total.hexdigest()


def _is_plain(value: object) -> bool:
    """Return whether a value consists of numbers and text, so that its ``repr`` describes it."""
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def library_versions(libraries: Iterable[str] = ()) -> dict[str, str]:
    """Return the versions of the required distributions, and of ``libraries`` that are installed, by name."""
    return dict(sorted(installed_versions((*REQUIRED_DISTRIBUTIONS, *libraries)).items()))


def libraries_of(modules: Iterable[str]) -> set[str]:
    """Return the import names of third-party libraries among ``modules`` and in imports of the user's modules."""
    names = set(modules)
    for name, content in user_sources(names).items():
        names |= set(_imports(name, _is_package(name), content))
    tops = {name.partition(".")[0] for name in names} - PROJECT_MODULES - sys.stdlib_module_names
    return {top for top in tops if top and _user_file(top) is None}


def user_sources(modules: Iterable[str]) -> Mapping[str, bytes]:
    """Return name -> source code of the user's modules among ``modules`` and of those that they import, sorted.

    A module is the user's if it is not part of Python, of an installed package or of this project. Imports are found
    by parsing the source code; no module is imported.
    """
    sources: dict[str, bytes] = {}
    pending = sorted(set(modules))
    while pending:
        name = pending.pop()
        parents = [name.rpartition(".")[0]] if "." in name else []
        if name in sources or (path := _user_file(name)) is None:
            continue
        sources[name] = _content(path)
        pending += [*parents, *_imports(name, _is_package(name), sources[name])]
    return MappingProxyType({name: sources[name] for name in sorted(sources)})


def _user_file(name: str) -> Path | None:
    """Return the file of a module, or None if it is not the user's."""
    top = name.partition(".")[0]
    if not name or top in PROJECT_MODULES or top in sys.stdlib_module_names:
        return None
    spec = _spec(name)
    if spec is None or not spec.origin or not spec.has_location:
        return None
    path = Path(spec.origin)
    if _PACKAGE_FOLDERS & set(path.parts) or any(path.is_relative_to(folder) for folder in _INSTALLED if folder):
        return None
    return path if path.is_file() else None


def _spec(name: str) -> ModuleSpec | None:
    """Find a module without importing it. The result does not depend on whether it was imported before."""
    parent = name.rpartition(".")[0]
    with suppress(ImportError, ValueError, AttributeError):
        if not parent:
            return find_spec(name)
        parent_spec = _spec(parent)
        if parent_spec is not None and parent_spec.submodule_search_locations is not None:
            return PathFinder.find_spec(name, list(parent_spec.submodule_search_locations))
    return None


def _is_package(name: str) -> bool:
    spec = _spec(name)
    return bool(spec and spec.submodule_search_locations is not None)


def _content(path: Path) -> bytes:
    if path.stat().st_size > MAX_SOURCE_BYTES:
        raise UserError(f"{path} has {path.stat().st_size} bytes; the limit for a module is {MAX_SOURCE_BYTES}")
    return path.read_bytes()


def _imports(name: str, is_package: bool, content: bytes) -> Iterator[str]:
    """Yield the full names of all modules that a source file imports. Compiled modules yield none."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    package = name.split(".") if is_package else name.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*parents, *filter(None, [node.module])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
