"""The frozen records that the stages of a worker pass on: prepared image, output, payload, result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.build.failures import Failure
from pipeline.sources.base import SourceImage
from pipeline.transforms.family import Condition, Image

Members = Mapping[str, bytes]
"""The payload of a sample: suffix of the member -> bytes."""


@dataclass(frozen=True)
class PreparedImage:
    """A source image that has been read and prepared.

    Attributes:
        source: The source image.
        sha256: SHA-256 of the bytes or pixels that were read; None if reading failed.
        prepared: Input of the transforms, whose type depends on the family; or the failure.
        size: Size of ``prepared`` in bytes.
    """

    source: SourceImage
    sha256: str | None
    prepared: object | Failure
    size: int = 0


@dataclass(frozen=True)
class Output:
    """The output of a transform.

    Attributes:
        image: The prepared image.
        condition: Transform and level.
        pixels: Image (H, W, 3) or frames (T, H, W, 3), uint8; or the failure.
    """

    image: PreparedImage
    condition: Condition
    pixels: Image | Failure

    @property
    def size(self) -> int:
        """Return the size of the pixels in bytes; 0 for a failure."""
        return 0 if isinstance(self.pixels, Failure) else self.pixels.nbytes


@dataclass(frozen=True, kw_only=True)
class Payload:
    """An encoded output.

    Attributes:
        members: Suffix -> bytes.
        payload_sha256: SHA-256 of the members, as in the manifest.
        pixel_sha256: SHA-256 of the decoded pixels, as in the manifest.
        frames: Number of frames; 1 for an image.
        height: Height in pixels.
        width: Width in pixels.
    """

    members: Members
    payload_sha256: str
    pixel_sha256: str
    frames: int
    height: int
    width: int


@dataclass(frozen=True)
class SampleResult:
    """The result of one sample, from which its manifest row and tar members are written.

    Attributes:
        source: The source image.
        source_sha256: SHA-256 of the source image; None if reading failed.
        condition: Transform and level.
        payload: The encoded output, or the failure.
    """

    source: SourceImage
    source_sha256: str | None
    condition: Condition
    payload: Payload | Failure
