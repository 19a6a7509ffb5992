"""The photographs of scikit-image as an ImageFolder, for the demos and the tests.

``python -m tests.photographs FOLDER [imagenet]`` writes them: one class each, or those that show classes of ImageNet.
"""

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
"""Class folder -> files in scikit-image's data folder. camera, moon, coins and the textures are grey."""

ONE_CLASS_EACH: Mapping[str, Sequence[str]] = {
    Path(file).stem: (file,) for files in CLASSES.values() for file in sorted(files)
}
"""One class per photograph, for the demo's classifier."""

IMAGENET: Mapping[str, Sequence[str]] = {
    "n02123045": ("chelsea.png",),
    "n03773504": ("rocket.jpg",),
    "n03785016": ("motorcycle_left.png",),
    "n04326547": ("brick.png",),
    "n04485082": ("camera.png",),
    "n07920052": ("coffee.png",),
}
"""WordNet id -> photographs that show this class of ImageNet: tabby, missile, moped, stone wall, tripod, espresso."""


def write_photographs(folder: Path, classes: Mapping[str, Sequence[str]] = CLASSES) -> None:
    """Copy the photographs to ``folder/class/file``."""
    for name, files in classes.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copyfile(Path(skimage.data.__path__[0]) / file, folder / name / file)


if __name__ == "__main__":
    write_photographs(Path(sys.argv[1]), IMAGENET if sys.argv[2:] == ["imagenet"] else ONE_CLASS_EACH)
