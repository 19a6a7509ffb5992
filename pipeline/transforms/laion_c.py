"""LAION-C: six distortions at five intensities, two of them made of other photographs.

Source: Li, Klein, Brendel, Geirhos & Zimmermann, ICML 2025.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import corruptions
from corruptions import laion_c
from corruptions.catalogue import SEVERITIES
from corruptions.laion_c.tiles import Tiled, tiles_of
from corruptions.preparation import Steps
from pipeline.images.resizers import prepare
from pipeline.transforms.family import BankNeeds, Condition, Family, Image, Listing, Recognition, Render, Rendering
from pipeline.transforms.imagenet_c import corrupted

CITATION = """\
@inproceedings{li2025laionc,
  title = {LAION-C: An Out-of-Distribution Benchmark for Web-Scale Vision Models},
  author = {Li, Fanfei and Klein, Thomas and Brendel, Wieland and Geirhos, Robert and Zimmermann, Roland S.},
  booktitle = {International Conference on Machine Learning (ICML)},
  year = {2025}
}"""

SIDE, RESIZED, WIDE = 224, 256, 252
"""Side of the images, shorter side before the crop, and that where mosaics need a multiple of 6 or 28, in pixels."""

FOLDERS = {f"intensity_level_{severity}": severity for severity in SEVERITIES}
"""Folder of the published data set -> severity."""


class Views(NamedTuple):
    """A photograph prepared as all images, and as mosaics of some severities need it: a square of WIDE pixels."""

    plain: Image
    wide: Image


def prepare_views(photograph: Image, steps: Steps, resize: str) -> Views:
    """Return both views of a photograph."""
    wide = (("shorter_side", WIDE), ("center_crop", WIDE))
    return Views(prepare(photograph, steps, resize), prepare(photograph, wide, resize))


def _middle(image: Image) -> Image:
    """Return the middle of a wide view."""
    edge = (WIDE - SIDE) // 2
    return np.ascontiguousarray(image[edge:-edge, edge:-edge])


def _render(condition: Condition, rendering: Rendering) -> Render:
    """Return the function that renders a condition of both views."""
    parameters = laion_c.CORRUPTIONS[condition.transform].levels["imagenet"][condition.level - 1]
    tiled = parameters if isinstance(parameters, Tiled) else None
    tiles = rendering.bank.get(str(tiled.side)) if tiled else None
    apply = corrupted(condition, replace(rendering, options=replace(rendering.options, bank=tiles)))

    def render(views: Views, seed: int) -> Image:
        if views.plain.shape[:2] != (SIDE, SIDE):
            height, width = views.plain.shape[:2]
            raise ValueError(
                f"LAION-C needs images of {SIDE} x {SIDE} pixels, not {width} x {height}: keep its prepare.steps"
            )
        if condition.transform != "mosaic" or tiled is None or RESIZED % tiled.side == 0:
            return apply(views.plain, seed)
        if SIDE % tiled.side == 0:
            return apply(_middle(views.wide), seed)
        return _middle(apply(views.wide, seed))

    return render


def _sides(name: str) -> tuple[int, ...]:
    """Return the side of the tiles of a distortion at each severity; empty if it needs none."""
    return tuple(row.side for row in laion_c.CORRUPTIONS[name].levels["imagenet"] if isinstance(row, Tiled))


def _shown(parameters: Any) -> str:
    """Return the parameters of one severity for people."""
    if isinstance(parameters, Tiled):
        return str(parameters.count or parameters.side)
    return (
        "-".join(map(str, parameters))
        if isinstance(parameters, tuple)
        else str(getattr(parameters, "count", parameters))
    )


def _listing() -> Listing:
    rows = laion_c.CORRUPTIONS.values()
    levels = {row.name: [_shown(each) for each in row.levels["imagenet"]] for row in rows}
    return Listing(
        ("distortion", "levels", "tiles of other photographs", "version"),
        tuple(
            (row.name, ", ".join(levels[row.name]), "yes" if _sides(row.name) else "no", row.version) for row in rows
        ),
        {
            row.name: {"levels": levels[row.name], "tiles": list(_sides(row.name)), "version": row.version}
            for row in rows
        },
    )


TILED = {name: sides for name in laion_c.NAMES if (sides := _sides(name))}
"""Distortion that is made of tiles -> their side in pixels at each severity."""

SIDES = sorted({side for sides in TILED.values() for side in sides})
"""All sides of tiles."""

FAMILY = Family(
    name="laion-c",
    title="LAION-C: six distortions far from the training data, at five severities",
    names=corruptions.names("laion-c"),
    version=lambda name: laion_c.CORRUPTIONS[name].version,
    render=_render,
    groups={laion_c.GROUP: laion_c.NAMES},
    levels=SEVERITIES,
    profiles=("imagenet",),
    prepare=prepare_views,
    prepared_bytes=lambda views: sum(view.nbytes for view in views),
    bank=BankNeeds(
        title="tiles of other photographs",
        transforms=tuple(TILED),
        arrays=tuple(map(str, SIDES)),
        entries=lambda photograph, steps, resize: tiles_of(photograph, SIDES),
        own=True,
    ),
    task="laion-c",
    recognition=Recognition(
        ("<distortion>/intensity_level_<severity>/<superclass>/<file>",),
        level_folders=dict.fromkeys(laion_c.NAMES, FOLDERS),
        endings=rf"_({'|'.join(laion_c.NAMES)}|sticker|luminance)_[1-5]",
    ),
    citation=CITATION,
    listing=_listing,
)
