"""The steps of a recipe as functions: photograph -> prepared image -> output -> payload."""

import hashlib
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

import corruptions
from manifests.limits import MAX_SAMPLE_PIXELS
from pipeline.errors import SampleError
from pipeline.images.decoders import decode
from pipeline.images.encoder import Encoder
from pipeline.images.encoders import encode_decoded
from pipeline.recipes.schema import Recipe
from pipeline.render.bank import bank_of
from pipeline.sources.base import Box
from pipeline.transforms.family import Condition, Render, Rendering

Image = NDArray[np.uint8]


class Renderer:
    """A recipe as functions that turn a source image into payloads. The bytes do not depend on the machine.

    ``frost_folder`` has the frost textures; default: the installed ones.
    """

    def __init__(self, recipe: Recipe, frost_folder: str | None = None) -> None:
        # There is one worker process per CPU, so threads of OpenCV would compete with the other workers.
        cv2.setNumThreads(1)
        self._recipe = recipe
        self._family = recipe.family
        self._renders: dict[Condition, Render] = {}
        self._rendering = Rendering(
            recipe.profile,
            corruptions.Options(motion=recipe.transforms.motion, frost_folder=frost_folder),
            recipe.shape,
            recipe.transforms.channels or "rgb",
            bank_of(recipe),
            recipe.norm,
            recipe.device,
        )

    def decode(self, data: bytes | Image, box: Box | None = None) -> Image | bytes:
        """Return the RGB pixels (H, W, 3) uint8 of a source image inside its box.

        These are the encoded bytes if the transforms of the family decode on their own.

        Raises:
            SampleError: The image is invalid, or its box is empty or not supported by the family.
        """
        if self._family.from_encoded:
            if box or not isinstance(data, bytes):
                raise SampleError(
                    f"{self._family.name} needs encoded images without boxes, but this source has pixels or boxes"
                )
            return data
        photograph = decode(data, self._recipe.prepare.decoder) if isinstance(data, bytes) else data
        return photograph if box is None else boxed(photograph, box)

    def prepare(self, photograph: Image | bytes) -> Any:
        """Return the input of the transforms for a decoded image: for example cropped, its type depends on the family.

        Raises:
            SampleError: The image is smaller than a crop.
        """
        try:
            return self._family.prepare(photograph, self._recipe.prepare.steps, self._recipe.prepare.resize)
        except ValueError as error:
            raise SampleError(f"cannot prepare the image: {error}") from error

    def prepared_bytes(self, prepared: Any) -> int:
        """Return the size of a prepared image in bytes; WHOLE_BUDGET if it must be processed alone."""
        return self._family.prepared_bytes(prepared)

    def transform(self, prepared: Any, source_id: str, condition: Condition) -> Image:
        """Return a transformed image (H, W, 3) or frames (T, H, W, 3), uint8. The seed follows from the source id.

        Raises:
            SampleError: It has more pixels in all than a manifest may declare.
        """
        if condition not in self._renders:
            self._renders[condition] = self._family.render(condition, self._rendering)
        made = self._renders[condition](prepared, self._recipe.seed_of(source_id, condition))
        if (pixels := made.size // 3) > MAX_SAMPLE_PIXELS:
            raise SampleError(f"{pixels:,} pixels in a sample, but at most {MAX_SAMPLE_PIXELS:,} are allowed")
        return made

    def encode(
        self, output: Image, condition: Condition, encoder: Encoder | None = None
    ) -> tuple[dict[str, bytes], Image]:
        """Return the payload members of a transformed image, suffix -> bytes, and the pixels that readers get.

        The default encoder is that of the recipe.
        """
        return encode_decoded(encoder or self._recipe.encoder, output, self._family.grain(condition.transform))

    def members(
        self, data: bytes | Image, source_id: str, condition: Condition, box: Box | None = None, origin: str = ""
    ) -> dict[str, bytes]:
        """Decode, prepare, transform and encode a source image; return the payload members, suffix -> bytes.

        Args:
            data: Encoded bytes, or RGB pixels (H, W, 3) uint8.
            source_id: Id of the source image.
            condition: Transform and level.
            box: Left, top, right and bottom in pixels; None for the whole image.
            origin: Path of the image in the source, for encoders whose format depends on it.

        Raises:
            SampleError: The image is invalid or too small.
        """
        output = self.transform(self.prepare(self.decode(data, box)), source_id, condition)
        return self.encode(output, condition, self._recipe.encoder.of(origin, data))[0]


def source_digest(data: bytes | Image) -> str:
    """Return the SHA-256 of the encoded bytes or the pixels of a source image."""
    return hashlib.sha256(data if isinstance(data, bytes) else data.data).hexdigest()


def boxed(photograph: Image, box: Box) -> Image:
    """Return the part of an image inside a box. Raises SampleError if it is empty."""
    left, top, right, bottom = box
    part = photograph[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
    if not part.size:
        raise SampleError(f"box {box} is outside the image of {photograph.shape[1]} x {photograph.shape[0]} pixels")
    return part
