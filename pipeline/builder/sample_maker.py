"""The stages of a sample: read, decode, prepare, transform, encode, check. An error fails only its own sample."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pipeline.builder.counts import BuildCounts
from pipeline.builder.records import Failure, Members, Output, Payload, PreparedImage, failure_reason
from pipeline.datasets.samples import payload_digest, pixel_digest
from pipeline.errors import SampleError, UnreachableError, UserError
from pipeline.images.encoder import Encoder
from pipeline.images.encoders import decode_members
from pipeline.render.renderer import Renderer, source_digest
from pipeline.sources.base import Source, SourceImage
from pipeline.storage import LARGEST_READ
from pipeline.transforms.family import Condition, Image

CRASHES_WORKER = "crashes the worker process every time it is processed"
"""Reason of a quarantined sample in the manifest. The actual error is unknown, because the process died."""


def quarantined(image: SourceImage, sha256: str | None = None) -> PreparedImage:
    """Return a failed image, whose samples are not tried again.

    Args:
        image: The image.
        sha256: SHA-256 of its bytes, if it was read.
    """
    return PreparedImage(image, sha256, Failure(f"{image.origin}: {CRASHES_WORKER}"))


def checked_payload(encoder: Encoder, members: Members) -> Payload:
    """Decode payload members as a reader would, and return them with their digests.

    Args:
        encoder: Encoder of the members.
        members: Suffix -> bytes.

    Raises:
        ValueError: They cannot be decoded.
    """
    pixels = decode_members(encoder, members)
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
        roots: Folders and URLs that are removed from reasons of failures, the longest first.
    """

    def __init__(self, source: Source, renderer: Renderer, encoder: Encoder, roots: Sequence[str]) -> None:
        self._source = source
        self._renderer = renderer
        self._encoder = encoder
        self._roots = roots

    def prepare(self, image: SourceImage, counts: BuildCounts, decode: bool = True) -> PreparedImage:
        """Read, decode and prepare an image.

        Args:
            image: The image.
            counts: Counts to which the durations are added.
            decode: Whether to decode and prepare it. Otherwise it is only read.

        Returns:
            The prepared image, or a failed one if the image is invalid.

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
                pixels = self._failure(error)
        counts.rendering[condition.transform] += counts.add_time("transform", start) - start
        return Output(image, condition, pixels)

    def finish(self, outputs: Sequence[Output], counts: BuildCounts) -> list[tuple[Output, Payload | Failure]]:
        """Encode a batch of outputs, and decode them again to compute their digests. Return both of each."""
        start = time.perf_counter()
        encoded = [self._encode(output) for output in outputs]
        start = counts.add_time("encode", start)
        payloads = [self._check(output, members) for output, members in zip(outputs, encoded, strict=True)]
        counts.add_time("check", start)
        return list(zip(outputs, payloads, strict=True))

    def _encode(self, output: Output) -> Members | Failure:
        if isinstance(output.pixels, Failure):
            return output.pixels
        try:
            return self._renderer.encode(output.pixels, output.condition, output.image.encoder)
        except Exception as error:
            return self._failure(error)

    def _check(self, output: Output, members: Members | Failure) -> Payload | Failure:
        """Decode a payload as a reader would, and compute its digests."""
        if isinstance(members, Failure):
            return members
        try:
            return checked_payload(output.image.encoder or self._encoder, members)
        except Exception as error:
            return self._failure(error)

    def _failure(self, error: BaseException) -> Failure:
        return Failure(failure_reason(error, self._roots))
