"""The clean images that are attacked, as a source of a build."""

import hashlib
import heapq
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

import manifests
from manifests import Row
from pipeline.datasets.opening import open_data_set
from pipeline.datasets.samples import Sample
from pipeline.errors import SampleError, UserError
from pipeline.sources.base import Source, SourceImage
from pipeline.sources.views import View
from pipeline.tasks.labels import LabelSpace
from pipeline.text import counted
from pipeline.transforms import clean


class CleanImages:
    """The images of a clean data set, in the order of its manifest. Those that failed in its build are left out."""

    def __init__(self, folder: str, data: str | None = None) -> None:
        """Open a data set as ``open_data_set`` does. Raise UserError if it is not one of clean images."""
        self.location = folder
        self.data_set = data_set = open_data_set(folder, data)
        if data_set.family_name != clean.FAMILY.name:
            what = "sequences" if data_set.family.sequences else f"images of the family {data_set.family_name}"
            raise UserError(
                f"{data_set.name} has {what}, but attacks start from clean images: build them with a recipe whose name "
                f"ends in -clean, or index them"
            )
        if data_set.task and (data_set.task.steps or data_set.task.groups):
            raise UserError(
                f"{data_set.name} has the task {data_set.task.name}, which prepares images or groups classes when a "
                "model is evaluated: build prepared images with a recipe whose name ends in -clean, and attack these"
            )

    @property
    def ignored(self) -> Counter[str]:
        """Nothing: a data set has only images."""
        return Counter()

    @property
    def labels(self) -> LabelSpace | None:
        """What the labels count. None if unknown."""
        return self.data_set.labels

    def __iter__(self) -> Iterator[SourceImage]:
        """Yield the images. Raise UserError if one has no label, or another size than the first."""
        size: tuple[int | None, int | None] | None = None
        for row in self.data_set.rows():
            if row.status != manifests.OK:
                continue
            if row.label < 0:
                raise UserError(
                    f"{self.data_set.name} has images without labels, for example {row.source_id}: attacks move an "
                    "image away from its label; build or index images with labels"
                )
            size = size or (row.height, row.width)
            if (row.height, row.width) != size:
                raise UserError(
                    f"{self.data_set.name} has images of different sizes, for example {size[1]} x {size[0]} and "
                    f"{row.width} x {row.height}: build prepared images with a recipe whose name ends in -clean"
                )
            yield SourceImage(row.source_id, row.label, row.class_name, row.origin, row.size or 0)

    def read(self, image: SourceImage) -> bytes:
        """Return the payload of an image. Raise OSError if the image is not in the data set."""
        return self.sample(image.id).payload()

    def sample(self, source_id: str) -> Sample:
        """Return the sample of an image. Raise OSError if it is not in the data set, SampleError if it is damaged."""
        return self.pick(self.rows([source_id]), source_id)

    def rows(self, source_ids: Sequence[str]) -> dict[str, Row]:
        """Return the rows of these images, by their ids."""
        return {row.source_id: row for row in self.data_set.rows({"source_id": set(source_ids)})}

    def pick(self, rows: dict[str, Row], source_id: str) -> Sample:
        """Return the sample of an image, given rows with its own. Raises like :meth:`sample`."""
        if source_id not in rows:
            raise FileNotFoundError(f"{source_id} is not in {self.location}")
        try:
            return self.data_set.pick(rows[source_id])
        except UserError as error:
            raise SampleError(str(error)) from error


def pixels_of(sample: Sample) -> np.ndarray:
    """Return the pixels of a clean image (H, W, 3) as stored. Raise SampleError if they cannot be decoded."""
    try:
        pixels = sample.pixels()
    except ValueError as error:
        raise SampleError(f"{sample.row.key} cannot be decoded: {error}") from error
    if pixels.shape != (sample.row.height, sample.row.width, 3):
        raise SampleError(f"{sample.row.key} has the shape {pixels.shape} instead of that in its manifest")
    return pixels


def drawn(source: Source, count: int, seed: int) -> View:
    """Return the images of a source with the smallest digests of seed and id, in the order of the source.

    Raises:
        UserError: The source has fewer images.
    """
    chosen = heapq.nsmallest(count, ((_rank(seed, image.id), image.id) for image in source))
    if len(chosen) < count:
        raise UserError(
            f"{source.location} has {counted(len(chosen), 'image')}, but --sample {count} was requested: use "
            f"--sample {len(chosen)}, or 0 for all"
        )
    ids = {id_ for _, id_ in chosen}
    return View(source, lambda whole: (image for image in whole if image.id in ids))


def _rank(seed: int, source_id: str) -> bytes:
    return hashlib.blake2b(f"{seed}\n{source_id}".encode(), digest_size=16).digest()
