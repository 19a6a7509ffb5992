"""Made-up CIFAR-100 and Icons-50, complete in their classes."""

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from pipeline.sources.cifar_subclasses import FINE_CLASSES
from tests.factories.layouts import write_pickle

STYLES = ("apple", "google", "microsoft")
SUBTYPES = ("duck", "plain_thing")
"""A subtype that the protocol holds out, and one with an underscore that it does not."""

Icon = tuple[int, str, str, str]
"""Class, style, rendition and subtype."""


def write_cifar_100(folder: Path, test: int = 5, train: int = 20) -> Path:
    """Write both batches with so many images of each fine class. The grey level of an image is its fine class."""
    label = {fine: coarse for coarse, numbers in enumerate(FINE_CLASSES.values()) for fine in numbers}
    for name, count in (("test", test), ("train", train)):
        fine = [index % 100 for index in range(100 * count)]
        rows = np.repeat(np.array(fine, np.uint8)[:, None], 3 * 32 * 32, axis=1)
        content = {"data": rows, "fine_labels": fine, "coarse_labels": [label[number] for number in fine]}
        write_pickle(folder / name, content)
    return folder


def icons(classes: int = 50) -> list[Icon]:
    """Return the icons of the made-up set, in no particular order. Those of Google have two renditions."""
    return [
        (label, style, rendition, subtype)
        for subtype in SUBTYPES
        for label in reversed(range(classes))
        for style in STYLES
        for rendition in (("1", "2") if style == "google" else ("1",))
    ]


def icon_pixels(icon: Icon) -> np.ndarray:
    """Return the pixels of an icon: its class, style and subtype as levels of the three channels."""
    label, style, rendition, subtype = icon
    levels = (label, 10 * STYLES.index(style) + int(rendition), SUBTYPES.index(subtype))
    return np.broadcast_to(np.array(levels, np.uint8), (32, 32, 3)).copy()


def class_folder(label: int) -> str:
    return f"icon{label:03d}"


def write_icon_folders(root: Path, classes: int = 50) -> Path:
    for icon in icons(classes):
        label, style, rendition, subtype = icon
        path = root / class_folder(label) / f"{style}_{rendition}_{subtype}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(icon_pixels(icon)).save(path)
    return root


def icon_arrays(classes: int = 50) -> dict[str, Any]:
    """Return the content of ``Icons-50.npy``."""
    every = icons(classes)
    return {
        "class": [icon[0] for icon in every],
        "style": [icon[1] for icon in every],
        "rendition": [icon[2] for icon in every],
        "subtype": [icon[3] for icon in every],
        "image": np.ascontiguousarray(np.stack([icon_pixels(icon) for icon in every]).transpose(0, 3, 1, 2)),
    }


def write_icon_array(folder: Path, content: dict[str, Any] | None = None) -> Path:
    """Write ``Icons-50.npy`` as NumPy writes a dictionary."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "Icons-50.npy", np.array(icon_arrays() if content is None else content, dtype=object))
    return folder
