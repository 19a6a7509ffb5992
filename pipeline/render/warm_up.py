"""Try every transform once per machine: kernels are compiled then, and what is missing is found."""

from __future__ import annotations

import fcntl
import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import numpy as np

from corruptions.kernels import COMPILED, numba_config
from pipeline.errors import SampleError, UserError
from pipeline.images.encoders import Jpeg
from pipeline.recipes.schema import Recipe
from pipeline.render.renderer import Renderer

TRIED_SIDES = (32, 512, 8192)
"""Sides of photographs on which the transforms are tried: the first that a recipe's crops leave something of."""


def try_transforms(recipe: Recipe, frost_folder: str | None) -> Renderer:
    """A renderer that has made and encoded each transform once, on a small image; its kernels are compiled then.

    Raises UserError for what is missing on this machine.
    """
    with _compiling(recipe) as tried:
        renderer = _tried(recipe, frost_folder)
        tried.write("tried\n")
    return renderer


def ready_renderer(recipe: Recipe, frost_folder: str | None) -> Renderer:
    """As :func:`try_transforms`, but where that has been done on this machine it is not done again."""
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
    tried = (*machine, recipe.profile, recipe.transforms, recipe.encoder)
    name = f"{hashlib.sha256(repr(tried).encode()).hexdigest()[:16]}.lock"
    with open(COMPILED / name, "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        yield file


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
    """A photograph of which no crop of the recipe wants more than there is. Raises UserError."""
    for side in TRIED_SIDES:
        photograph = Jpeg().encode(np.full((side, side, 3), 128, np.uint8))
        try:
            renderer.prepare(renderer.decode(photograph))
        except SampleError as error:
            reason = error
        else:
            return photograph
    raise UserError(f"the recipe's [prepare] suits no photograph, since one of any size {reason}")
