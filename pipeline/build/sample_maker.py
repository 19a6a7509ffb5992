"""The stages of a sample: read, decode, prepare, transform, encode, check. Errors of one sample stay with it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pipeline.build.counts import BuildCounts
from pipeline.build.failures import Failure, failure_reason
from pipeline.build.records import Members, Output, Payload, PreparedImage, SampleResult
from pipeline.datasets.samples import payload_digest, pixel_digest
from pipeline.errors import SampleError, UnreachableError, UserError
from pipeline.images.encoders import Encoder, decode_members
from pipeline.render.renderer import Renderer, source_digest
from pipeline.sources.base import Source, SourceImage
from pipeline.storage import LARGEST_READ
from pipeline.transforms.family import Condition, Image

CRASHES_WORKER = "ends the process that works on it, in every attempt"
"""Why a condemned sample failed: more is not known, since the process dies that makes it."""


def quarantined(image: SourceImage, sha256: str | None = None) -> PreparedImage:
    """Return the image for samples that are not tried again."""
    return PreparedImage(image, sha256, Failure(f"{image.origin}: {CRASHES_WORKER}"))


class SampleMaker:
    """Makes samples of one recipe from one source; each stage adds the time that it takes to the worker's counts."""

    def __init__(self, source: Source, renderer: Renderer, encoder: Encoder, roots: Sequence[str]) -> None:
        self._source = source
        self._renderer = renderer
        self._encoder = encoder
        self._roots = roots

    def prepare(self, image: SourceImage, counts: BuildCounts) -> PreparedImage:
        """Read, decode and prepare an image.

        Raises UserError and UnreachableError, for which no image is to blame.
        """
        sha256, start = None, time.perf_counter()
        try:
            if image.size > LARGEST_READ:
                raise SampleError(f"refused: its {image.size} bytes are more than the {LARGEST_READ} allowed")
            data = self._source.read(image)
            sha256 = source_digest(data)
            start = counts.lap("read", start)
            photograph = self._renderer.decode(data, image.box)
            start = counts.lap("decode", start)
            prepared = self._renderer.prepare(photograph)
            counts.lap("prepare", start)
            return PreparedImage(image, sha256, prepared, self._renderer.prepared_bytes(prepared))
        except (UserError, UnreachableError):
            raise
        except Exception as error:  # readers of damaged files raise nearly anything
            return PreparedImage(image, sha256, Failure(f"{image.origin}: {failure_reason(error, self._roots)}"))

    def transform(self, image: PreparedImage, condition: Condition, counts: BuildCounts) -> Output:
        """Make the output of an image under a condition."""
        start = time.perf_counter()
        output = Output(image, condition, self._transform(image, condition))
        counts.rendering[condition.transform] += counts.lap("transform", start) - start
        return output

    def finish(self, outputs: Sequence[Output], counts: BuildCounts) -> list[SampleResult]:
        """Encode outputs, and decode them again for their digests: all of them stage by stage."""
        start = time.perf_counter()
        encoded = [self._encode(output) for output in outputs]
        start = counts.lap("encode", start)
        payloads = [self._check(members) for members in encoded]
        counts.lap("check", start)
        return [
            SampleResult(output.image.source, output.image.sha256, output.condition, payload)
            for output, payload in zip(outputs, payloads, strict=True)
        ]

    def _transform(self, image: PreparedImage, condition: Condition) -> Image | Failure:
        if isinstance(image.prepared, Failure):
            return image.prepared
        try:
            return self._renderer.transform(image.prepared, image.source.id, condition)
        except Exception as error:
            return self._failure(error)

    def _encode(self, output: Output) -> Members | Failure:
        if isinstance(output.pixels, Failure):
            return output.pixels
        try:
            return self._renderer.encode(output.pixels, output.condition)
        except Exception as error:
            return self._failure(error)

    def _check(self, members: Members | Failure) -> Payload | Failure:
        """Decode members as a reader will."""
        if isinstance(members, Failure):
            return members
        try:
            pixels = decode_members(self._encoder, members)
            return Payload(
                members=members,
                payload_sha256=payload_digest(members.values()),
                pixel_sha256=pixel_digest(pixels),
                frames=len(pixels) if pixels.ndim == 4 else 1,
                height=pixels.shape[-3],
                width=pixels.shape[-2],
            )
        except Exception as error:
            return self._failure(error)

    def _failure(self, error: BaseException) -> Failure:
        return Failure(failure_reason(error, self._roots))
