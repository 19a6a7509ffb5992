"""The public function that opens data sets."""

from __future__ import annotations

from pipeline.datasets.base import DataSet
from pipeline.datasets.opening import open_data_set
from robustshards._arguments import Location, location, optional_location
from robustshards._calls import public_call


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
