"""The frozen records that the stages of a worker pass on: prepared image, output, payload, result."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.errors import SampleError
from pipeline.images.encoder import Encoder
from pipeline.sources.base import SourceImage
from pipeline.transforms.family import Condition, Image

Members = Mapping[str, bytes]
"""The payload of a sample: suffix of the member -> bytes."""


_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_PATH = re.compile(r"(?<![\w.:/~-])/(?:[^\s/'\":,;()]+/)+([^\s/'\":,;()]+)")
"""An absolute path; the group is the name of the file."""


@dataclass(frozen=True)
class Failure:
    """A failure in place of an image, an output or a payload.

    Attributes:
        reason: Text for the manifest column ``error``.
    """

    reason: str

    size = None
    """There is no payload."""


def failure_reason(error: BaseException, roots: Sequence[str]) -> str:
    """Return the text of an error, without parts that depend on the machine or the run.

    Args:
        error: Exception of a reader, a transform or an encoder.
        roots: Folders and URLs of source and output, the longest first. They are removed from the start of paths.

    Returns:
        The text, without ``roots``, the folders of other absolute paths, and object addresses.
    """
    if isinstance(error, SampleError):
        text = str(error)
    else:
        message = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        text = f"{type(error).__name__}: {message or 'no reason was given'}"
    for root in roots:
        text = text.replace(f"{root}/", "")
    return _PATH.sub(r"\1", _ADDRESS.sub("", text))


@dataclass(frozen=True)
class PreparedImage:
    """A source image that has been read and prepared.

    Attributes:
        source: The source image.
        sha256: SHA-256 of the bytes or pixels that were read; None if reading failed.
        prepared: Input of the transforms, whose type depends on the family; or the failure.
        size: Size of ``prepared`` in bytes.
        encoder: Encoder of its samples; None for the recipe's.
    """

    source: SourceImage
    sha256: str | None
    prepared: object | Failure
    size: int = 0
    encoder: Encoder | None = None


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

    @property
    def size(self) -> int:
        """Return the total length of the members in bytes."""
        return sum(map(len, self.members.values()))
