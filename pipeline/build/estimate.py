"""What a build will cost, estimated from a few images or from finished shards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from time import perf_counter

from pipeline.build.plan import Plan
from pipeline.build.quota import Sizes
from pipeline.datasets.paths import SHARDS, shard_file
from pipeline.errors import SampleError, UnreachableError, UserError
from pipeline.images.encoders import decode_members
from pipeline.render.renderer import Renderer
from pipeline.sources.base import Source, SourceImage
from pipeline.storage import LARGEST_READ, Store

MEASURED_IMAGES = 5
"""Default number of images to measure on."""

TAR_BYTES_PER_SAMPLE = 5 * 512
"""Label and description, padded to tar blocks, with their headers."""

TAR_BYTES_PER_MEMBER = 512 + 256
"""A header, and half a tar block of padding after the payload."""


@dataclass(frozen=True)
class CostEstimate:
    """``output_bytes`` and ``core_seconds`` of the whole build, from ``measured`` images and their ``sizes``."""

    measured: int
    sizes: Sizes
    output_bytes: int
    core_seconds: float


def estimate(plan: Plan, source: Source, samples: int, frost_folder: str | None = None) -> CostEstimate:
    """Render some images through the whole recipe, and extrapolate.

    Args:
        plan: The build.
        source: Its source.
        samples: Number of images to measure on, at even distances in the listing.
        frost_folder: Folder of the frost textures, if not the installed ones.

    Returns:
        Bytes and seconds of the whole build.

    Raises:
        UserError: None of the images can be read.
    """
    renderer = Renderer(plan.recipe, frost_folder)
    sizes, measured = Sizes(), 0
    start = perf_counter()
    for image in _spread(plan, source, samples):
        try:
            found = _measure(plan, renderer, source, image)
        except (UserError, UnreachableError):
            raise
        except Exception:  # the build records why; readers of damaged files raise nearly anything
            continue
        for condition, size in found.items():
            sizes.add(condition, 1, size)
        measured += 1
    if not measured:
        raise UserError(f"none of {min(samples, plan.images)} images tried from {source.location} can be read")
    scale = plan.images / measured
    return CostEstimate(measured, sizes, int(sizes.bytes.total() * scale), (perf_counter() - start) * scale)


def _measure(plan: Plan, renderer: Renderer, source: Source, image: SourceImage) -> dict[str, int]:
    """Return condition -> bytes that the sample of one image takes. Raises what readers and transforms raise."""
    if image.size > LARGEST_READ:
        raise SampleError("it is too large")
    clean = renderer.prepare(renderer.decode(source.read(image), image.box))
    found: dict[str, int] = {}
    for condition in plan.recipe.conditions():
        members = renderer.encode(renderer.transform(clean, image.id, condition), condition)
        decode_members(plan.recipe.encoder, members)  # as the build does, for the digest of the pixels
        payload = sum(len(data) + TAR_BYTES_PER_MEMBER for data in members.values())
        found[str(condition)] = payload + TAR_BYTES_PER_SAMPLE
    return found


def shard_sizes(plan: Plan, store: Store) -> Sizes:
    """Return what the samples of the plan take in its finished shards."""
    sizes, full, there = Sizes(), plan.recipe.shards.size, store.listing(SHARDS, ".tar")
    for condition in plan.recipe.conditions():
        for block in range(plan.blocks):
            if size := there.get(shard_file(condition, block)):
                sizes.add(str(condition), min(full, plan.images - block * full), size)
    return sizes


def measured_sizes(
    plan: Plan, source: Source, conditions: Iterable[str], known: Sizes, frost_folder: str | None
) -> Sizes:
    """Return what samples of a few images take; empty if all conditions are known, or if no image can be read."""
    if all(known.samples[condition] for condition in conditions):
        return Sizes()
    try:
        return estimate(plan, source, MEASURED_IMAGES, frost_folder).sizes
    except UserError:
        return Sizes()


def _spread(plan: Plan, source: Source, samples: int) -> Iterator[SourceImage]:
    """Yield up to ``samples`` images at even distances."""
    samples = min(samples, plan.images)
    stride = max(plan.images // samples, 1)
    return islice(islice(iter(source), 0, plan.images, stride), samples)
