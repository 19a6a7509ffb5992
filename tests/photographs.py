"""The photographs that scikit-image bundles, as an ImageFolder: for the demo and for the tests."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import skimage.data

CLASSES: Mapping[str, Sequence[str]] = {
    "animals": ("chelsea.png",),
    "people": ("astronaut.png", "camera.png"),
    "sky": ("hubble_deep_field.jpg", "moon.png", "rocket.jpg"),
    "textures": ("brick.png", "grass.png", "gravel.png"),
    "things": ("coffee.png", "coins.png", "motorcycle_left.png"),
}
"""Class folder -> files of scikit-image's data folder. camera, moon, coins and the textures are grey."""

EACH_ITS_OWN: Mapping[str, Sequence[str]] = {
    Path(file).stem: (file,) for files in CLASSES.values() for file in sorted(files)
}
"""Which photograph is it? What the demo's classifier learns to tell."""


def write_photographs(folder: Path, classes: Mapping[str, Sequence[str]] = CLASSES) -> None:
    """Copy the photographs to ``folder/class/file``."""
    for name, files in classes.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copyfile(Path(skimage.data.__path__[0]) / file, folder / name / file)


if __name__ == "__main__":
    write_photographs(Path(sys.argv[1]), EACH_ITS_OWN)
