"""A data set together with clean images, for streams that mix both."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import chain, groupby

import pyarrow as pa

import manifests
from manifests import Row
from pipeline.datasets.base import Chunk, DataSet, Location
from pipeline.datasets.samples import Sample
from pipeline.errors import UserError
from pipeline.transforms.clean import CLEAN
from pipeline.transforms.family import Condition


@dataclass(frozen=True, kw_only=True, repr=False)
class WithClean(DataSet):
    """The samples of a data set, then those of its clean images. Other fields are those of the data set.

    Attributes:
        corrupted: The data set.
        clean: The clean images, whose only condition is ``none``.
    """

    corrupted: DataSet
    clean: DataSet

    @property
    def main(self) -> DataSet:
        """The data set without the clean images."""
        return self.corrupted

    @property
    def absolute_location(self) -> Location:
        """The location with absolute paths, for processes in other folders."""
        return self.corrupted.absolute_location._replace(clean=self.clean.absolute_location)

    def manifest_digest(self) -> str:
        """Return the digest of both manifests."""
        both = self.corrupted.manifest_digest() + self.clean.manifest_digest()
        return hashlib.sha256(both.encode()).hexdigest()

    def prepare_cache(self) -> str:
        """Create the caches of prepared photographs, and return what they will hold, as text."""
        return "; ".join(filter(None, (each.prepare_cache() for each in (self.corrupted, self.clean))))

    def rows(self, where: manifests.Filters = manifests.NO_FILTERS) -> Iterator[Row]:
        """Yield rows of both manifests."""
        return chain(self.corrupted.rows(where), self.clean.rows(where))

    def tables(self, columns: Sequence[str], where: manifests.Filters = manifests.NO_FILTERS) -> Iterator[pa.Table]:
        """Yield columns of both manifests."""
        return chain(self.corrupted.tables(columns, where), self.clean.tables(columns, where))

    def chunks(self) -> Iterator[Chunk]:
        """Yield the chunks of both, whose rows are counted from that of the data set."""
        yield from self.corrupted.chunks()
        for chunk in self.clean.chunks():
            yield replace(chunk, first=chunk.first + self._rows_before_clean)

    def rows_of(self, chunk: Chunk) -> list[Row]:
        """Return the rows of a chunk."""
        if chunk.condition != CLEAN:
            return self.corrupted.rows_of(chunk)
        return self.clean.rows_of(replace(chunk, first=chunk.first - self._rows_before_clean))

    def pick(self, row: Row) -> Sample:
        """Return the sample of one ``ok`` row. Raise UserError if it does not match the row."""
        return self._of(_is_clean(row)).pick(row)

    def picked(self, rows: Sequence[Row]) -> Iterator[Sample]:
        """Yield the samples of ``ok`` rows, in order."""
        for clean, group in groupby(rows, key=_is_clean):
            yield from self._of(clean).picked(list(group))

    def _of(self, clean: bool) -> DataSet:
        return self.clean if clean else self.corrupted

    @cached_property
    def _rows_before_clean(self) -> int:
        return sum(chunk.count for chunk in self.corrupted.chunks())


def _is_clean(row: Row) -> bool:
    return Condition(row.transform, row.level) == CLEAN


def with_clean(main: DataSet, clean: DataSet) -> WithClean:
    """Return a data set together with clean images. Raise UserError if they do not belong together."""
    if {*clean.counts()} != {CLEAN} or CLEAN in main.counts():
        raise UserError(
            f"{main.name} and {clean.name} are no corrupted and clean images: give a data set without clean ones, and "
            "as clean one that has nothing else, for example of the recipe imagenet-c-clean"
        )
    if main.labels and clean.labels and main.labels != clean.labels:
        raise UserError(
            f"the labels of {main.name} are {main.labels}, those of {clean.name} are {clean.labels}: make both from "
            "the same source"
        )
    shared = {each.name: getattr(main, each.name) for each in fields(DataSet)}
    conditions = None if main.conditions is None else (*main.conditions, CLEAN)
    location = main.location._replace(clean=clean.location)
    return WithClean(**shared | {"conditions": conditions, "location": location}, corrupted=main, clean=clean)
