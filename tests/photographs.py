"""The photographs that scikit-image bundles, as an ImageFolder: for the demo and for the tests."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import skimage.data

CLASSES = {
    "animals": ("chelsea.png",),
    "people": ("astronaut.png", "camera.png"),
    "sky": ("hubble_deep_field.jpg", "moon.png", "rocket.jpg"),
    "textures": ("brick.png", "grass.png", "gravel.png"),
    "things": ("coffee.png", "coins.png", "motorcycle_left.png"),
}
"""Class folder -> files of scikit-image's data folder. camera, moon, coins and the textures are grey."""


def write_photographs(folder: Path) -> None:
    """Copy the photographs to ``folder/class/file``."""
    for name, files in CLASSES.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copyfile(Path(skimage.data.__path__[0]) / file, folder / name / file)


if __name__ == "__main__":
    write_photographs(Path(sys.argv[1]))
