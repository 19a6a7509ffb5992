"""What the stages of a worker hand to each other: prepared image -> output -> result. All frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.build.failures import Failure
from pipeline.sources.base import SourceImage
from pipeline.transforms.family import Condition, Image

Members = Mapping[str, bytes]
"""Suffix -> bytes of a sample's payload."""


@dataclass(frozen=True)
class PreparedImage:
    """A source image that has been read and prepared.

    ``sha256``: of what was read, if anything was. ``prepared``: what the transforms start from, as the recipe's family
    makes it. ``size``: its bytes.
    """

    source: SourceImage
    sha256: str | None
    prepared: object | Failure
    size: int = 0


@dataclass(frozen=True)
class Output:
    """What a transform has made of an image."""

    image: PreparedImage
    condition: Condition
    pixels: Image | Failure

    @property
    def size(self) -> int:
        """Bytes."""
        return 0 if isinstance(self.pixels, Failure) else self.pixels.nbytes


@dataclass(frozen=True, kw_only=True)
class Payload:
    """An encoded output, and what a reader gets from it: digests as in the manifest, frames and their size."""

    members: Members
    payload_sha256: str
    pixel_sha256: str
    frames: int
    height: int
    width: int


@dataclass(frozen=True)
class SampleResult:
    """What has become of a source image under a condition: all that its manifest row and its tar members need."""

    source: SourceImage
    source_sha256: str | None
    condition: Condition
    payload: Payload | Failure
