"""Open data sets."""

from __future__ import annotations

from pipeline.datasets.base import DataSet
from pipeline.datasets.opening import open_data_set
from robustshards._arguments import Location, location, optional_location
from robustshards._calls import public_call


def open(folder: Location, data: Location | None = None) -> DataSet:
    """Open a data set that was built or indexed.

    Args:
        folder: Path or URL of the data set: the ``out`` of a build or of an index.
        data: Path or URL of the files of an index. Needed where they are outside of the index's folder and this user
            did not make the index on this machine.

    Returns:
        The data set. ``samples()`` yields its samples, ``rows()`` the rows of its manifest, ``conditions`` are the
        transforms and levels that it holds. Images are read when they are asked for.

    Raises:
        UserError: There is no data set in the folder, or nobody has said where the files of an index are. Reading an
            unfinished data set raises it, too.
    """
    with public_call():
        return open_data_set(location(folder, "folder"), optional_location(data, "data"))
