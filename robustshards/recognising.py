"""The public function that recognises an ImageNet-C."""

from __future__ import annotations

from pipeline.datasets.base import DataSet
from pipeline.datasets.opening import open_data_set
from pipeline.datasets.recognise import recognise as comparing
from pipeline.datasets.recognise.comparison import KEPT, Photographs
from pipeline.datasets.recognise.verdicts import Recognition
from pipeline.settings import integer
from robustshards._arguments import Location, location
from robustshards._calls import public_call


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
    with public_call():
        number = integer(comparing.FEWEST, KEPT).checked(samples, "samples")
        opened = data if isinstance(data, DataSet) else open_data_set(location(data, "data"))
        return comparing.recognise(opened, Photographs(location(source, "source")), number)
