"""The stages of a sample: read, decode, prepare, transform, encode, check. An error fails only its own sample.

The records that stages pass on are frozen: prepared image, output, payload, or a failure in place of each.
"""

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pipeline.builder.counts import BuildCounts
from pipeline.datasets.samples import payload_digest, pixel_digest
from pipeline.errors import SampleError, UnreachableError, UserError
from pipeline.images.encoder import Encoder
from pipeline.render.renderer import Renderer, source_digest
from pipeline.sources.base import Source, SourceImage
from pipeline.sources.threads import ReadAhead
from pipeline.storage import LARGEST_READ
from pipeline.transforms.family import Condition, Image

Members = Mapping[str, bytes]
"""The payload of a sample: suffix of the member -> bytes."""

Result = TypeVar("Result")

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


def failure_reason(error: BaseException, roots: Collection[str]) -> str:
    """Return the text of an error, without parts that depend on the machine or the run.

    These are ``roots`` (folders and URLs of source and output) at the start of paths, the folders of other absolute
    paths, and object addresses.
    """
    if isinstance(error, SampleError):
        text = str(error)
    else:
        message = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        text = f"{type(error).__name__}: {message or 'no reason was given'}"
    for root in sorted(roots, key=len, reverse=True):  # one may be inside another
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


CRASHES_WORKER = "crashes the worker process every time it is processed"
"""Reason of a quarantined sample in the manifest. The actual error is unknown, because the process died."""


def quarantined(image: SourceImage, sha256: str | None = None) -> PreparedImage:
    """Return a failed image, whose samples are not tried again, with the SHA-256 of its bytes if it was read."""
    return PreparedImage(image, sha256, Failure(f"{image.origin}: {CRASHES_WORKER}"))


def payload_of(encoded: tuple[Members, Image]) -> Payload:
    """Return payload members with their digests, given the pixels that readers get from them, too."""
    members, pixels = encoded
    return Payload(
        members=members,
        payload_sha256=payload_digest(members.values()),
        pixel_sha256=pixel_digest(pixels),
        frames=len(pixels) if pixels.ndim == 4 else 1,
        height=pixels.shape[-3],
        width=pixels.shape[-2],
    )


class SampleMaker:
    """A maker of the samples of one recipe. Each stage adds its duration to the worker's counts.

    Args:
        source: The opened source.
        renderer: The recipe as functions.
        encoder: Encoder of the payloads.
        roots: Folders and URLs that are removed from reasons of failures.
    """

    def __init__(
        self, source: Source | ReadAhead, renderer: Renderer, encoder: Encoder, roots: Collection[str]
    ) -> None:
        self._source, self._renderer, self._encoder, self._roots = source, renderer, encoder, roots

    def prepare(self, image: SourceImage, counts: BuildCounts, decode: bool = True) -> PreparedImage:
        """Read an image, and unless ``decode`` is False decode and prepare it. Return a failed one if it is invalid.

        Raises:
            UserError: The source cannot be used.
            UnreachableError: The source does not respond.
        """
        sha256, start = None, time.perf_counter()
        try:
            if image.size > LARGEST_READ:
                raise SampleError(f"refused: {image.size} bytes exceed the limit of {LARGEST_READ} bytes")
            data = self._source.read(image)
            sha256 = source_digest(data)
            start = counts.add_time("read", start)
            if not decode:
                return PreparedImage(image, sha256, None)
            photograph = self._renderer.decode(data, image.box)
            start = counts.add_time("decode", start)
            prepared = self._renderer.prepare(photograph)
            counts.add_time("prepare", start)
            size, encoder = self._renderer.prepared_bytes(prepared), self._encoder.of(image.origin, data)
            return PreparedImage(image, sha256, prepared, size, encoder)
        except (UserError, UnreachableError):
            raise
        except Exception as error:  # readers of damaged files can raise any exception
            return PreparedImage(image, sha256, Failure(f"{image.origin}: {failure_reason(error, self._roots)}"))

    def transform(self, image: PreparedImage, condition: Condition, counts: BuildCounts) -> Output:
        """Return the output of an image under a condition, or its failure."""
        start = time.perf_counter()
        pixels: Image | Failure
        if isinstance(image.prepared, Failure):
            pixels = image.prepared
        else:
            try:
                pixels = self._renderer.transform(image.prepared, image.source.id, condition)
            except Exception as error:
                pixels = Failure(failure_reason(error, self._roots))
        counts.rendering[condition.transform] += counts.add_time("transform", start) - start
        return Output(image, condition, pixels)

    def finish(self, outputs: Sequence[Output], counts: BuildCounts) -> list[tuple[Output, Payload | Failure]]:
        """Encode a batch of outputs, and compute the digests of their files and pixels. Return both of each."""
        start = time.perf_counter()
        encoded = [
            self._tried(self._renderer.encode, output.pixels, output.condition, output.image.encoder)
            for output in outputs
        ]
        start = counts.add_time("encode", start)
        payloads = [self._tried(payload_of, pair) for pair in encoded]
        counts.add_time("digest", start)
        return list(zip(outputs, payloads, strict=True))

    def _tried(self, stage: Callable[..., Result], value: Any, *more: Any) -> Result | Failure:
        """Return the result of a stage, or its failure, or that of the stage before, which is the value."""
        if isinstance(value, Failure):
            return value
        try:
            return stage(value, *more)
        except Exception as error:
            return Failure(failure_reason(error, self._roots))
