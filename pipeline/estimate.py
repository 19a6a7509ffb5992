"""What a build will cost, measured on a few images."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from time import perf_counter

from pipeline.encoders import decode_members
from pipeline.errors import SampleError, UserError
from pipeline.plan import Plan
from pipeline.render import Renderer
from pipeline.sources import Source, SourceImage

TAR_BYTES_PER_SAMPLE = 5 * 512
"""Label and description padded to blocks, and their headers."""

TAR_BYTES_PER_MEMBER = 512 + 256
"""A header, and half a block of padding behind the payload."""


@dataclass(frozen=True)
class Estimate:
    """``output_bytes`` and ``core_seconds`` of the whole build, from ``measured`` images."""

    measured: int
    output_bytes: int
    core_seconds: float


def estimate(plan: Plan, source: Source, samples: int, frost_folder: str | None = None) -> Estimate:
    """Render ``samples`` images, spread over the listing, through the whole recipe, and extrapolate.

    Raises UserError if none of them can be read.
    """
    renderer = Renderer(plan.recipe, frost_folder)
    steps = plan.recipe.steps()
    total = measured = 0
    start = perf_counter()
    for image in _spread(plan, source, samples):
        try:
            clean = renderer.prepare(renderer.decode(source.read(image), image.box))
        except (SampleError, OSError):
            continue
        for step in steps:
            members = renderer.encode(renderer.transform(clean, image.id, step), step)
            decode_members(plan.recipe.encoder, members)  # as the build does, for the digest of the pixels
            total += sum(len(data) + TAR_BYTES_PER_MEMBER for data in members.values()) + TAR_BYTES_PER_SAMPLE
        measured += 1
    if not measured:
        raise UserError(f"none of {min(samples, plan.images)} images tried from {source.location} can be read")
    scale = plan.images / measured
    return Estimate(measured, int(total * scale), (perf_counter() - start) * scale)


def _spread(plan: Plan, source: Source, samples: int) -> Iterator[SourceImage]:
    """Up to ``samples`` images at even distances."""
    stride = max(plan.images // samples, 1)
    return islice(islice(iter(source), 0, plan.images, stride), samples)
