"""The small part of the published outputs that is committed, so that a checkout alone can test parity.

``python -m tests.golden.published FOLDER`` extracts it from the complete reference files, ``imagenet_c.npz``,
``imagenet_p.npz`` and ``ccc.npz``.
"""

import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "published"
"""Folder of the committed part."""

PROFILES = ("tiny", "cifar")
"""Profiles of 64 and 32 pixels."""

KEPT_SEVERITIES = {"tiny": {"3"}, "cifar": {"1", "3", "5"}}
"""Profile -> severities of ImageNet-C that are committed, of the first image."""


def kept_corruption(key: str) -> bool:
    """Return whether to commit an output of ImageNet-C: ``profile/image/name/severity`` or ``.../input``."""
    profile, image, *rest = key.split("/")
    return image == "0" and profile in PROFILES and (rest == ["input"] or rest[-1] in KEPT_SEVERITIES[profile])


def kept_perturbation(key: str, length: int | None) -> bool:
    """Return whether to commit an output of ImageNet-P.

    For 64 pixels this is the last frame of each sequence, for 32 pixels the second and the last.
    """
    profile, _, *rest = key.split("/")
    if profile not in PROFILES:
        return False
    frames = {str((length or 0) - 1), *(["1"] if profile == "cifar" else [])}
    return len(rest) == 1 or rest[-1] == "length" or rest[-1] in frames


def kept_ccc(key: str) -> bool:
    """Return whether to commit a part of CCC: interpolated parameters, paths and crops, but no images and walks."""
    return key.partition("/")[0] in ("table", "path", "crop")


def main(folder: Path) -> None:
    """Write the committed part of all files."""
    FOLDER.mkdir(exist_ok=True)
    with np.load(folder / "imagenet_c.npz") as archive:
        np.savez_compressed(FOLDER / "imagenet_c.npz", **{key: archive[key] for key in archive if kept_corruption(key)})
    with np.load(folder / "imagenet_p.npz") as archive:
        lengths = {key.rpartition("/")[0]: int(archive[key]) for key in archive if key.endswith("/length")}
        kept = [key for key in archive if kept_perturbation(key, lengths.get(key.rpartition("/")[0]))]
        np.savez_compressed(FOLDER / "imagenet_p.npz", **{key: archive[key] for key in kept})
    with np.load(folder / "ccc.npz") as archive:
        np.savez_compressed(FOLDER / "ccc.npz", **{key: archive[key] for key in archive if kept_ccc(key)})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
