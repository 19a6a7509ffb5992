"""Blur perturbations: motion with a rotating direction, growing zoom and, for validation, a growing Gaussian."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corruptions.catalogue import Transform, table
from corruptions.draws import DrawSource
from corruptions.imagemagick import BACKENDS
from corruptions.kernels.smoothing.gaussian_image import smooth_image
from perturbations.catalogue import FRAMES, Frames, Indices, stack
from perturbations.geometry import scaled
from perturbations.kernels import sampling
from perturbations.views import Views


@dataclass(frozen=True)
class Motion:
    """ImageMagick's radius and sigma in pixels. Frame i is blurred along (i + offset) * step degrees.

    Quirk: if ``before_preparation``, the photograph is blurred before it is prepared (published Tiny ImageNet-P). The
    published script omits the crop of this preparation; here it is applied.
    """

    radius: int
    sigma: float
    offset: int
    step: int
    frames: int = FRAMES
    before_preparation: bool = False
    motion: str = "native"


def rotating_blur(views: Views, parameters: Motion, source: DrawSource, indices: Indices) -> Frames:
    """Return frames of motion blur whose direction rotates."""

    def frame(index: int) -> NDArray[np.uint8]:
        angle = float((index + parameters.offset) * parameters.step)
        image = views.photograph if parameters.before_preparation else views.base
        blurred = BACKENDS[parameters.motion](image, parameters.radius, parameters.sigma, angle)
        return views.prepare(blurred) if parameters.before_preparation else blurred

    return stack(views, indices, frame)


@dataclass(frozen=True)
class Zoom:
    """Growth of the zoom factor per frame. ``on_base``: zoom the prepared image, not the photograph before its crop."""

    growth: float
    on_base: bool = False
    frames: int = FRAMES


UNIT_LEVELS = np.arange(256, dtype=np.float32) / np.float32(255)
"""Level -> its value in 0..1 as float32, the type of the published running mean."""


def growing_zoom(views: Views, parameters: Zoom, source: DrawSource, indices: Indices) -> Frames:
    """Return frames of the running mean of zooms with growing factors. A frame needs all zooms before it."""
    out = np.empty((len(indices), *views.base.shape), np.uint8)
    mean, total = np.empty(views.base.size, np.uint8), np.zeros(views.base.size, np.float32)
    positions = {index: position for position, index in enumerate(indices)}
    for index in range(max(indices) + 1):
        zoomed = scaled(views, 1 + parameters.growth * index, parameters.on_base) if index else views.base
        sampling.update_mean(total, np.ascontiguousarray(zoomed).reshape(-1), UNIT_LEVELS, np.float32(index + 1), mean)
        if index in positions:
            out[positions[index]] = mean.reshape(views.base.shape)
    return out


@dataclass(frozen=True)
class GrowingBlur:
    """Sigma in pixels of the first frame, its growth per frame, and the filter's radius in sigmas."""

    first: float
    growth: float
    truncate: float
    frames: int = FRAMES


def growing_blur(views: Views, parameters: GrowingBlur, source: DrawSource, indices: Indices) -> Frames:
    """Return frames of Gaussian blur with a growing sigma."""

    def frame(index: int) -> NDArray[np.uint8]:
        return smooth_image(views.base, parameters.first + parameters.growth * index, parameters.truncate)

    return stack(views, indices, frame)


MOTION_BLUR = table(
    Motion,
    imagenet=[(10, 3, -30, 4)],
    inception=[(13, 3, -30, 4)],
    tiny=[(14, 3, -30, 5, FRAMES, True)],
    cifar=[(6, 1.8, -20, 9, 21)],
)
ZOOM_BLUR = table(Zoom, imagenet=[(0.004,)], inception=[(0.004, True)], tiny=[(0.004,)], cifar=[(0.004,)])
GAUSSIAN_BLUR = table(
    GrowingBlur,
    imagenet=[(0.25, 0.035, 6.0)],
    inception=[(0.35, 0.035, 6.0)],
    tiny=[(0.35, 0.014, 7.0)],
    cifar=[(0.3, 0.015, 7.0)],
)

PERTURBATIONS = (
    Transform("motion_blur", 2, "blur", MOTION_BLUR, rotating_blur),
    Transform("zoom_blur", 1, "blur", ZOOM_BLUR, growing_zoom),
    Transform("gaussian_blur", 2, "blur", GAUSSIAN_BLUR, growing_blur, benchmark=False),
)
