"""A running export: its data set, target, samples and counts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifests
from manifests import Row
from pipeline.datasets.base import DataSet
from pipeline.datasets.export.names import Classes, ClassFolders, class_folders
from pipeline.datasets.export.target import Target
from pipeline.datasets.findings import DamagedShardError
from pipeline.datasets.samples import Sample
from pipeline.errors import UserError
from pipeline.tasks.labels import Numbering
from pipeline.tasks.lists import IMAGENET
from pipeline.text import counted
from pipeline.transforms.family import Condition

VERIFY = "run robustshards verify"


@dataclass
class Survey:
    """A summary of a manifest: number of ``ok`` samples per condition, classes, and image sizes (height, width)."""

    conditions: dict[Condition, int] = field(default_factory=dict)
    classes: Classes = field(default_factory=Classes)
    shapes: set[tuple[int, int]] = field(default_factory=set)

    @property
    def samples(self) -> int:
        """The number of ``ok`` samples."""
        return sum(self.conditions.values())


@dataclass(kw_only=True)
class Export:
    """A running or finished export. ``passed_over`` is the number of failed samples, which are skipped."""

    data_set: DataSet
    target: Target
    survey: Survey
    wanted: Sequence[str] = ()
    samples: int = 0
    passed_over: int = 0
    warnings: list[str] = field(default_factory=list)

    @property
    def written(self) -> int:
        """Number of files written."""
        return self.target.written

    @property
    def there(self) -> int:
        """Number of files that already existed with the right content."""
        return self.target.there

    @cached_property
    def folders(self) -> ClassFolders:
        """The class folders. Raise UserError if a class name is invalid."""
        return class_folders(self.survey.classes, self.wanted)

    @cached_property
    def manifest_digest(self) -> str:
        """The sha256 of the manifest at the start of the export."""
        return self.data_set.manifest_digest()

    def facts(self) -> dict[str, Any]:
        """Return the results for JSON output."""
        names = ("written", "there", "samples", "passed_over", "warnings")
        return {name: getattr(self, name) for name in names}

    def lines(self) -> Iterator[str]:
        """Yield the results as lines of text: warnings, then a summary."""
        for warning in self.warnings:
            yield f"WARNING {warning}"
        failed = f"; skipped {counted(self.passed_over, 'failed sample')}" if self.passed_over else ""
        counts = f"wrote {counted(self.written, 'file')}, kept {counted(self.there, 'existing file')}"
        yield f"exported {counted(self.samples, 'sample')}: {counts}{failed}"

    def conditions(self) -> Iterator[tuple[Condition, Iterator[Row]]]:
        """Yield each condition with its rows, in manifest order."""
        for (transform, level), rows in groupby(self.data_set.rows(), key=lambda row: (row.transform, row.level)):
            yield Condition(transform, level), rows

    def rows(self, condition: Condition) -> Iterator[Row]:
        """Yield the rows of one condition."""
        return self.data_set.rows({"transform": [condition.transform], "level": [condition.level]})

    def read(self, rows: Iterable[Row]) -> Iterator[Sample]:
        """Yield the samples of rows in order; skip and count failed ones. Raise UserError if a shard is damaged."""

        def noted() -> Iterator[Row]:
            for row in rows:
                self.passed_over += row.status != manifests.OK
                yield row

        try:
            for sample in self.data_set.intact_samples(noted()):
                self.samples += 1
                yield sample
        except FileNotFoundError as error:
            raise UserError(f"{error.filename or error} is missing: {VERIFY}") from None
        except DamagedShardError as error:
            raise UserError(f"{error}: {VERIFY}") from error

    def check(self, paths: Iterable[str]) -> None:
        """Raise UserError if the number of exported files is wrong or the data set was changed during the export."""
        if self.samples != self.survey.samples or self.data_set.manifest_digest() != self.manifest_digest:
            raise UserError(
                f"{self.data_set.store.root} was changed during the export: export it again, to an empty folder"
            )
        found, expected = self.target.count(paths), self.written + self.there
        if found != expected:
            raise UserError(
                f"{self.target.store.root} contains {found} files instead of {expected}: files were added or removed "
                "during the export; export again, to an empty folder"
            )


def survey(data_set: DataSet) -> Survey:
    """Summarise a manifest. Raise UserError if there is nothing to export, or if rows are out of order."""
    is_imagenet = data_set.labels is not None and data_set.labels.numbering == Numbering.IMAGENET
    found, last = Survey(classes=Classes(known=IMAGENET if is_imagenet else ())), None
    for row in data_set.rows():
        condition = Condition(row.transform, row.level)
        if condition != last and condition in found.conditions:
            root = data_set.store.root
            raise UserError(f"the manifest of {root} has rows of {condition} that are not consecutive: {VERIFY}")
        last, ok = condition, row.status == manifests.OK
        found.conditions[condition] = found.conditions.get(condition, 0) + int(ok)
        found.classes.add(row)
        if ok:
            found.shapes.add((row.height or 0, row.width or 0))
    if not found.samples:
        raise UserError(f"{data_set.store.root} has no samples to export: all of them failed")
    return found


def pixels_of(sample: Sample) -> NDArray[np.uint8]:
    """Decode a sample. Raise UserError if it cannot be decoded."""
    try:
        pixels = sample.pixels()
    except ValueError as error:
        raise UserError(f"cannot decode {sample.row.key} in {sample.row.shard} ({error}): {VERIFY}") from error
    if pixels.dtype != np.uint8:
        raise UserError(f"{sample.row.key} has 16 bits, but exports have 8: attack with --bits 8, or read the shards")
    return pixels
