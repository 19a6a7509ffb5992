"""Contact sheets for docs/, so that a person can look at what is made: ``python -m tests.sheets docs``."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import skimage.data
from PIL import Image, ImageDraw

import perturbations

LABEL_HEIGHT = 16
WIDTH = 1000


def perturbation_sheet(photograph: np.ndarray) -> Image.Image:
    """All 14 perturbations at their first, middle and last frame, two to a row."""
    tiles = []
    for name in perturbations.names("all"):
        frames = perturbations.perturb(photograph, name, seed=1)
        chosen = (0, len(frames) // 2, len(frames) - 1)
        label = f"{name}: frames {', '.join(map(str, chosen))}"
        tiles.append(labelled(np.concatenate([frames[index] for index in chosen], axis=1), label))
    rows = [np.concatenate(tiles[index : index + 2], axis=1) for index in range(0, len(tiles), 2)]
    return Image.fromarray(np.concatenate(rows))


def labelled(picture: np.ndarray, text: str) -> np.ndarray:
    """The picture under a line of text, with a margin."""
    height, width, _ = picture.shape
    page = Image.new("RGB", (width + 4, height + LABEL_HEIGHT + 4), "white")
    ImageDraw.Draw(page).text((2, 2), text, fill="black")
    page.paste(Image.fromarray(picture), (2, LABEL_HEIGHT))
    return np.asarray(page)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    sheet = perturbation_sheet(skimage.data.chelsea())
    smaller = sheet.resize((WIDTH, sheet.height * WIDTH // sheet.width), Image.Resampling.LANCZOS)
    smaller.quantize(255).save(folder / "imagenet-p.png", optimize=True)
