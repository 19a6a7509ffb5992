"""A trial of every transform, once per machine: it compiles the kernels and detects missing requirements."""

import fcntl
import hashlib
import platform
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO

import numpy as np

from corruptions.kernels import COMPILED, numba_config
from pipeline.errors import SampleError, UserError
from pipeline.images.encoders import Jpeg
from pipeline.recipes.schema import Recipe
from pipeline.render.renderer import Renderer
from pipeline.software import DEVICE

TRIAL_SIDES = (32, 512, 8192)
"""Sides of the trial image in pixels. The trial uses the first that is large enough for the crops of the recipe."""

TRIED = 100
"""Maximum number of levels of a transform that are tried."""


def try_transforms(recipe: Recipe, frost_folder: str | None) -> Renderer:
    """Make samples of each transform from a small image, so that all kernels are compiled, and return the renderer.

    Raises:
        UserError: A transform cannot run on this machine.
    """
    with _compile_lock(recipe) as trial_file:
        return _tried(recipe, frost_folder, trial_file)


def ready_renderer(recipe: Recipe, frost_folder: str | None) -> Renderer:
    """Return the renderer of a recipe, after :func:`try_transforms` unless that has succeeded on this machine before.

    Raises:
        UserError: A transform cannot run on this machine, or a library of the family has another version than in the
            recipe.
    """
    _check_libraries(recipe)
    with _compile_lock(recipe) as trial_file:
        return Renderer(recipe, frost_folder) if trial_file.read() else _tried(recipe, frost_folder, trial_file)


@contextmanager
def _compile_lock(recipe: Recipe) -> Iterator[TextIO]:
    """Lock the trial of a recipe on this machine, so that workers do not all compile the same kernels.

    Yields a file that is not empty if the trial has succeeded with the current kernels.
    """
    machine = (sys.version, numba_config.CPU_FEATURES)  # machines may share a home folder
    files = [(str(path), path.stat().st_mtime_ns) for path in _files_of(recipe.family.modules)]
    key = (*machine, recipe.profile, recipe.prepare, recipe.transforms, recipe.encoder, files)
    name = f"{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.lock"
    with open(COMPILED / name, "a+", encoding="utf-8") as file:
        with suppress(OSError):  # the file system has no locks
            fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        yield file


def _files_of(modules: Iterable[str]) -> Iterator[Path]:
    """Yield the source files of modules and packages, in a fixed order."""
    for module in modules:
        spec = find_spec(module)
        for folder in (spec and spec.submodule_search_locations) or ():
            yield from sorted(Path(folder).rglob("*.py"))
        if spec and spec.origin and not spec.submodule_search_locations:
            yield Path(spec.origin)


def _check_libraries(recipe: Recipe) -> None:
    """Check that this machine has the library versions and the device of the recipe. Raises UserError."""
    installed = recipe.installed()
    for name in installed.keys() & {*recipe.family.libraries, DEVICE}:
        if (wanted := recipe.software.get(name, installed[name])) != installed[name]:
            remedy = "use machines of one kind" if name == DEVICE else "install the same version there"
            raise UserError(f"{platform.node()} has {name} {installed[name]}, but the build uses {wanted}: {remedy}")


def _tried(recipe: Recipe, frost_folder: str | None, trial_file: TextIO) -> Renderer:
    """Make a sample of each condition, but of at most TRIED levels; return the renderer. Raises UserError."""
    renderer = Renderer(recipe, frost_folder)
    photograph = _trial_image(renderer)
    for condition in recipe.some_conditions(TRIED):
        try:
            renderer.members(photograph, "", condition)
        except (OSError, ImportError, ValueError, RuntimeError, SampleError) as error:
            raise UserError(f"cannot make samples of {condition.transform}: {error}") from error
    trial_file.write("tried\n")
    return renderer


def _trial_image(renderer: Renderer) -> bytes:
    """Return an encoded image that is large enough for the crops of the recipe. Raises UserError."""
    for side in TRIAL_SIDES:
        photograph = Jpeg().encode(np.full((side, side, 3), 128, np.uint8))
        try:
            renderer.prepare(renderer.decode(photograph))
        except SampleError as error:
            reason = error
        else:
            return photograph
    raise UserError(f"[prepare] of the recipe fails for images of every size: {reason}")
