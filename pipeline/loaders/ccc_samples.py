"""A stream of CCC as a data set for the evaluator: its samples are made when they are read."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

import manifests
from corruptions import ccc
from manifests import Row
from pipeline.datasets.base import Chunk, DataSet, Location
from pipeline.datasets.samples import RenderedSample
from pipeline.errors import UserError
from pipeline.images.encoder import Encoder
from pipeline.images.encoders import Jpeg, Npy
from pipeline.loaders.protocols import CCC, find
from pipeline.loaders.schedule import Schedule, checked_parameters
from pipeline.render.ccc import CCCImages, ccc_images
from pipeline.storage import open_store
from pipeline.storage.trusted_locations import absolute
from pipeline.transforms.family import Condition
from pipeline.transforms.imagenet_c import FAMILY

ALL = Condition(CCC, 0)
"""Stands for all samples of a stream, whose rows have the pairs of corruptions."""

CHUNK = 1000
"""Number of samples in a chunk."""


@dataclass(frozen=True, kw_only=True, repr=False)
class CCCSamples(DataSet):
    """The samples of a stream of CCC, in its order. Transforms are pairs, and levels count the steps of their walk.

    Attributes:
        made: The images.
        parameters: Parameters of the protocol; the matrix is its digest.
    """

    made: CCCImages
    parameters: Mapping[str, Any]

    @property
    def encoder(self) -> Encoder:
        """What images have passed through."""
        return Jpeg() if self.made.encode else Npy()

    @cached_property
    def phases(self) -> Sequence[int]:
        """The number of each step in its walk, from 1."""
        alike = (before[:2] == after[:2] for before, after in pairwise(self.made.steps))
        return list(accumulate(alike, lambda phase, same: phase + 1 if same else 1, initial=1))

    def schedule(self) -> Schedule:
        """Return what the stream shows: all samples as one entry."""
        labels = np.concatenate([table["label"].to_numpy() for table in self.tables(("label",))]).astype(np.int32)
        seed, content = self.made.stream.seed, self.made.digest
        return Schedule(find(CCC), dict(self.parameters), seed, ((ALL,),), {ALL: labels}, content)

    def manifest_digest(self) -> str:
        """Return the digest of all that decides the images."""
        return self.made.digest

    def chunks(self) -> Iterator[Chunk]:
        """Yield runs of samples."""
        for number, first in enumerate(range(0, self.made.length, CHUNK)):
            count = min(CHUNK, self.made.length - first)
            yield Chunk(f"{ALL}-{number:06d}", ALL, first, count, count, count)

    def rows_of(self, chunk: Chunk) -> list[Row]:
        """Return the rows of a chunk."""
        return list(map(self.row, range(chunk.first, chunk.first + chunk.count)))

    def row(self, number: int) -> Row:
        """Return the row of a sample, counted from 0."""
        step, (first, second, *_), image = self.made.at(number)
        return Row(
            key=f"sample_{number}",
            offset=number,
            source_id=image.id,
            origin=image.origin,
            label=image.label,
            class_name=image.class_name,
            transform=f"{first}+{second}",
            version=1,
            level=self.phases[step],
            profile="imagenet",
            decoder="pillow",
            resize="pillow-bilinear",
            frames=1,
            height=ccc.SIDE,
            width=ccc.SIDE,
            encoder=str(self.encoder),
            status=manifests.OK,
        )

    def tables(self, columns: Sequence[str], where: manifests.Filters = manifests.NO_FILTERS) -> Iterator[pa.Table]:
        """Yield columns of the rows: ids, labels, pairs and their levels, and the status."""
        ids = pa.array([image.id for image in self.made.listing])
        labels = pa.array([image.label for image in self.made.listing], pa.int64())
        for number, (first, second, *_) in enumerate(self.made.steps):
            places = pa.array(self.made.order(number)[: self.made.length - number * self.made.stream.speed])
            same = {"transform": f"{first}+{second}", "level": self.phases[number], "status": manifests.OK}
            made = {
                "source_id": ids.take(places),
                "label": labels.take(places),
                **{name: pa.repeat(value, len(places)) for name, value in same.items()},
            }
            table = manifests.matching_rows(pa.table({name: made[name] for name in {*columns, *where}}), where)
            if table.num_rows:
                yield table.select(list(columns))

    def pick(self, row: Row) -> RenderedSample:
        """Return the sample of a row. Raise UserError if its photograph cannot be read."""
        return next(self.picked([row]))

    def picked(self, rows: Sequence[Row]) -> Iterator[RenderedSample]:
        """Yield the samples of rows, in order. Raise UserError if a photograph cannot be read."""
        places = [self.made.at(row.offset or 0) for row in rows]
        for row, pixels in zip(rows, self.made.rendered(places), strict=True):
            yield RenderedSample(row, pixels, Npy(), grain=True)


def open_ccc(source: str, given: Mapping[str, Any], seed: int, pixels: bool = False) -> CCCSamples:
    """Return a stream of CCC as a data set of clean images at a source, with the parameters of the protocol.

    Raises:
        UserError: A parameter, the source or the matrix is invalid.
    """
    parameters = checked_parameters(find(CCC), given)
    if parameters["matrix"] is None:
        raise UserError(
            "the protocol ccc needs an accuracy matrix: give the parameter matrix, the .npz file of robustshards "
            "ccc-matrix"
        )
    key = ccc.StreamKey(parameters["baseline"], parameters["speed"], seed)
    made = ccc_images(absolute(source), parameters["matrix"], key, parameters["images"], encode=not pixels)
    store = open_store(source)
    return CCCSamples(
        location=Location(source, pixels=pixels),
        store=store,
        name=os.path.basename(source.rstrip("/")),
        family_name=FAMILY.name,
        conditions=None,
        decoders={},
        resizers={},
        files=store,
        labels=made.labels,
        made=made,
        parameters={**parameters, "matrix": made.matrix[:12]},
    )
