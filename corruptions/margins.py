"""Images with margins, which filters read."""

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray


def with_margins(image: NDArray[Any], before: int, after: int, border: int = cv2.BORDER_REFLECT_101) -> NDArray[Any]:
    """Return an image or a layer with margins, as rows (before + H + after, (before + W + after) * C).

    Args:
        image: (H, W) or (H, W, C), of any type.
        before: Number of rows above the image, and of columns on its left.
        after: Number of rows below the image, and of columns on its right.
        border: Border type of OpenCV. Default: mirrored at the edge pixels.
    """
    wide = np.asarray(cv2.copyMakeBorder(image, before, after, before, after, border))
    return wide.reshape(len(wide), -1)
