"""ImageNet-Syn2Nat: 40 candidate corruptions, 18 of which form the benchmark.

Source: Laugros, Caplier & Ospici, BMVC 2021.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

import corruptions
from corruptions import candidates
from corruptions.candidates.catalogue import SETTINGS
from pipeline.transforms.family import Condition, Draws, Family, Listing, Recognition
from pipeline.transforms.imagenet_c import corrupted

CITATION = """\
@inproceedings{laugros2021using,
  title = {Using Synthetic Corruptions to Measure Robustness to Natural Distribution Shifts},
  author = {Laugros, Alfred and Caplier, Alice and Ospici, Matthieu},
  booktitle = {British Machine Vision Conference (BMVC)},
  year = {2021}
}"""

CANDIDATES, SYN2NAT = corruptions.names("candidates"), corruptions.names("syn2nat")


def _ordered(names: Iterable[str]) -> tuple[str, ...]:
    """Return candidates in published order."""
    return tuple(sorted(names, key=CANDIDATES.index))


CATEGORIES: Mapping[str, tuple[str, ...]] = {
    category: _ordered(SYN2NAT[3 * index : 3 * index + 3])
    for index, category in enumerate(("mixed", "spatial", "blurs", "lighting", "fine-grain", "colour"))
}
"""Category -> its candidates in the benchmark. The names of the categories are published. That the benchmark lists
three candidates of each in turn is inferred: the paper shows the members of categories only in a figure."""

CATEGORY_OF: Mapping[str, str] = {name: category for category, names in CATEGORIES.items() for name in names}
"""Category of each candidate of the benchmark."""


def _draws(condition: Condition, seed: int, height: int, width: int) -> Draws:
    """Return the draws without fields, arrays with a value for each pixel. Only fields depend on an image's content."""
    candidate: Any = condition.transform
    drawn = corruptions.draw(np.zeros((height, width, 3), np.uint8), candidate, seed=seed)
    arrays = {name: value for name, value in drawn.items() if isinstance(value, np.ndarray)}
    small = {name: value.tolist() for name, value in arrays.items() if value.shape[:2] != (height, width)}
    return {name: small.get(name, value) for name, value in drawn.items() if name in small or name not in arrays}


def _listing() -> Listing:
    rows = [
        (row, CATEGORY_OF.get(row.name, ""), "benchmark" if row.name in SYN2NAT else "candidates")
        for row in candidates.CORRUPTIONS.values()
    ]
    return Listing(
        ("candidate", "category", "set", "version", "draws"),
        tuple((row.name, category, kind, row.version, ", ".join(row.keys)) for row, category, kind in rows),
        {
            row.name: {"category": category, "set": kind, "version": row.version, "draws": list(row.keys)}
            for row, category, kind in rows
        },
    )


FAMILY = Family(
    name="syn2nat",
    title="ImageNet-Syn2Nat: 40 candidate corruptions, 18 of which form the benchmark",
    names=CANDIDATES,
    version=lambda name: candidates.get(name).version,
    render=corrupted,
    groups={"candidates": CANDIDATES, "syn2nat": _ordered(SYN2NAT), **CATEGORIES},
    levels=(1,),
    profiles=tuple(SETTINGS),
    draws=_draws,
    recognition=Recognition(("<candidate>/<class>/<file>",), bare_level=1),
    citation=CITATION,
    listing=_listing,
)
