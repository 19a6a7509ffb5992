"""The interface of payload encoders."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer

Image = NDArray[np.uint8]
"""An RGB image (H, W, 3), or the frames of a sequence (T, H, W, 3)."""


class Encoder(BaseModel):
    """A payload format. ``decode`` inverts ``encode`` up to the loss of the format.

    Attributes:
        suffix: File name suffix.
        whole_sequence: Whether one payload holds all frames of a sequence; otherwise each frame has its own.
        images: Whether single images can be stored.
        bare: Whether payloads are plain pixel values, so that every reader gets the same ones.
        lossless: Whether readers get the pixels that were encoded.
        unnamed: Settings with the values that recipes and manifests do not name, because there was no other one before.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    suffix: ClassVar[str]
    whole_sequence: ClassVar[bool] = False
    images: ClassVar[bool] = True
    bare: ClassVar[bool] = False
    lossless: ClassVar[bool] = False
    unnamed: ClassVar[Mapping[str, Any]] = {}

    @model_serializer(mode="wrap")
    def _named(self, settings: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in settings(self).items() if (name, value) not in self.unnamed.items()}

    def __str__(self) -> str:
        """Return name and settings as in the manifest: ``jpeg quality=85 optimize=true``."""
        settings = self.model_dump(exclude={"name"}, mode="json")
        return " ".join([self.name, *(f"{key}={str(value).lower()}" for key, value in settings.items())])

    @property
    def dtype(self) -> type[np.uint8] | type[np.uint16]:
        """Type of the pixel values. Its largest value stands for 1.0."""
        return np.uint8

    def encode(self, image: Image, grain: bool = False) -> bytes:
        """Return the payload. ``grain``: the content is noise, for which some encoders have other settings."""
        raise NotImplementedError

    def decode(self, data: bytes) -> Image:
        """Return the pixels that readers get from a payload. Raises ValueError for an invalid payload."""
        raise NotImplementedError

    def encode_decoded(self, image: Image, grain: bool = False) -> tuple[bytes, Image]:
        """Return the payload, and the pixels that readers get from it."""
        data = self.encode(image, grain)
        return data, self.decode(data)

    def stored(self, image: Image, grain: bool = False) -> Image:
        """Return the pixels that readers get of an image or sequence once it is stored."""
        return image if self.lossless else self.encode_decoded(image, grain)[1]

    def stored_into(self, image: Image, grain: bool, target: Image) -> None:
        """Write the pixels that readers get into an existing array. Raises ValueError for one of another shape."""
        pixels = self.stored(image, grain)
        require_shape(pixels.shape, target)
        target[...] = pixels

    def of(self, origin: str, data: object = None) -> "Encoder":
        """Return the encoder of the samples of one source image: this one, unless the file decides the format.

        Args:
            origin: Path of the image in the source.
            data: Its encoded bytes, whose tags are copied. Not needed for decoding.
        """
        return self

    def decode_into(self, data: bytes, target: Image) -> None:
        """Decode into an existing array. Raises ValueError for an invalid payload or one of another shape."""
        pixels = self.decode(data)
        require_shape(pixels.shape, target)
        target[...] = pixels


def require_shape(shape: tuple[int, ...], target: Image) -> None:
    """Raise ValueError if an image of this shape does not fit into an array."""
    if shape != target.shape:
        raise ValueError(f"the shape is {shape}, expected {target.shape}")
