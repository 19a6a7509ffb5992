"""Estimates of the size and duration of a build, from a few images or from finished shards."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from itertools import islice
from time import perf_counter, process_time

from rich.filesize import decimal

import manifests
from pipeline.builder.compatibility import DATA_SET
from pipeline.builder.plan import Plan
from pipeline.builder.quota import Sizes
from pipeline.datasets.paths import FACT_IMAGES, FACT_SHARD_SIZE, SHARDS, shard_file
from pipeline.errors import SampleError, UnreachableError, UserError
from pipeline.render.renderer import Renderer
from pipeline.sources.base import Source, SourceImage
from pipeline.storage import LARGEST_READ, Store
from pipeline.text import counted
from pipeline.transforms.family import Condition

MEASURED_IMAGES = 5
"""Default number of images to measure."""

MEASURED_LEVELS = 100
"""Maximum number of levels of a transform that are measured. The levels between them are taken to be like these."""

MANY_CONDITIONS = 500
"""From this number of conditions on, builds warn that images need not be stored."""

TAR_BYTES_PER_SAMPLE = 5 * 512
"""Tar bytes of the label and description members: headers and content, padded to blocks of 512 bytes."""

TAR_BYTES_PER_MEMBER = 512 + 256
"""Tar bytes of a payload member besides its content: the header, and half a block of padding on average."""


@dataclass(frozen=True)
class CostEstimate:
    """The estimated cost of a build.

    Attributes:
        measured: Number of measured images.
        sizes: Sizes of their samples.
        output_bytes: Estimated size of all shards in bytes.
        core_seconds: Estimated CPU time of the build in seconds.
    """

    measured: int
    sizes: Sizes
    output_bytes: int
    core_seconds: float


def estimate(plan: Plan, source: Source, samples: int, frost_folder: str | None = None) -> CostEstimate:
    """Make all samples of a few images, evenly spaced in the listing, and extrapolate to the whole build.

    Raises:
        UserError: None of the images can be read.
    """
    renderer = Renderer(plan.recipe, frost_folder)
    sizes, measured = Sizes(), 0
    conditions, tried = plan.recipe.conditions(), set(plan.recipe.some_conditions(MEASURED_LEVELS))
    start = perf_counter()
    samples = min(samples, plan.images)
    stride = max(plan.images // samples, 1)
    for image in islice(islice(iter(source), 0, plan.images, stride), samples):
        try:
            image_sizes = _measure(plan, renderer, source, image, tried)
        except (UserError, UnreachableError):
            raise
        except Exception:  # the build records the reason; readers of damaged files can raise any exception
            continue
        size, seconds = 0, 0.0
        for condition in conditions:
            size, seconds = image_sizes.get(condition, (size, seconds))
            sizes.add(str(condition), 1, size)
            sizes.seconds[str(condition)] = sizes.seconds.get(str(condition), 0.0) + seconds
        measured += 1
    if not measured:
        raise UserError(f"cannot read any of the {samples} images tried from {source.location}")
    scale = plan.images / measured
    seconds = (perf_counter() - start) * len(conditions) / len(tried)
    return CostEstimate(measured, sizes, int(sizes.bytes.total() * scale), seconds * scale)


def with_size_warning(plan: Plan, size_of: Callable[[], int]) -> Plan:
    """Return the plan of a build, with a warning of its size in bytes if it has very many conditions.

    Raises UserError if its manifest would have more rows than are allowed.
    """
    conditions = len(plan.recipe.conditions())
    if plan.samples > manifests.MAX_ROWS:
        raise UserError(
            f"{counted(conditions, 'condition')} of {counted(plan.images, 'image')} are {plan.samples:,} images, and a "
            f"built data set has at most {manifests.MAX_ROWS:,}: use robustshards render, which makes them when they "
            "are read, fewer images (--limit) or fewer conditions (--only, --severities)"
        )
    if conditions < MANY_CONDITIONS:
        return plan
    try:
        size = f"about {decimal(size_of())}"
    except UserError:  # the build records why images cannot be read
        size = "an unknown number of bytes"
    warning = (
        f"{conditions:,} conditions of {counted(plan.images, 'image')} are {plan.samples:,} images, {size}: "
        "robustshards render makes the same images when they are read, without storing them"
    )
    return replace(plan, warnings=(*plan.warnings, warning))


def _measure(
    plan: Plan, renderer: Renderer, source: Source, image: SourceImage, conditions: Collection[Condition]
) -> dict[Condition, tuple[int, float]]:
    """Return condition -> size in bytes and CPU seconds of the sample of one image. Raises any exception of readers."""
    if image.size > LARGEST_READ:
        raise SampleError("the image is too large")
    start = process_time()
    data = source.read(image)
    clean, encoder = renderer.prepare(renderer.decode(data, image.box)), plan.recipe.encoder.of(image.origin, data)
    sizes: dict[Condition, tuple[int, float]] = {}
    shared = (process_time() - start) / len(conditions)
    for condition in conditions:
        start = process_time()
        members, _ = renderer.encode(renderer.transform(clean, image.id, condition), condition, encoder)
        member, sample = (0, 0) if plan.recipe.is_mirror else (TAR_BYTES_PER_MEMBER, TAR_BYTES_PER_SAMPLE)
        size = sum(len(data) + member for data in members.values()) + sample
        sizes[condition] = size, process_time() - start + shared
    return sizes


def shard_sizes(plan: Plan, store: Store) -> Sizes:
    """Return the sizes of the samples in the finished shards of an output."""
    sizes, full = Sizes(), plan.recipe.shards.size
    if plan.recipe.is_mirror:
        for name, facts in DATA_SET.facts(store):
            if facts:
                sizes.add(
                    name.rpartition("/")[2].rsplit("-", 1)[0], int(facts[FACT_IMAGES]), int(facts[FACT_SHARD_SIZE])
                )
        return sizes
    listed = store.listing(SHARDS, ".tar")
    for condition in plan.recipe.conditions():
        for block in range(plan.blocks):
            if size := listed.get(shard_file(condition, block)):
                sizes.add(str(condition), min(full, plan.images - block * full), size)
    return sizes


def measured_sizes(
    plan: Plan, source: Source, conditions: Iterable[str], known: Sizes, frost_folder: str | None
) -> Sizes:
    """Return the sizes of the samples of a few images; empty if all conditions are known or no image can be read."""
    if all(known.samples[condition] for condition in conditions):
        return Sizes()
    try:
        return estimate(plan, source, MEASURED_IMAGES, frost_folder).sizes
    except UserError:
        return Sizes()
