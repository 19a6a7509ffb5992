"""The render command: the small folder that stands for a data set whose samples are made when they are read."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import manifests
from corruptions.preparation import fixed_size
from manifests import ListedImage
from pipeline.builder.compatibility import conflicts_of
from pipeline.builder.counts import BuildCounts
from pipeline.builder.plan import Plan
from pipeline.builder.preflight import prepare
from pipeline.builder.sample_maker import Failure, PreparedImage, SampleMaker
from pipeline.builder.settings import RenderSettings
from pipeline.datasets.opening import open_data_set, read_recipe, read_rendered
from pipeline.datasets.paths import (
    INDEX_FILE,
    LISTING_FILE,
    MANIFEST_FILE,
    PARTS,
    RECIPE_FILE,
    RENDERED_FILE,
    RUNS,
    SHARDS,
    content_of,
    file_digest,
    holds_any,
)
from pipeline.datasets.rendered_table import OutputTable, RenderedTable, source_image
from pipeline.errors import UnfinishedError, UserError
from pipeline.execution.resumable import JobFolder, Preparing
from pipeline.recipes.schema import Recipe
from pipeline.render.bank import publish_bank
from pipeline.render.photographs import plain_size
from pipeline.render.renderer import Renderer
from pipeline.sources.base import Source, SourceImage
from pipeline.sources.kinds import open_source
from pipeline.sources.threads import read_in_threads
from pipeline.storage import READERS, Store, open_store
from pipeline.storage.trusted_locations import absolute, remember
from pipeline.text import counted
from pipeline.transforms.family import Condition

FIRST_IMAGES = 1000
"""Number of images at the start of the listing that are tried until one can be prepared."""


RENDERED = JobFolder("rendered data set", LISTING_FILE, RENDERED_FILE, remedy="or delete this one")
"""The output of render."""


@dataclass(frozen=True)
class RenderResult:
    """The result of a render command.

    Attributes:
        plan: The plan of the data set: recipe, images, samples.
        content: Digest of recipe and images.
        listing: Digest of the listing, which also says which images failed.
        errors: Id -> reason of each image that failed.
    """

    plan: Plan
    content: str
    listing: str
    errors: dict[str, str] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether the data set can be read."""
        return True

    @property
    def failed(self) -> int:
        """The number of samples that cannot be made."""
        return len(self.errors) * len(self.plan.recipe.conditions())

    def facts(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            **self.plan.facts(),
            "failed": self.failed,
            "failed_images": self.errors,
            "content_sha256": self.content,
        }

    def summary(self, output: str) -> Iterator[str]:
        """Yield lines of text that describe the result; ``output`` is the folder as the user gave it."""
        plan = self.plan
        yield from plan.notes()
        conditions = counted(len(plan.recipe.conditions()), "condition")
        yield f"{output} stands for {counted(plan.samples, 'sample')}: {counted(plan.images, 'image')} x {conditions}"
        for id_, reason in islice(self.errors.items(), 10):
            yield f"failed: {id_}: {reason}"
        if self.errors:
            yield f"{counted(len(self.errors), 'image')} failed under every condition; the listing has the reasons"
        yield f"next: robustshards evaluate {output} --model MODEL --out FOLDER"


def run_render(request: RenderSettings, watcher: Preparing) -> RenderResult:
    """List and read the source images, and write the folder that stands for the data set.

    Raises:
        UserError: An input is invalid, the output contains something else, or a transform cannot run.
        UnfinishedError: The source changed meanwhile.
        UnreachableError: The source or the output does not respond.
    """
    plan, source = prepare(request, watcher)
    store, errors = open_store(request.out), dict[str, str]()
    with store.exclusive():
        _check_output(store)
        watcher.preparing(f"reading {counted(plan.images, 'image')} of {source.location}")
        listing = store.scratch()
        manifests.write_listing(_listed(request, plan.recipe, islice(source, plan.images), errors), listing)
        if manifests.listing_rows(listing) != plan.images:
            raise UnfinishedError(f"{source.location} changed while it was being read; run the same command again")
        watcher.preparing("making one sample of each condition")
        table = _table(request, plan, listing)
        RENDERED.claim(store, content_of, lambda: _conflicts(store, plan.recipe, table))
        store.publish(listing, LISTING_FILE)
        store.publish_bytes(table.to_toml().encode(), RENDERED_FILE)
        publish_bank(store, plan.recipe)
        store.publish_bytes(plan.recipe.to_toml().encode(), RECIPE_FILE)  # last: without it, nothing can be opened
    remember(request.out, "source", request.source)
    if request.frost_folder:
        remember(request.out, "frost", request.frost_folder)
    content = open_data_set(request.out).content() or ""
    return RenderResult(plan, content, table.listing, errors)


def _check_output(store: Store) -> None:
    """Check that the output holds nothing else than a rendered data set. Raises UserError."""
    RENDERED.claim(store, content_of, list)
    taken = [name for name in (MANIFEST_FILE, INDEX_FILE) if store.size(name) >= 0]
    taken += [f"{name}/" for name in (SHARDS, PARTS, RUNS) if holds_any(store, name)]
    if taken:
        raise UserError(f"{store.root} contains {', '.join(taken)}, which render does not write: use an empty folder")


