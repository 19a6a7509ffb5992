"""ImageNet-C-bar and CIFAR-10-C-bar: ten corruptions each, unlike those of ImageNet-C, at five severities.

Source: Mintun, Kirillov & Xie, NeurIPS 2021.
"""

from collections.abc import Mapping

import numpy as np

import corruptions
from corruptions import c_bar
from corruptions.catalogue import SEVERITIES
from pipeline.transforms.family import Family, Listing, Recognition
from pipeline.transforms.imagenet_c import corrupted

CITATION = """\
@inproceedings{mintun2021interaction,
  title = {On Interaction Between Augmentations and Corruptions in Natural Corruption Robustness},
  author = {Mintun, Eric and Kirillov, Alexander and Xie, Saining},
  booktitle = {Advances in Neural Information Processing Systems (NeurIPS)},
  year = {2021}
}"""

DATA_SETS: Mapping[str, str] = {"imagenet": "imagenet-c-bar", "cifar": "cifar-10-c-bar"}
"""Profile -> data set that was published for it: its group, and its recipe."""

PUBLISHED: Mapping[str, tuple[str, ...]] = {
    profile: tuple(name for name, row in c_bar.CORRUPTIONS.items() if profile in row.levels) for profile in DATA_SETS
}
"""Profile -> its ten corruptions, in the order of shards."""


def _level_folders() -> dict[str, dict[str, int]]:
    """Return the names of the folders that the published script writes: corruption -> ``2.35`` -> severity."""
    levels = {name: c_bar.CORRUPTIONS[name].levels["imagenet"] for name in PUBLISHED["imagenet"]}
    return {name: {f"{level:.2f}": severity for severity, level in enumerate(each, 1)} for name, each in levels.items()}


def _listing() -> Listing:
    rows = c_bar.CORRUPTIONS.values()
    shown = {
        row.name: tuple(
            ", ".join(f"{level:g}" for level in row.levels.get(profile, ())) or "-" for profile in DATA_SETS
        )
        for row in rows
    }
    return Listing(
        ("corruption", *(f"levels of {name}" for name in DATA_SETS.values()), "version"),
        tuple((row.name, *shown[row.name], row.version) for row in rows),
        {
            row.name: {
                "levels": {name: list(row.levels[each]) for each, name in DATA_SETS.items() if each in row.levels},
                "version": row.version,
            }
            for row in rows
        },
    )


FAMILY = Family(
    name="c-bar",
    title="ImageNet-C-bar and CIFAR-10-C-bar: ten other corruptions each, at five severities",
    names=corruptions.names("c-bar"),
    version=lambda name: c_bar.CORRUPTIONS[name].version,
    render=corrupted,
    groups={data_set: PUBLISHED[profile] for profile, data_set in DATA_SETS.items()},
    levels=SEVERITIES,
    profiles=tuple(DATA_SETS),
    published=PUBLISHED,
    array_labels=np.int64,
    recognition=Recognition(("<corruption>/<level of ImageNet-C-bar>/<class>/<file>",), level_folders=_level_folders()),
    citation=CITATION,
    listing=_listing,
)
