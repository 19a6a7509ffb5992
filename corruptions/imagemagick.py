"""Motion blur by ImageMagick itself, through Wand: what the published scripts called. Imported only when asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.kernels.motion import QUANTUM

INSTALL_HINT = (
    'motion="imagemagick" needs ImageMagick and Wand: install the library (apt install libmagickwand-6.q16-6, or '
    'brew install imagemagick) and "pip install robustshards[imagemagick]", or leave motion at "native"'
)


def image_class() -> Any:
    """Wand's image class. Raises ImportError with the install hint if Wand or the library is missing."""
    try:
        from wand.image import Image
    except ImportError as error:
        raise ImportError(INSTALL_HINT) from error
    return Image


def motion_blur(image: NDArray[np.uint8], radius: int, sigma: float, angle: float) -> NDArray[np.uint8]:
    """(H, W) or (H, W, 3) uint8, blurred along ``angle`` (degrees) by ImageMagick.

    A grey layer is given as three equal channels: Wand would take a single one for red.
    """
    colour = image if image.shape[2:] else np.repeat(image[..., None], 3, axis=2)
    with image_class().from_array(np.ascontiguousarray(colour)) as picture:
        picture.motion_blur(radius=radius, sigma=sigma, angle=angle)
        quanta = np.array(picture.export_pixels(channel_map="RGB", storage="short"), np.uint16)
    levels = (quanta // QUANTUM).astype(np.uint8).reshape(colour.shape)
    return levels if image.shape[2:] else np.ascontiguousarray(levels[..., 0])
