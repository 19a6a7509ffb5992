"""An export under way: what it is of, the samples one after another, and what it has come to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifests
from manifests import Row
from pipeline.datasets.base import DamagedShardError, DataSet
from pipeline.datasets.export.names import Classes, ClassFolders, class_folders
from pipeline.datasets.export.target import Target
from pipeline.datasets.paths import MANIFEST_FILE, file_digest
from pipeline.datasets.samples import Sample
from pipeline.errors import UserError
from pipeline.transforms.family import Condition

VERIFY = "run robustshards verify"


@dataclass
class Survey:
    """What a manifest holds: ok samples of each condition, classes, and the sizes (height, width) of images."""

    conditions: dict[Condition, int] = field(default_factory=dict)
    classes: Classes = field(default_factory=Classes)
    shapes: set[tuple[int, int]] = field(default_factory=set)

    @property
    def samples(self) -> int:
        """The number of ok samples."""
        return sum(self.conditions.values())


@dataclass(kw_only=True)
class Export:
    """An export: from where, to where, and what it has come to. ``passed_over`` counts failed samples."""

    data_set: DataSet
    target: Target
    survey: Survey
    wanted: Sequence[str] = ()
    samples: int = 0
    passed_over: int = 0
    warnings: list[str] = field(default_factory=list)

    @property
    def written(self) -> int:
        """Files that were written."""
        return self.target.written

    @property
    def there(self) -> int:
        """Files that were there with the right content."""
        return self.target.there

    @cached_property
    def folders(self) -> ClassFolders:
        """The class folders. Raises UserError for names that are refused."""
        return class_folders(self.survey.classes, self.wanted)

    @cached_property
    def manifest_digest(self) -> str:
        """The sha256 of the manifest when the export began."""
        return manifest_digest(self.data_set)

    def facts(self) -> dict[str, Any]:
        """For machines."""
        names = ("written", "there", "samples", "passed_over", "warnings")
        return {name: getattr(self, name) for name in names}

    def lines(self) -> Iterator[str]:
        """For people: warnings, then what it came to."""
        for warning in self.warnings:
            yield f"WARNING {warning}"
        failed = f"; {self.passed_over:,} failed samples passed over" if self.passed_over else ""
        yield f"wrote {self.written:,} files, {self.there:,} were there, of {self.samples:,} samples{failed}"

    def conditions(self) -> Iterator[tuple[Condition, Iterator[Row]]]:
        """Yield each condition and its rows, in the manifest's order."""
        for (transform, level), rows in groupby(self.data_set.rows(), key=lambda row: (row.transform, row.level)):
            yield Condition(transform, level), rows

    def rows(self, condition: Condition) -> Iterator[Row]:
        """Yield the rows of one condition."""
        return self.data_set.rows({"transform": [condition.transform], "level": [condition.level]})

    def read(self, rows: Iterable[Row]) -> Iterator[Sample]:
        """Yield the samples of rows in their order; failed ones are skipped. Raises UserError for unsound shards."""
        for shard, group in groupby(rows, key=lambda row: row.shard):
            some = list(group)
            self.pass_over(sum(row.status != manifests.OK for row in some))
            try:
                for finding in self.data_set.read(shard, some):
                    if finding.faults or not finding.sample.intact:
                        raise UserError(f"{finding.sample.row.key} in {shard} is not what was built: {VERIFY}")
                    self.samples += 1
                    yield finding.sample
            except FileNotFoundError:
                raise UserError(f"{shard} is missing: {VERIFY}") from None
            except DamagedShardError as error:
                raise UserError(f"{error}: {VERIFY}") from error

    def pass_over(self, failed: int) -> None:
        """Count failed samples, which have no place in an export."""
        self.passed_over += failed

    def check(self, places: Iterable[str]) -> None:
        """Compare what is there now with what was asked for. Raises UserError where they differ."""
        if self.samples != self.survey.samples or manifest_digest(self.data_set) != self.manifest_digest:
            raise UserError(
                f"{self.data_set.store.root} was changed during the export: choose an empty folder for what it is now"
            )
        found, expected = self.target.count(places), self.written + self.there
        if found != expected:
            raise UserError(
                f"{self.target.store.root} holds {found} files where this export has {expected}: files were added or "
                "removed; choose an empty folder"
            )


def survey(data_set: DataSet) -> Survey:
    """Read a manifest through. Raises UserError where there is nothing to export, or rows are out of order."""
    found, last = Survey(), None
    for row in data_set.rows():
        condition = Condition(row.transform, row.level)
        if condition != last and condition in found.conditions:
            raise UserError(f"the manifest of {data_set.store.root} has rows of {condition} in two places: {VERIFY}")
        last, ok = condition, row.status == manifests.OK
        found.conditions[condition] = found.conditions.get(condition, 0) + int(ok)
        found.classes.see(row)
        if ok:
            found.shapes.add((row.height or 0, row.width or 0))
    if not found.samples:
        raise UserError(f"{data_set.store.root} has no sound sample: there is nothing to export")
    return found


def manifest_digest(data_set: DataSet) -> str:
    """Return the sha256 of a data set's manifest, in hexadecimal."""
    return file_digest(data_set.store.path(MANIFEST_FILE))


def pixels_of(sample: Sample) -> NDArray[np.uint8]:
    """Return what a reader gets of a sample. Raises UserError for a payload that cannot be decoded."""
    try:
        return sample.pixels()
    except ValueError as error:
        raise UserError(f"{sample.row.key} in {sample.row.shard} cannot be decoded ({error}): {VERIFY}") from error
