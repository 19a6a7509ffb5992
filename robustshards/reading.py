"""The public functions that read data sets: open and compare them, recognise an ImageNet-C, tell seeds of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.datasets.base import DataSet
from pipeline.datasets.opening import open_data_set
from pipeline.errors import UserError
from pipeline.recipes import library
from pipeline.recipes.schema import Recipe
from pipeline.settings import integer
from pipeline.transforms.family import Condition
from robustshards._calls import Location, data_location, location, optional_location, public_call

if TYPE_CHECKING:
    from pipeline.datasets.compare import Comparison
    from pipeline.datasets.recognise.verdicts import Recognition


def open(
    folder: Location, data: Location | None = None, *, pixels: bool = False, cache: Location | None = None
) -> DataSet:
    """Open a data set that was built, indexed or rendered.

    Args:
        folder: Path or URL of the data set, which is the ``out`` of a build or the output of ``robustshards index``.
        data: Path or URL of the image files that an index describes, or of the source of a rendered data set. Required
            if they are outside of the folder, and another user or another machine made the index or the data set.
        pixels: For a rendered data set: skip its encoder and decoder, which is faster and gives other pixels.
        cache: For a rendered data set: folder in which prepared photographs are kept, or ``"off"``. Default: the user's
            cache folder.

    Returns:
        The data set. ``samples()`` yields its samples, ``rows()`` yields the rows of its manifest, and ``conditions``
        lists its transforms and levels. Images are read on demand.

    Raises:
        UserError: If the folder holds no data set, or ``data`` is required. Reading samples of an unfinished data set
            raises it as well.
    """
    with public_call():
        return open_data_set(
            location(folder, "folder"), optional_location(data, "data"), pixels, optional_location(cache, "cache")
        )


def compare(
    first: Location | DataSet, second: Location | DataSet, *, common: bool = False, published: bool = False
) -> Comparison:
    """Compare two data sets by their roots, and name the likely cause of each difference.

    Args:
        first: What ``open`` returns, path or URL of a data set or of a ``roots.json``, or the name of a shipped list of
            roots.
        second: The same for the other one.
        common: Whether conditions that only one of them has do not count as differences.
        published: Whether the second lists published images, of which only the pixels are compared.

    Returns:
        The comparison, which is true if the images and labels are the same.

    Raises:
        UserError: One of them cannot be read, or they have no condition in common.
    """
    from pipeline.datasets import compare as comparing

    with public_call():
        return comparing.compare(data_location(first).folder, data_location(second).folder, common, published)


def recognise(data: Location | DataSet, source: Location, *, samples: int = 20) -> Recognition:
    """Compare images of an ImageNet-C with images made of the same photographs, as ``index --source`` does.

    Args:
        data: What ``open`` returns, or path or URL of a data set, for example the output of ``robustshards index``.
        source: Path, URL or glob pattern of the clean photographs, which are found by their names.
        samples: Number of images compared for each transform and level, 4 to 200.

    Returns:
        The result. ``conditions`` has verdict, certainty and numbers of each transform and level; ``published`` is
        False if one of them is known to differ from the published images.

    Raises:
        UserError: If an argument is invalid, the data set has other transforms or is damaged, or none of its images
            has a photograph.
        UnreachableError: If an object store does not respond.
    """
    from pipeline.datasets.recognise import recognise as comparing
    from pipeline.datasets.recognise.comparison import KEPT, Photographs

    with public_call():
        number = integer(comparing.FEWEST, KEPT).checked(samples, "samples")
        opened = data if isinstance(data, DataSet) else open_data_set(location(data, "data"))
        return comparing.recognise(opened, Photographs(location(source, "source")), number)


def sample_seed(recipe: Location | Recipe | DataSet, source_id: str, transform: str, level: int) -> int:
    """Return the seed from which a build draws the random numbers of a sample.

    ``corrupt(prepared, row.transform, row.level, profile=row.profile, seed=seed)`` with the seed of a row of the
    manifest gives the pixels of its sample before encoding, where ``prepared`` is the clean image after the steps of
    the recipe. For sequences, ``perturb(photograph, row.transform, difficulty=row.level, profile=row.profile,
    seed=seed)`` does.

    Args:
        recipe: The recipe of the data set: what ``open`` or ``render`` returns, a ``Recipe``, the name of a shipped
            recipe, or the path of a .toml file, for example ``recipe.toml`` of a built data set.
        source_id: Id of the source image, which is the column ``source_id`` of the manifest.
        transform: Name of the transform.
        level: Level of the sample.

    Returns:
        The seed, 0 <= seed < 2**128.

    Raises:
        UserError: If an argument is invalid, or the data set has no recipe because other tools made it.
    """
    chosen = getattr(recipe, "recipe", recipe)
    if isinstance(chosen, DataSet):
        raise UserError(f"{chosen.name} has no recipe, since other tools made it: its seeds are unknown")
    if not isinstance(source_id, str) or not isinstance(transform, str):
        raise UserError(f"invalid source_id {source_id!r:.80} or transform {transform!r:.80}: pass a str")
    found = chosen if isinstance(chosen, Recipe) else library.load(location(chosen, "recipe"))
    return found.seed_of(source_id, Condition(transform, integer(0).checked(level, "level")))
