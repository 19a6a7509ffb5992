"""A drop-in for the package imagecorruptions 1.1.2, with its signatures, order, errors and draws.

    from robustshards.imagecorruptions import corrupt, get_corruption_names

The pixels are those of the profile "detection". Random numbers come from NumPy's global generator, in the published
order, so that ``np.random.seed(0)`` gives the pixels of the package. Compiled code is imported by the first call.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustshards._process import preserve_process

NAMES = (
    "gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur", "zoom_blur",
    "snow", "frost", "fog", "brightness", "contrast", "elastic_transform", "pixelate", "jpeg_compression",
    "speckle_noise", "gaussian_blur", "spatter", "saturate",
)  # fmt: skip
"""All corruptions, in the order of their numbers."""

SUBSETS = {
    "common": slice(15),
    "validation": slice(15, None),
    "all": slice(None),
    "noise": slice(3),
    "blur": slice(3, 7),
    "weather": slice(7, 11),
    "digital": slice(11, 15),
}
"""Subset -> its part of NAMES."""

SMALLEST = 32
"""Smallest accepted side in pixels."""


def corrupt(
    image: NDArray[np.uint8], severity: int = 1, corruption_name: str | None = None, corruption_number: int = -1
) -> NDArray[np.uint8]:
    """Return a corrupted image, as the function of this name of imagecorruptions.

    Args:
        image: uint8 array, RGB (H, W, 3), or grey (H, W) or (H, W, 1). Both sides must be at least 32 pixels.
        severity: Severity, 1..5.
        corruption_name: Name of the corruption.
        corruption_number: Its position in ``get_corruption_names("all")``, used if no name is given.

    Returns:
        A new uint8 array (H, W, 3), also for grey images.

    Raises:
        AttributeError: If the image or the severity is invalid.
        ValueError: If neither name nor number is given.
        KeyError: If the name is unknown.
        IndexError: If the number is unknown.
    """
    if not isinstance(image, np.ndarray):
        raise AttributeError(f"image must be a numpy array, not {type(image).__name__}")
    if image.dtype.type is not np.uint8:
        raise AttributeError(f"image must be uint8, not {image.dtype}")
    if image.ndim not in (2, 3):
        raise AttributeError(f"image must be (H, W) or (H, W, channels), not of shape {image.shape}")
    if min(image.shape[:2]) < SMALLEST:
        raise AttributeError(f"image must be at least {SMALLEST} x {SMALLEST}, not of shape {image.shape}")
    if image.shape[2:] not in ((), (1,), (3,)):
        raise AttributeError(f"image must have 1 or 3 channels, not {image.shape[2]}")
    if severity not in (1, 2, 3, 4, 5):
        raise AttributeError(f"severity must be an integer in 1..5, not {severity!r}")
    if corruption_name is None and corruption_number == -1:
        raise ValueError("either corruption_name or corruption_number must be passed")
    number = corruption_number
    if corruption_name is not None:
        if corruption_name not in NAMES:
            raise KeyError(corruption_name)
        number = NAMES.index(corruption_name)
    name: Any = NAMES[number]
    level: Any = operator.index(severity)
    with preserve_process():
        import corruptions
    # The methods of this generator are the functions of np.random, and np.random.seed seeds it.
    generator: np.random.RandomState = np.random.random_sample.__self__  # type: ignore[attr-defined]
    return corruptions.corrupt(image, name, level, profile="detection", rng=generator)


def get_corruption_names(subset: str = "common") -> list[str]:
    """Return the names of a subset, as the function of this name of imagecorruptions.

    Args:
        subset: ``common`` (15), ``validation`` (4), ``all`` (19), ``noise``, ``blur``, ``weather`` or ``digital``.

    Raises:
        ValueError: If the subset is unknown.
    """
    if subset not in SUBSETS:
        raise ValueError(f"subset must be one of {', '.join(SUBSETS)}, not {subset!r}")
    return list(NAMES[SUBSETS[subset]])
