"""Try every transform once per machine: kernels are compiled then, and what is missing is found."""

from __future__ import annotations

import fcntl
import hashlib
import platform
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO

import numpy as np

from corruptions.kernels import COMPILED, numba_config
from pipeline.errors import SampleError, UserError
from pipeline.images.encoders import Jpeg
from pipeline.recipes.schema import Recipe
from pipeline.render.renderer import Renderer
from pipeline.software import versions

TRIAL_SIDES = (32, 512, 8192)
"""Sides of photographs on which the transforms are tried: the first that a recipe's crops leave something of."""


def try_transforms(recipe: Recipe, frost_folder: str | None) -> Renderer:
    """Return a renderer that has made and encoded each transform once, on a small image; its kernels are compiled.

    Raises UserError for what is missing on this machine.
    """
    with _compiling(recipe) as tried:
        renderer = _tried(recipe, frost_folder)
        tried.write("tried\n")
    return renderer


def ready_renderer(recipe: Recipe, frost_folder: str | None) -> Renderer:
    """Return a renderer as :func:`try_transforms`, but skip the trial where it has been done on this machine.

    Raises UserError for what is missing on this machine, and for another version of what a family's package brings.
    """
    _check_libraries(recipe)
    with _compiling(recipe) as tried:
        if tried.read():
            return Renderer(recipe, frost_folder)
        renderer = _tried(recipe, frost_folder)
        tried.write("tried\n")
    return renderer


@contextmanager
def _compiling(recipe: Recipe) -> Iterator[TextIO]:
    """Hold what only one process of a machine may do at a time: numba's cache may mix up what two write at once.

    Gives a file in which stands whether these transforms have been tried here with the kernels as they are now.
    """
    machine = (sys.version, numba_config.CPU_FEATURES)  # a home may serve several
    files = [(str(path), path.stat().st_mtime_ns) for path in _files_of(recipe.family.modules)]
    tried = (*machine, recipe.profile, recipe.transforms, recipe.encoder, files)
    name = f"{hashlib.sha256(repr(tried).encode()).hexdigest()[:16]}.lock"
    with open(COMPILED / name, "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        yield file


def _files_of(modules: Iterable[str]) -> Iterator[Path]:
    """Yield the source files of modules and packages, in one order."""
    for module in modules:
        spec = find_spec(module)
        for folder in (spec and spec.submodule_search_locations) or ():
            yield from sorted(Path(folder).rglob("*.py"))
        if spec and spec.origin and not spec.submodule_search_locations:
            yield Path(spec.origin)


def _check_libraries(recipe: Recipe) -> None:
    """Check that this machine has the versions that the build has. Raises UserError."""
    here = versions(recipe.family.libraries)
    for name in recipe.family.libraries:
        if (wanted := recipe.software.get(name, here[name])) != here[name]:
            raise UserError(
                f"{name} is {here[name]} on {platform.node()}, not {wanted}: install the same version there"
            )


def _tried(recipe: Recipe, frost_folder: str | None) -> Renderer:
    renderer = Renderer(recipe, frost_folder)
    photograph = _large_enough(renderer)
    for condition in recipe.conditions():
        try:
            renderer.members(photograph, "", condition)
        except (OSError, ImportError, ValueError, RuntimeError, SampleError) as error:
            raise UserError(f"{condition.transform} cannot be made on this machine: {error}") from error
    return renderer


def _large_enough(renderer: Renderer) -> bytes:
    """Return a photograph that is large enough for all crops of the recipe. Raises UserError."""
    for side in TRIAL_SIDES:
        photograph = Jpeg().encode(np.full((side, side, 3), 128, np.uint8))
        try:
            renderer.prepare(renderer.decode(photograph))
        except SampleError as error:
            reason = error
        else:
            return photograph
    raise UserError(f"the recipe's [prepare] suits no photograph, since one of any size {reason}")
