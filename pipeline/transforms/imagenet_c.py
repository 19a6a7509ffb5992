"""ImageNet-C: corruptions of the prepared image at five severities.

Source: Hendrycks & Dietterich, ICLR 2019.
"""

from collections.abc import Iterable

import corruptions
from corruptions.catalogue import PROFILES, SEVERITIES, Transform
from pipeline.transforms.family import HUNDREDTHS, Condition, Family, Listing, Recognition, Render, Rendering

CITATION = """\
@inproceedings{hendrycks2019benchmarking,
  title = {Benchmarking Neural Network Robustness to Common Corruptions and Perturbations},
  author = {Hendrycks, Dan and Dietterich, Thomas},
  booktitle = {International Conference on Learning Representations (ICLR)},
  year = {2019}
}"""


def listing(kind: str, rows: Iterable[Transform]) -> Listing:
    """Return the table of published transforms: group, set and version of each."""
    rows = tuple(rows)
    return Listing(
        (kind, "group", "set", "version"),
        tuple((row.name, row.group, "benchmark" if row.benchmark else "validation", row.version) for row in rows),
        {row.name: {"group": row.group, "benchmark": row.benchmark, "version": row.version} for row in rows},
    )


def corrupted(condition: Condition, rendering: Rendering) -> Render:
    """Return the function that corrupts a prepared image, for every family of corruptions."""
    name, level = condition
    severity: float = level if level <= SEVERITIES[-1] else level / HUNDREDTHS
    return corruptions.corruptor(
        name, severity, profile=rendering.profile, channels=rendering.channels, options=rendering.options
    )


FAMILY = Family(
    name="corruptions",
    title="ImageNet-C: corruptions at five severities",
    names=corruptions.names("all"),
    version=lambda name: corruptions.get(name).version,
    render=corrupted,
    groups={group: corruptions.names(group) for group in corruptions.GROUPS},
    levels=SEVERITIES,
    real=corruptions.names("benchmark"),
    profiles=PROFILES,
    recognition=Recognition(
        ("<corruption>/<severity>/<class>/<file>", "<corruption>_<severity>/<class>/<file>"), other_names=True
    ),
    citation=CITATION,
    listing=lambda: listing("corruption", map(corruptions.get, corruptions.names("all"))),
)