def _conflicts(store: Store, recipe: Recipe, table: RenderedTable) -> list[str]:
    """Return the differences of a rendered data set in the output and the requested one."""
    if store.size(RENDERED_FILE) < 0 or store.size(RECIPE_FILE) < 0:  # an interrupted run
        return []
    before = read_rendered(store)
    same = (before.listing, before.location) == (table.listing, table.location)
    return conflicts_of(read_recipe(store), recipe) + ([] if same else ["its source images differ"])


def _listed(
    request: RenderSettings, recipe: Recipe, images: Iterable[SourceImage], errors: dict[str, str]
) -> Iterator[ListedImage]:
    """Yield the rows of the listing, read by several threads, and add the reasons of failed images to ``errors``."""
    of_any_size = fixed_size(recipe.prepare.steps) is None
    first: tuple[str, tuple[int, int]] | None = None

    renderer = Renderer(recipe, request.frost_folder)

    def read(source: Source, image: SourceImage) -> PreparedImage:
        return _prepared(_maker(source, renderer, recipe, request), recipe, image, decode=request.check or of_any_size)

    for image in read_in_threads(images, lambda: _opened(recipe, request), read, READERS):
        if isinstance(image.prepared, Failure):
            errors[image.source.id] = image.prepared.reason
        elif of_any_size and (size := plain_size(image.prepared)) is not None:
            first = first or (image.source.origin, size)
            if size != first[1]:
                (height, width), (other_height, other_width) = first[1], size
                raise UserError(
                    f"{first[0]} has {width} x {height} pixels and {image.source.origin} {other_width} x "
                    f"{other_height}, but a rendered data set, which evaluate reads, needs images of one size: end "
                    "prepare.steps of the recipe with a crop; or keep all sizes with robustshards build or mirror"
                )
        yield _listed_image(image)


def _prepared(maker: SampleMaker, recipe: Recipe, image: SourceImage, decode: bool = True) -> PreparedImage:
    """Return a prepared image; a failed one also where only the transforms of the family would find the damage."""
    prepared = maker.prepare(image, BuildCounts(), decode)
    if decode and recipe.family.from_encoded:
        made = maker.transform(prepared, recipe.conditions()[0], BuildCounts()).pixels
        return replace(prepared, prepared=made) if isinstance(made, Failure) else prepared
    return prepared


def _listed_image(image: PreparedImage) -> ListedImage:
    """Return the row of an image in the listing."""
    source = image.source
    left, top, right, bottom = source.box or (None, None, None, None)
    error = image.prepared.reason if isinstance(image.prepared, Failure) else None
    return ListedImage(
        source_id=source.id,
        source_sha256=image.sha256,
        origin=source.origin,
        label=source.label,
        class_name=source.class_name,
        length=source.size,
        left=left,
        top=top,
        right=right,
        bottom=bottom,
        status=manifests.OK if error is None else manifests.FAILED,
        error=error,
    )


def _opened(recipe: Recipe, request: RenderSettings) -> Source:
    return open_source(recipe.source.kind, request.source, part=recipe.source)


def _maker(source: Source, renderer: Renderer, recipe: Recipe, request: RenderSettings) -> SampleMaker:
    return SampleMaker(source, renderer, recipe.encoder, {request.source, source.location})


def _table(request: RenderSettings, plan: Plan, listing: Path) -> RenderedTable:
    """Return what stands for the samples, from those of the first image that can be prepared.

    Raises:
        UserError: No image can be prepared, or a sample cannot be made.
    """
    recipe = plan.recipe
    maker = _maker(_opened(recipe, request), Renderer(recipe, request.frost_folder), recipe, request)
    listed = (each for each in manifests.read_listing(listing, 0, FIRST_IMAGES) if each.status == manifests.OK)
    images = (_prepared(maker, recipe, source_image(each)) for each in listed)
    image = next((each for each in images if not isinstance(each.prepared, Failure)), None)
    if image is None:
        raise UserError(
            f"none of the first images of {request.source} can be prepared: check the source, and prepare.steps of the "
            "recipe; render --check prints the reasons"
        )
    return RenderedTable(
        location=absolute(request.source),
        listing=file_digest(listing),
        images=plan.images,
        prepared=plain_size(image.prepared),
        outputs=tuple(_output(maker, image, condition) for condition in plan.recipe.conditions()),
    )


def _output(maker: SampleMaker, image: PreparedImage, condition: Condition) -> OutputTable:
    """Return the description of the samples of a condition. Raise UserError if the sample cannot be made."""
    counts = BuildCounts()
    ((_, payload),) = maker.finish([maker.transform(image, condition, counts)], counts)
    if isinstance(payload, Failure):
        raise UserError(f"cannot make {condition} of {image.source.origin}: {payload.reason}")
    return OutputTable(
        transform=condition.transform,
        level=condition.level,
        frames=payload.frames,
        height=payload.height,
        width=payload.width,
        payload_sha256=payload.payload_sha256,
        pixel_sha256=payload.pixel_sha256,
    )
