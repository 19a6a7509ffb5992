"""The comparison of a data set with photographs: which ImageNet-C is it?"""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from heapq import nsmallest

from corruptions.catalogue import SEVERITIES
from manifests import Row
from pipeline.datasets.base import OK_ROWS, DataSet
from pipeline.datasets.indexed import PIXELS
from pipeline.datasets.recognise.comparison import Comparison, Photographs, Theirs, coding_of
from pipeline.datasets.recognise.verdicts import UNKNOWN, Recognised, Recognition, judge
from pipeline.errors import UserError
from pipeline.images.encoders import Jpeg
from pipeline.sources.base import SourceImage
from pipeline.text import counted
from pipeline.transforms.family import Condition
from pipeline.transforms.imagenet_c import FAMILY

FEWEST = 4
"""Smallest number of images for a verdict."""

Chosen = dict[Condition, list[tuple[Row, SourceImage]]]
"""The rows of each condition to compare, and their photographs."""


def recognise(
    data: DataSet, photographs: Photographs, samples: int = 20, progress: Callable[[str], None] = lambda transform: None
) -> Recognition:
    """Compare a sample of the images of an ImageNet-C with ours of the same photographs.

    Args:
        data: The data set.
        photographs: The clean photographs. Images are matched with them by class and name, or by a name that occurs
            once; rows of arrays by their place.
        samples: Number of images of each condition. They are chosen by a hash of their ids.
        progress: Function called with each transform before it is compared.

    Raises:
        UserError: The data set has other transforms or is damaged, or no photograph belongs to its images.
    """
    if data.family_name != FAMILY.name:
        raise UserError(
            f"{data.name} has transforms of the family {data.family_name}: only images of ImageNet-C can be compared "
            "with photographs; omit --source"
        )
    chosen, found = _chosen(data, photographs, samples), dict[Condition, Recognised]()
    for transform in dict.fromkeys(condition.transform for condition in chosen):
        progress(transform)
        comparison = Comparison(transform, photographs) if transform in FAMILY.names else None
        found |= {each: _recognised(data, each, chosen[each], comparison) for each in chosen if each[0] == transform}
    return Recognition(tuple(found.values()))


def _chosen(data: DataSet, photographs: Photographs, samples: int) -> Chosen:
    """Return rows of each condition that have photographs: of the same photographs, if the conditions have them."""

    @lru_cache(None)
    def rank(source_id: str) -> bytes:
        return hashlib.blake2b(source_id.encode()).digest()

    ids: dict[Condition, list[str]] = {}
    for table in data.tables(("transform", "level", "source_id", "encoder"), OK_ROWS):
        for transform, level, source_id, encoder in zip(*(each.to_pylist() for each in table.columns), strict=True):
            known = ids.setdefault(Condition(transform, level), [])
            if photographs.find(source_id, encoder == PIXELS):
                known.append(source_id)
    wanted = {condition: set(nsmallest(samples, known, key=rank)) for condition, known in ids.items()}
    if not any(wanted.values()):
        raise UserError(
            f"no image of {data.name} has the name of a photograph in the source: give the photographs of which it was "
            "made, for example the folder of the ImageNet validation images"
        )
    rows: Chosen = {condition: [] for condition in wanted}
    for row in data.rows({**OK_ROWS, "source_id": set().union(*wanted.values())}):
        photograph = photographs.find(row.source_id, row.encoder == PIXELS)
        if photograph and row.source_id in wanted[Condition(row.transform, row.level)]:
            rows[Condition(row.transform, row.level)].append((row, photograph))
    return rows


def _recognised(
    data: DataSet, condition: Condition, rows: Sequence[tuple[Row, SourceImage]], comparison: Comparison | None
) -> Recognised:
    """Return what the images of a condition are. Raise UserError if one is damaged."""
    if comparison is None or condition.level not in SEVERITIES:
        return Recognised(*condition, UNKNOWN, details=("not published",))
    images = [_read(data, row, photograph) for row, photograph in rows]
    sizes = Counter(image.pixels.shape for image in images)
    images = [image for image in images if image.pixels.shape == max(sizes, key=lambda shape: sizes[shape])]
    if len(images) < FEWEST:
        found = counted(len(images), "image")
        return Recognised(*condition, UNKNOWN, details=(f"{found} of one size with a photograph, {FEWEST} are needed",))
    measured = comparison.measure(condition.level, images)
    if measured.misfit > 1 and not comparison.shows_photographs(images):
        return Recognised(*condition, UNKNOWN, details=("most images do not show the photographs of their names",))
    verdict, sure, details = judge(measured)
    return Recognised(
        *condition,
        verdict,
        sure,
        details,
        images=len(images),
        distance=float(measured.distances[SEVERITIES.index(condition.level)]),
        own=measured.own,
        deviation=None if measured.exact else float(measured.deviations.min()),
    )


def _read(data: DataSet, row: Row, photograph: SourceImage) -> Theirs:
    try:
        sample = data.pick(row)
        pixels = sample.pixels()
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {row.key}: {error}; run robustshards verify") from error
    return Theirs(photograph, pixels, coding_of(sample.payload()) if sample.suffix == Jpeg.suffix else None)
