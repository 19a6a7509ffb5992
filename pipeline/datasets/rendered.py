"""The reader of rendered data sets: their samples are made from the photographs when they are read."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import manifests
from manifests import ListedImage, Row
from pipeline.datasets.base import Chunk, DataSet, Location, escaped_ids
from pipeline.datasets.content import content_digest, template_row
from pipeline.datasets.findings import Checked, CheckPayload, Findings
from pipeline.datasets.paths import LISTING_FILE, read_file, shard_file, shard_name
from pipeline.datasets.rendered_table import BOX, OutputTable, RenderedTable, source_image
from pipeline.datasets.samples import RenderedSample
from pipeline.errors import UnreachableError, UserError
from pipeline.images.fingerprints import changes
from pipeline.recipes.schema import Recipe
from pipeline.render.bank import load_bank
from pipeline.render.photographs import Photographs
from pipeline.render.prepared_cache import OFF, CachePlan, PreparedCache, make_room, plan_cache
from pipeline.render.renderer import Renderer, source_digest
from pipeline.render.warm_up import ready_renderer
from pipeline.sources.base import Box, Source, SourceImage
from pipeline.sources.kinds import open_source
from pipeline.sources.threads import read_in_threads
from pipeline.storage.trusted_locations import absolute
from pipeline.transforms.family import Condition, Draws

LISTED = frozenset({"source_id", "source_sha256", "origin", "label", "class_name", "status", "error"})
"""Columns that rows have from the listing."""

IMAGES_TOGETHER = 1000
"""Number of rows of the listing in memory at a time."""

RANDOM_SAMPLES = 20
"""Number of randomly chosen samples that are made, beside those of the first image."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Rendered(DataSet):
    """A rendered data set. Its rows have no digests of payloads, and ``offset`` is an index in the listing.

    Attributes:
        recipe: The recipe, with the encoder that readers see.
        table: What stands for its samples.
        source: Folder or URL of the source images.
        frost_folder: Folder of the frost textures; None for the installed ones.
    """

    recipe: Recipe
    table: RenderedTable
    source: str
    frost_folder: str | None = None

    @cached_property
    def cache_plan(self) -> CachePlan:
        """What the cache of prepared photographs holds. Raise UserError if its folder cannot be used."""
        return plan_cache(self.location.cache, self.recipe, self.table.listing, self.table.images, self.table.prepared)

    @property
    def absolute_location(self) -> Location:
        """The location with absolute paths, for processes in other folders."""
        cache = self.location.cache
        kept = cache if cache in (None, OFF) else absolute(str(cache))
        return super().absolute_location._replace(data=absolute(self.source), cache=kept)

    def prepare_cache(self) -> str:
        """Create the cache of prepared photographs, and return what it will hold. Raise UserError if it cannot be."""
        make_room(self.cache_plan)
        problem = PreparedCache(self.cache_plan).problem
        return str(replace(self.cache_plan, images=0, reason=problem) if problem else self.cache_plan)

    def manifest_digest(self) -> str:
        """Return the digest of what it contains, since it has no manifest."""
        return self.content()

    def content(self) -> str:
        """Return the digest of recipe and images, see ``content_digest``."""
        return self._content

    @cached_property
    def _content(self) -> str:
        listed = (
            zip(*(table[name].to_pylist() for name in ("source_id", "label", "source_sha256")), strict=True)
            for table in self._listing(("source_id", "label", "source_sha256"))
        )
        return content_digest(self.recipe, (image for table in listed for image in table))

    def chunks(self) -> Iterator[Chunk]:
        """Yield the chunks that a built data set of the recipe has."""
        size, first = self.recipe.shards.size, 0
        sound = self._sound_images
        for output in self.table.outputs:
            for block, start in enumerate(range(0, self.table.images, size)):
                count = min(size, self.table.images - start)
                samples = int(sound[start + count] - sound[start])
                name = shard_name(output.condition, block)
                yield Chunk(name, output.condition, first, count, samples, samples * output.frames)
                first += count

    def rows_of(self, chunk: Chunk) -> list[Row]:
        """Return the rows of a chunk. Raise UserError if the listing is damaged."""
        start, rows = chunk.first % self.table.images, list[Row]()
        for listed in read_file(self.store, LISTING_FILE, manifests.read_slices, start, chunk.count, manifests.LISTING):
            table = self._columns(self._outputs[chunk.condition], listed, start + len(rows), manifests.COLUMNS)
            rows += manifests.table_rows(table)
        return rows

    def rows(self, where: manifests.Filters = manifests.NO_FILTERS) -> Iterator[Row]:
        """Yield the rows of its samples, see ``DataSet.rows``."""
        for table in self.tables(manifests.COLUMNS, where):
            yield from manifests.table_rows(table)

    def tables(self, columns: Sequence[str], where: manifests.Filters = manifests.NO_FILTERS) -> Iterator[pa.Table]:
        """Yield columns of the rows of its samples, one table for each condition and row group of the listing."""
        needed = list(dict.fromkeys((*columns, *where)))
        of_listing = {"status", *({"source_id"} if "key" in needed else ()), *LISTED.intersection(needed)}
        for output in self._outputs_of(where):
            start = 0
            for listed in self._listing(sorted(of_listing)):
                table = manifests.matching_rows(self._columns(output, listed, start, needed), where)
                if table.num_rows:
                    yield table.select(list(columns))
                start += listed.num_rows

    def draws(self, columns: Mapping[str, Any]) -> Draws | None:
        """Return what is drawn for a sample."""
        condition = Condition(columns["transform"], columns["level"])
        return self.recipe.draws(condition, columns["source_id"], columns["height"], columns["width"])

    def pick(self, row: Row) -> RenderedSample:
        """Return the sample of one ``ok`` row. Raise UserError if its source image changed, or it cannot be made."""
        condition = Condition(row.transform, row.level)
        output = self._outputs[condition]
        try:
            prepared = self._photographs.prepared(*self._photograph(row), row.source_sha256 or "")
            pixels = self._renderer.transform(prepared, row.source_id, condition)
        except (UserError, UnreachableError, OSError):
            raise
        except Exception as error:  # transforms can raise any exception
            raise UserError(
                f"cannot make {row.key} ({type(error).__name__}: {error}): render the data set again with --check, "
                "which finds damaged images"
            ) from error
        expected = (*((output.frames,) if self.family.sequences else ()), output.height, output.width, 3)
        if pixels.shape != expected:
            raise UserError(
                f"{row.key} has the shape {pixels.shape}, others have {expected}: rendered data sets need images of "
                "one size; add a crop to prepare.steps of the recipe, or build the data set"
            )
        return RenderedSample(row, pixels, self.recipe.encoder.of(row.origin), self.family.grain(row.transform))

    def picked(self, rows: Sequence[Row]) -> Iterator[RenderedSample]:
        """Yield the samples of ``ok`` rows, in order; photographs are read from an object store in advance."""
        with self._photographs.expecting(map(self._photograph, rows)):
            yield from map(self.pick, rows)

    def _photograph(self, row: Row) -> tuple[int, SourceImage]:
        """Return the index of a photograph in the listing, and the reference to it."""
        index = row.offset or 0
        size, box = int(self._lengths[index]), self._boxes.get(index)
        return index, SourceImage(row.source_id, row.label, row.class_name, row.origin, size, box)

    def verify(
        self, threads: int = 1, checked: Checked = lambda found: None, further: CheckPayload | None = None
    ) -> Findings:
        """Compare the source with the listing, and make the samples of the first image and a random part of the others.

        The samples of the first image must have the digests that were recorded when the data set was rendered.
        """
        found = self.verify_listing(checked)
        _check_digests(self, threads, found, checked)
        _check_outputs(self, found)
        _make_random(self, random.Random(), found)
        return found

    def verify_listing(self, checked: Checked = lambda found: None) -> Findings:
        """Compare names, labels and sizes of all images with the listing of the source."""
        found = Findings(samples=self.table.images * len(self.table.outputs))
        current = {image.id: image for image in self._open_source(self.recipe.source.classes)}
        for image in self._images():
            _check_listed(image, current.get(image.source_id), found)
            found.failed += (image.status != manifests.OK) * len(self.table.outputs)
        checked(found)
        return found

    def _images(self) -> Iterator[ListedImage]:
        """Yield the images of the listing."""
        for start in range(0, self.table.images, IMAGES_TOGETHER):
            yield from read_file(self.store, LISTING_FILE, manifests.read_listing, start, IMAGES_TOGETHER)

    def _open_source(self, classes: Sequence[str] = ()) -> Source:
        return open_source(self.recipe.source.kind, self.source, classes=classes, part=self.recipe.source)

    def _outputs_of(self, where: manifests.Filters) -> Iterator[OutputTable]:
        """Yield the outputs whose transform and level are allowed."""
        for output in self.table.outputs:
            named = {"transform": output.transform, "level": output.level}
            if all(named[column] in where[column] for column in named.keys() & where):
                yield output

    @cached_property
    def _outputs(self) -> Mapping[Condition, OutputTable]:
        return {output.condition: output for output in self.table.outputs}

    @cached_property
    def _renderer(self) -> Renderer:
        self._check_software()
        load_bank(self.store, self.recipe)
        threads = cv2.getNumThreads()
        try:
            return ready_renderer(self.recipe, self.frost_folder)
        finally:
            cv2.setNumThreads(threads)  # this may be the user's process

    @cached_property
    def _photographs(self) -> Photographs:
        return Photographs(self._open_source(), self._renderer, PreparedCache(self.cache_plan), self.table.images)

    @cached_property
    def _sound_images(self) -> NDArray[np.int64]:
        """The number of images before each index that did not fail."""
        sound = [
            pc.equal(table["status"].cast(pa.string()), manifests.OK).to_numpy() for table in self._listing(("status",))
        ]
        return np.concatenate([[0], np.cumsum(np.concatenate(sound))])

    @cached_property
    def _lengths(self) -> NDArray[np.int64]:
        """The sizes of the photographs in bytes, by index."""
        return np.concatenate([table["length"].to_numpy() for table in self._listing(("length",))])

    @cached_property
    def _boxes(self) -> Mapping[int, Box]:
        """The boxes of images that have one, by index."""
        boxes: dict[int, Box] = {}
        start = 0
        for table in self._listing(BOX):
            edges = zip(*(table[name].to_pylist() for name in BOX), strict=True)
            boxes |= {start + index: box for index, box in enumerate(edges) if None not in box}
            start += table.num_rows
        return boxes

    def _check_software(self) -> None:
        """Raise UserError if this machine has other libraries than the listing was made with."""
        recipe = self.recipe
        installed = recipe.installed()
        differ = [
            f"{name} is {installed.get(name, 'missing')} instead of {version}"
            for name, version in recipe.software.items()
            if installed.get(name) != version
        ]
        differ += changes(recipe.decoders, recipe.resizers)
        if differ:
            raise UserError(
                f"{self.store.root} was rendered with other libraries ({'; '.join(differ)}), so that its samples may "
                "differ: render it again on this machine, or install the same versions"
            )

    def _listing(self, names: Sequence[str]) -> Iterator[pa.Table]:
        """Yield columns of the listing, one row group at a time. Raise UserError if it is damaged."""
        arguments = (names, manifests.NO_FILTERS, manifests.LISTING)
        return read_file(self.store, LISTING_FILE, manifests.read_tables, *arguments)

    def _columns(self, output: OutputTable, listed: pa.Table, start: int, names: Sequence[str]) -> pa.Table:
        """Return columns of the rows of consecutive images under one condition."""
        count, condition = listed.num_rows, output.condition
        indices = np.arange(start, start + count)
        sound = pc.equal(listed["status"].cast(pa.string()), manifests.OK).combine_chunks()
        template = template_row(self.recipe, condition, "")._asdict()

        def column(name: str) -> Any:
            kind = manifests.SCHEMA.field(name).type
            if name == "key":
                ids = listed["source_id"].cast(pa.string()).combine_chunks()
                return pc.binary_join_element_wise(escaped_ids(ids), str(condition), "-")
            if name == "shard":
                blocks, which = np.unique(indices // self.recipe.shards.size, return_inverse=True)
                return pa.array([shard_file(condition, block) for block in blocks]).take(pa.array(which))
            if name == "offset":
                return pc.if_else(sound, pa.array(indices), None)
            if name in ("frames", "height", "width"):
                return pc.if_else(sound, pa.scalar(getattr(output, name), kind), None)
            if name in LISTED:
                return listed[name].cast(kind).combine_chunks()
            return pa.repeat(pa.scalar(template[name], kind), count)

        return pa.table({name: column(name) for name in names})


def _check_listed(image: ListedImage, current: SourceImage | None, found: Findings) -> None:
    """Compare an image of the listing with that of the source."""
    if current is None:
        found.fault(image.source_id, f"the source image {image.origin} is missing")
        return
    for name, before, now in (
        ("label", image.label, current.label),
        ("class", image.class_name, current.class_name),
        ("size", image.length, current.size),
    ):
        if before != now:
            found.fault(image.source_id, f"its {name} in the source is {now}; the listing has {before}")


def _check_digests(data_set: Rendered, threads: int, found: Findings, checked: Checked) -> None:
    """Read the images of the source and compare their digests with the listing."""
    readable = (image for image in data_set._images() if image.source_sha256 is not None)
    for index, (image, what) in enumerate(read_in_threads(readable, data_set._open_source, _digest_fault, threads)):
        if what:
            found.fault(image.source_id, what)
        if not index % IMAGES_TOGETHER:
            checked(found)


def _digest_fault(source: Source, image: ListedImage) -> tuple[ListedImage, str | None]:
    """Return an image, and how it differs from its digest; None if it does not."""
    try:
        digest = source_digest(source.read(source_image(image)))
    except OSError as error:
        return image, f"the source image {image.origin} cannot be read: {error.strerror or error}"
    return image, None if digest == image.source_sha256 else f"the source image {image.origin} has changed"


def _check_outputs(data_set: Rendered, found: Findings) -> None:
    """Make the samples of the first image and compare them with the recorded digests."""
    first: dict[Condition, Chunk] = {}
    for chunk in data_set.chunks():
        if chunk.samples:
            first.setdefault(chunk.condition, chunk)
    for condition, chunk in first.items():
        output = data_set._outputs[condition]
        row = next(row for row in data_set.rows_of(chunk) if row.status == manifests.OK)
        try:
            made = data_set.pick(row).with_digests().row
        except UserError as error:
            found.fault(row.key, str(error))
            continue
        if (made.payload_sha256, made.pixel_sha256) != (output.payload_sha256, output.pixel_sha256):
            found.fault(row.key, "differs from the sample that was made when the data set was rendered")


def _make_random(data_set: Rendered, generator: random.Random, found: Findings) -> None:
    """Make randomly chosen samples, which must not fail. A sample with a fault is not made again."""
    faulty = {fault.where for fault in found.faults}
    chunks = [chunk for chunk in data_set.chunks() if chunk.samples]
    for chunk in generator.choices(chunks, k=RANDOM_SAMPLES if chunks else 0):
        sound = (row for row in data_set.rows_of(chunk) if row.status == manifests.OK)
        row = next(islice(sound, generator.randrange(chunk.samples), None))
        if row.key in faulty:
            continue
        try:
            data_set.pick(row)
        except UserError as error:
            faulty.add(row.key)
            found.fault(row.key, str(error))
