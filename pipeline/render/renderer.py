"""A recipe as functions: photograph -> clean image -> output -> payload. Every sample is made here."""

from __future__ import annotations

import hashlib
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

import corruptions
from pipeline.errors import SampleError
from pipeline.images.decoders import decode
from pipeline.images.encoders import encode_members
from pipeline.recipes.schema import Recipe
from pipeline.sources.base import Box
from pipeline.transforms.family import Condition, Render, Rendering
from pipeline.transforms.seeds import sample_seed

Image = NDArray[np.uint8]


class Renderer:
    """Turns one source image into the payloads of a recipe; the same bytes wherever it runs."""

    def __init__(self, recipe: Recipe, frost_folder: str | None = None) -> None:
        # Workers are processes of their own: threads inside OpenCV would only compete with the other workers.
        cv2.setNumThreads(1)
        self._recipe = recipe
        self._family = recipe.family
        self._renders: dict[Condition, Render] = {}
        self._rendering = Rendering(
            recipe.profile, corruptions.Options(motion=recipe.transforms.motion, frost_folder=frost_folder)
        )

    def decode(self, data: bytes | Image, box: Box | None = None) -> Image | bytes:
        """Return the photograph as RGB (H, W, 3), cut to its box, or still encoded where the family starts there.

        Raises SampleError.
        """
        if self._family.from_encoded:
            if box or not isinstance(data, bytes):
                raise SampleError(
                    f"{self._family.name} starts from encoded photographs: this source has pixels or boxes"
                )
            return data
        photograph = decode(data, self._recipe.prepare.decoder) if isinstance(data, bytes) else data
        return photograph if box is None else _cut(photograph, box)

    def prepare(self, photograph: Image | bytes) -> Any:
        """Return what the transforms start from: the clean image, or all that a family's transforms share.

        Raises SampleError for a photograph that is smaller than a crop.
        """
        try:
            return self._family.prepare(photograph, self._recipe.prepare.steps, self._recipe.prepare.resize)
        except ValueError as error:
            raise SampleError(f"cannot be prepared: {error}") from error

    def prepared_bytes(self, prepared: Any) -> int:
        """Return the bytes that a prepared photograph holds; WHOLE_BUDGET where it is to be worked on alone."""
        return self._family.prepared_bytes(prepared)

    def transform(self, prepared: Any, source_id: str, condition: Condition) -> Image:
        """Return the output of one transform at one level: an image (H, W, 3), or frames (T, H, W, 3)."""
        if condition not in self._renders:
            self._renders[condition] = self._family.render(condition, self._rendering)
        return self._renders[condition](prepared, sample_seed(self._recipe.seed, source_id, *condition))

    def encode(self, output: Image, condition: Condition) -> dict[str, bytes]:
        """Return the payload members of an output, suffix -> bytes."""
        return encode_members(self._recipe.encoder, output, self._family.grain(condition.transform))

    def members(
        self, data: bytes | Image, source_id: str, condition: Condition, box: Box | None = None
    ) -> dict[str, bytes]:
        """Return the payload members of what a source reads. Raises SampleError."""
        return self.encode(self.transform(self.prepare(self.decode(data, box)), source_id, condition), condition)


def source_digest(data: bytes | Image) -> str:
    """Return the sha256 of what a source reads: encoded bytes, or pixels."""
    return hashlib.sha256(data if isinstance(data, bytes) else data.data).hexdigest()


def _cut(photograph: Image, box: Box) -> Image:
    """Return the part of a photograph inside a box. Raises SampleError if that is empty."""
    left, top, right, bottom = box
    part = photograph[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
    if not part.size:
        raise SampleError(f"its box {box} holds nothing of {photograph.shape[1]} x {photograph.shape[0]} pixels")
    return part
