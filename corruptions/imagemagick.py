"""Motion blur by a selected backend: the project's own, or ImageMagick itself, called through Wand as published.

Wand is imported on first use.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels.smoothing import motion

INSTALL_HINT = (
    'motion="imagemagick" needs ImageMagick and Wand: install the library (apt install libmagickwand-dev, or '
    'brew install imagemagick) and run "pip install robustshards[imagemagick]", or use motion="native"'
)
"""How to install what the ImageMagick backend needs."""


def image_class() -> Any:
    """Return Wand's image class.

    Raises:
        ImportError: If Wand or the ImageMagick library is not installed.
    """
    try:
        from wand.image import Image
    except ImportError as error:
        raise ImportError(INSTALL_HINT) from error
    return Image


def motion_blur(image: NDArray[np.uint8], radius: int, sigma: float, angle: float) -> NDArray[np.uint8]:
    """Return an image blurred along a line by ImageMagick.

    Args:
        image: uint8 (H, W) or (H, W, 3).
        radius: Half the length of the line in pixels.
        sigma: Standard deviation of the weights along the line in pixels.
        angle: Direction in degrees.

    Returns:
        A new uint8 array of the same shape.

    Raises:
        ImportError: If Wand or the ImageMagick library is not installed.
    """
    # A single channel would become red, so a grey image is passed as three equal channels.
    colour = image if image.shape[2:] else np.repeat(image[..., None], 3, axis=2)
    with image_class().from_array(np.ascontiguousarray(colour)) as picture:
        picture.motion_blur(radius=radius, sigma=sigma, angle=angle)
        quanta = np.array(picture.export_pixels(channel_map="RGB", storage="short"), np.uint16)
    levels = (quanta // motion.QUANTUM).astype(np.uint8).reshape(colour.shape)
    return levels if image.shape[2:] else np.ascontiguousarray(levels[..., 0])


BACKENDS: Mapping[str, Callable[[NDArray[np.uint8], int, float, float], NDArray[np.uint8]]] = {
    "native": motion.motion_blur,
    "imagemagick": motion_blur,
}
"""Name of a backend -> its function of (image, radius, sigma, angle), which returns the blurred image."""
