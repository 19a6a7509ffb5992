"""Models of a user's own code: importing it, calling it, and a digest of its state."""

from __future__ import annotations

import ast
import hashlib
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module, invalidate_caches, metadata
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import torch

from pipeline.errors import UserError
from pipeline.evaluate.models.guards import failures
from pipeline.software import PACKAGES

ADVICE = "write it as package.module:function, importable from the current folder and callable without arguments"

NOT_THE_USERS = frozenset({*PACKAGES, "robustshards", "__main__"})
"""Modules of this project, which contain no models."""

ALWAYS_USED = ("robustshards", "torch", "numpy", "opencv-python", "simplejpeg", "av")
"""Distributions that every prediction depends on, whatever the model."""

LARGEST_SOURCE = 2**26
"""Largest source file in bytes."""

_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_PACKAGE_FOLDERS = frozenset({"site-packages", "dist-packages"})

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")


def call_factory(spec: str, name: str, folder: str) -> Any:
    """Call the function that ``package.module:function`` names.

    Args:
        spec: The whole text, for messages.
        name: Module and function.
        folder: Searched for modules after everything else; empty for none.

    Raises:
        UserError: The module cannot be imported, the function fails, or another module has the name of one in the
            folder.
    """
    module_name, _, attributes = name.partition(":")
    words = [*module_name.split("."), *attributes.split(".")]
    if not all(word.isidentifier() for word in words):
        raise UserError(f"{spec!r} is not a valid name of a function: {ADVICE}")
    if words[0] in NOT_THE_USERS:
        raise UserError(f"{spec} is refused: {words[0]} is part of this project; name a function of your own")
    _look_in(folder)
    with failures(spec, ADVICE):
        found: Any = import_module(module_name)
        _refuse_shadowed(spec, words[0], folder)
        for attribute in attributes.split("."):
            found = getattr(found, attribute)
        return found()


class _UsersFolder(MetaPathFinder):
    """Find modules in the user's folder after every other finder.

    ``sys.path`` does not serve: projects in editable installs come after it, and child processes inherit it.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module that is in no package."""
        return PathFinder.find_spec(fullname, [self.folder], target) if path is None else None


def _look_in(folder: str) -> None:
    """Search a folder for modules from now on, after everything else."""
    known = any(isinstance(each, _UsersFolder) and each.folder == folder for each in sys.meta_path)
    if folder and not known:
        sys.meta_path.append(_UsersFolder(folder))
    invalidate_caches()


def _refuse_shadowed(spec: str, top: str, folder: str) -> None:
    """Raise UserError where the user's folder has a module of that name, and another one was imported."""
    beside = next((path for path in (Path(folder, f"{top}.py"), Path(folder, top, "__init__.py")) if path.exists()), "")
    origin = getattr(sys.modules[top], "__file__", None)
    if folder and beside and not (origin and Path(origin).resolve().is_relative_to(Path(folder).resolve())):
        where = origin or "a module of Python"
        raise UserError(f"{spec} refers to {where}, not to {beside}: both are called {top}; rename yours")


def modules_of(made: torch.nn.Module) -> set[str]:
    """Return the names of the modules that define the classes of a network."""
    return {type(part).__module__ for part in made.modules()}


def code_digest(made: torch.nn.Module, modules: Iterable[str]) -> str:
    """Return the SHA-256, hexadecimal, of all that decides a network's outputs besides its weights.

    That is its structure (class and place of each part, settings of torch's own), and the source files of the user's
    modules among ``modules``, with all that these import.
    """
    total = hashlib.sha256()
    for place, part in made.named_modules():
        kind = type(part)
        settings = _ADDRESS.sub("", part.extra_repr()) if kind.__module__.startswith("torch.nn.") else ""
        total.update(f"{place} {kind.__module__}.{kind.__qualname__}({settings})\n".encode("utf-8", "replace"))
    for name, content in user_sources(modules).items():
        total.update(f"{name} {hashlib.sha256(content).hexdigest()}\n".encode())
    return total.hexdigest()


def software(libraries: Iterable[str] = ()) -> dict[str, str]:
    """Return library -> version of those that every prediction depends on, and of others that are installed."""
    found = {}
    for name in (*ALWAYS_USED, *libraries):
        with suppress(metadata.PackageNotFoundError, ValueError):
            found[name] = metadata.version(name)
    return dict(sorted(found.items()))


def libraries_of(modules: Iterable[str]) -> set[str]:
    """Return the libraries of others among some modules, and those that the user's import, by their imported names."""
    named = set(modules)
    for name, content in user_sources(named).items():
        named |= set(_imports(name, _is_package(name), content))
    tops = {name.partition(".")[0] for name in named} - NOT_THE_USERS - sys.stdlib_module_names
    return {top for top in tops if top and _users_file(top) is None}


def user_sources(modules: Iterable[str]) -> Mapping[str, bytes]:
    """Return module -> source of the user's modules among these, and of all of the user's that they import, sorted.

    The user's are those that are neither Python's, nor installed, nor of this project. Imports are read from the
    source, wherever they are in it; nothing is imported.
    """
    found: dict[str, bytes] = {}
    waiting = sorted(set(modules))
    while waiting:
        name = waiting.pop()
        parents = [name.rpartition(".")[0]] if "." in name else []
        if name in found or (path := _users_file(name)) is None:
            continue
        found[name] = _content(path)
        waiting += [*parents, *_imports(name, _is_package(name), found[name])]
    return MappingProxyType({name: found[name] for name in sorted(found)})


def _users_file(name: str) -> Path | None:
    """Return the file of a module, if it is the user's."""
    top = name.partition(".")[0]
    if not name or top in NOT_THE_USERS or top in sys.stdlib_module_names:
        return None
    spec = _spec(name)
    if spec is None or not spec.origin or not spec.has_location:
        return None
    path = Path(spec.origin)
    if _PACKAGE_FOLDERS & set(path.parts) or any(path.is_relative_to(folder) for folder in _INSTALLED if folder):
        return None
    return path if path.is_file() else None


def _spec(name: str) -> ModuleSpec | None:
    """Find a module without importing it, the same way whether it was imported already or not."""
    parent = name.rpartition(".")[0]
    with suppress(ImportError, ValueError, AttributeError):
        if not parent:
            return find_spec(name)
        above = _spec(parent)
        if above is not None and above.submodule_search_locations is not None:
            return PathFinder.find_spec(name, list(above.submodule_search_locations))
    return None


def _is_package(name: str) -> bool:
    spec = _spec(name)
    return bool(spec and spec.submodule_search_locations is not None)


def _content(path: Path) -> bytes:
    if path.stat().st_size > LARGEST_SOURCE:
        raise UserError(f"{path} has {path.stat().st_size} bytes; at most {LARGEST_SOURCE} are allowed for a module")
    return path.read_bytes()


def _imports(name: str, is_package: bool, content: bytes) -> Iterator[str]:
    """Yield the full names of the modules that a source imports; none of compiled modules."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    package = name.split(".") if is_package else name.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
