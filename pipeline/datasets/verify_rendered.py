"""Verification of a rendered data set: its source images, and samples that are made again."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import islice

import manifests
from manifests import ListedImage
from pipeline.datasets.base import Chunk
from pipeline.datasets.findings import Findings
from pipeline.datasets.paths import LISTING_FILE, read_file
from pipeline.datasets.rendered import Rendered, source_image
from pipeline.errors import UserError
from pipeline.render.renderer import source_digest
from pipeline.sources.base import Source, SourceImage
from pipeline.sources.kinds import open_source
from pipeline.sources.threads import read_in_threads

IMAGES_TOGETHER = 1000
"""Number of rows of the listing in memory at a time."""

RANDOM_SAMPLES = 20
"""Number of randomly chosen samples that are made, beside those of the first image."""

Checked = Callable[[Findings], None]


def verify_rendered(
    data_set: Rendered, quick: bool, threads: int, checked: Checked, seed: int | None = None
) -> Findings:
    """Compare a rendered data set with its source.

    The names, labels and sizes of all images are compared with the listing of the source; unless ``quick`` is set,
    also their digests. The samples of the first image and a random part of the others are made; those of the first
    image must have the digests that were recorded when the data set was rendered.

    Args:
        data_set: The data set.
        quick: Whether to compare only names, labels and sizes.
        threads: Number of images read concurrently.
        checked: Function called at intervals with the results so far.
        seed: Seed of the random part. None for a different one each time.

    Returns:
        The results.

    Raises:
        UserError: The source cannot be listed, or this machine has other libraries.
    """
    found = Findings(samples=data_set.table.images * len(data_set.table.outputs))
    listed = _listed_sources(data_set)
    for image in _listing(data_set):
        _check_listed(image, listed.get(image.source_id), found)
        found.failed += (image.status != manifests.OK) * len(data_set.table.outputs)
    checked(found)
    if not quick:
        _check_digests(data_set, threads, found, checked)
        _check_outputs(data_set, found)
        _make_random(data_set, random.Random(seed), found)
    return found


def _listed_sources(data_set: Rendered) -> dict[str, SourceImage]:
    """Return the images of the source by id."""
    table = data_set.recipe.source
    source = open_source(table.kind, data_set.source, classes=table.classes, part=table)
    return {image.id: image for image in source}


def _listing(data_set: Rendered) -> Iterator[ListedImage]:
    for start in range(0, data_set.table.images, IMAGES_TOGETHER):
        yield from read_file(data_set.store, LISTING_FILE, manifests.read_listing, start, IMAGES_TOGETHER)


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
    table = data_set.recipe.source
    readable = (image for image in _listing(data_set) if image.source_sha256 is not None)

    def open_reader() -> Source:
        return open_source(table.kind, data_set.source, part=table)

    for index, (image, what) in enumerate(read_in_threads(readable, open_reader, _digest_fault, threads)):
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
    for output in data_set.table.outputs:
        where: manifests.Filters = {"transform": [output.transform], "level": [output.level], "status": [manifests.OK]}
        for row in islice(data_set.rows(where), 1):
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
        row = next(islice(_sound_rows(data_set, chunk), generator.randrange(chunk.samples), None))
        if row.key in faulty:
            continue
        try:
            data_set.pick(row)
        except UserError as error:
            faulty.add(row.key)
            found.fault(row.key, str(error))


def _sound_rows(data_set: Rendered, chunk: Chunk) -> Iterator[manifests.Row]:
    return (row for row in data_set.rows_of(chunk) if row.status == manifests.OK)
