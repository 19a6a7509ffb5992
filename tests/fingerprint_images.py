"""Writes the images that decoders are told apart by: ``python -m tests.fingerprint_images FOLDER``.

Their bytes ship with the package and are not written again: a new set would change every fingerprint.
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

VARIANTS = {
    "444": {"subsampling": 0},
    "422": {"subsampling": 1},
    "420": {"subsampling": 2},
    "420-progressive": {"subsampling": 2, "progressive": True},
    "420-coarse": {"subsampling": 2, "quality": 20},
}
SIZES = {"even": (64, 80), "odd": (61, 83)}
"""Height and width: odd ones show how a decoder treats the last row and column of chroma."""


def picture(height: int, width: int) -> np.ndarray:
    """Waves of different lengths in each channel, sharp colour edges and a little noise."""
    y, x = np.mgrid[0:height, 0:width]
    waves = [127 + 100 * np.sin(x / 3 + y / 9), 127 + 100 * np.cos(y / 5), 127 + 100 * np.sin((x + y) / 7)]
    image = np.stack(waves, axis=-1)
    image[10:30, 15:45] = (230, 20, 40)
    image[25:50, 35:70] = (10, 60, 240)
    noise = np.random.RandomState(0).randint(-12, 13, image.shape)
    return np.clip(image + noise, 0, 255).astype(np.uint8)


def write_images(folder: Path) -> None:
    """One file for each variant and size, and grey ones."""
    folder.mkdir(parents=True, exist_ok=True)
    for size, (height, width) in SIZES.items():
        image = Image.fromarray(picture(height, width))
        for variant, settings in VARIANTS.items():
            image.save(folder / f"{variant}-{size}.jpg", **{"quality": 85, **settings})
        image.convert("L").save(folder / f"grey-{size}.jpg", quality=85)


if __name__ == "__main__":
    write_images(Path(sys.argv[1]))
