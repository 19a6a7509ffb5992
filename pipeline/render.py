"""A recipe as functions: photograph -> clean image -> output -> payload. Every sample is made here."""

from __future__ import annotations

import fcntl
import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import cv2
import numpy as np
from numpy.typing import NDArray

import corruptions
import perturbations
from corruptions.cache import user_cache
from corruptions.kernels import numba_config
from pipeline.decoders import decode
from pipeline.encoders import Jpeg, encode_members
from pipeline.errors import SampleError, UserError
from pipeline.families import Render, Rendering, Step
from pipeline.recipes import Recipe
from pipeline.seeds import sample_seed
from pipeline.sources.base import Box

Image = NDArray[np.uint8]

TRIED_SIDES = (32, 512, 8192)
"""Sides of photographs on which the transforms are tried: the first that a recipe's crops leave something of."""


class Renderer:
    """All that turns one source image into the payloads of a recipe; the same bytes wherever it runs."""

    def __init__(self, recipe: Recipe, frost_folder: str | None = None) -> None:
        # Workers are processes of their own: threads inside OpenCV would only compete with the other workers.
        cv2.setNumThreads(1)
        self._recipe = recipe
        self._family = recipe.family
        self._renders: dict[Step, Render] = {}
        self._rendering = Rendering(
            recipe.profile, corruptions.Options(motion=recipe.transforms.motion, frost_folder=frost_folder)
        )

    def decode(self, data: bytes | Image, box: Box | None = None) -> Image | bytes:
        """The photograph as RGB (H, W, 3), cut to its box, or still encoded where the transforms are decoders.

        Raises SampleError.
        """
        if self._family.pairs:
            if box or not isinstance(data, bytes):
                raise SampleError("system noise starts from encoded photographs: this source has pixels or boxes")
            return data
        photograph = decode(data, self._recipe.prepare.decoder) if isinstance(data, bytes) else data
        return photograph if box is None else _cut(photograph, box)

    def prepare(self, photograph: Image | bytes) -> Any:
        """What the transforms start from: the clean image, or all that a family's transforms share.

        Raises SampleError for a photograph that is smaller than a crop.
        """
        try:
            return self._family.prepare(photograph, self._recipe.prepare.steps, self._recipe.prepare.resize)
        except ValueError as error:
            raise SampleError(f"cannot be prepared: {error}") from error

    def transform(self, prepared: Any, source_id: str, step: Step) -> Image:
        """The output of one transform at one level: an image (H, W, 3), or frames (T, H, W, 3)."""
        if step not in self._renders:
            self._renders[step] = self._family.render(step, self._rendering)
        return self._renders[step](prepared, sample_seed(self._recipe.seed, source_id, *step))

    def encode(self, output: Image, step: Step) -> dict[str, bytes]:
        """The payload members of an output, suffix -> bytes."""
        return encode_members(self._recipe.encoder, output, self._family.grain(step.transform))

    def members(self, data: bytes | Image, source_id: str, step: Step, box: Box | None = None) -> dict[str, bytes]:
        """From what a source reads to payload members. Raises SampleError."""
        return self.encode(self.transform(self.prepare(self.decode(data, box)), source_id, step), step)


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
    kernels = [path for package in (corruptions, perturbations) for path in Path(package.__path__[0]).rglob("*.py")]
    content = [(str(path), path.stat().st_mtime_ns) for path in sorted(kernels)]
    machine = (sys.version, numba_config.CPU_FEATURES, numba_config.CACHE_DIR)  # a home may serve several
    where = (*machine, recipe.profile, recipe.transforms, recipe.encoder, content)
    name = f"{hashlib.sha256(repr(where).encode()).hexdigest()[:16]}.lock"
    with open(user_cache() / name, "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        yield file


def _tried(recipe: Recipe, frost_folder: str | None) -> Renderer:
    renderer = Renderer(recipe, frost_folder)
    photograph = _large_enough(renderer)
    for step in recipe.steps():
        try:
            renderer.members(photograph, "", step)
        except (OSError, ImportError, ValueError, RuntimeError, SampleError) as error:
            raise UserError(f"{step.transform} cannot be made on this machine: {error}") from error
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


def source_digest(data: bytes | Image) -> str:
    """The sha256 of what a source reads: of the encoded bytes, or of the pixels'."""
    return hashlib.sha256(data if isinstance(data, bytes) else data.data).hexdigest()


def _cut(photograph: Image, box: Box) -> Image:
    """The part of a photograph inside a box. Raises SampleError where that is nothing."""
    left, top, right, bottom = box
    part = photograph[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
    if not part.size:
        raise SampleError(f"its box {box} holds nothing of {photograph.shape[1]} x {photograph.shape[0]} pixels")
    return part
