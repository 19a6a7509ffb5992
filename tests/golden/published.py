"""The small part of the published outputs that travels with the project, so that a copy of it alone tests parity.

``python -m tests.golden.published FOLDER`` takes it from the whole reference files, ``imagenet_c.npz`` and
``imagenet_p.npz``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "published"

BENCHMARK = (
    *("gaussian_noise", "shot_noise", "impulse_noise"),
    *("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    *("snow", "frost", "fog", "brightness"),
    *("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
)
EXTRA = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
"""The corruptions of ImageNet-C in their published order, and those of its validation."""

PROFILES = ("tiny", "cifar")
"""64 and 32 pixels."""

KEPT_SEVERITIES = {"tiny": {"3"}, "cifar": {"1", "3", "5"}}
"""Of ImageNet-C, of the first image."""


def kept_corruption(key: str) -> bool:
    """Whether an output of ImageNet-C is in the small part: ``profile/image/name/severity``, or ``.../input``."""
    profile, image, *what = key.split("/")
    return image == "0" and profile in PROFILES and (what == ["input"] or what[-1] in KEPT_SEVERITIES[profile])


def kept_perturbation(key: str, length: int | None) -> bool:
    """Whether an output of ImageNet-P is: of 64 pixels the last frame of each sequence, of 32 pixels two of them."""
    profile, _, *what = key.split("/")
    if profile not in PROFILES:
        return False
    frames = {str((length or 0) - 1), *(["1"] if profile == "cifar" else [])}
    return len(what) == 1 or what[-1] == "length" or what[-1] in frames


def main(folder: Path) -> None:
    """Write the small part of both files."""
    FOLDER.mkdir(exist_ok=True)
    with np.load(folder / "imagenet_c.npz") as archive:
        np.savez_compressed(FOLDER / "imagenet_c.npz", **{key: archive[key] for key in archive if kept_corruption(key)})
    with np.load(folder / "imagenet_p.npz") as archive:
        lengths = {key.rpartition("/")[0]: int(archive[key]) for key in archive if key.endswith("/length")}
        kept = [key for key in archive if kept_perturbation(key, lengths.get(key.rpartition("/")[0]))]
        np.savez_compressed(FOLDER / "imagenet_p.npz", **{key: archive[key] for key in kept})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
