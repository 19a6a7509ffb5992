"""Blur: motion in a turning direction, zoom that grows, and, for validation, a Gaussian that widens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corruptions.catalogue import table
from corruptions.draws import DrawSource
from corruptions.kernels.smoothing import smooth_image
from corruptions.motion import motion_blur
from perturbations.catalogue import FRAMES, Frames, Indices, Perturbation, stack
from perturbations.geometry import scaled
from perturbations.kernels import sampling
from perturbations.views import Views


@dataclass(frozen=True)
class Motion:
    """ImageMagick's radius and sigma; frame i is blurred along (i + offset) * step degrees.

    ``whole``: the photograph is blurred before it is prepared, as the published Tiny ImageNet-P did; the published
    script forgets the crop there, which we do.
    """

    radius: int
    sigma: float
    offset: int
    step: int
    frames: int = FRAMES
    whole: bool = False
    motion: str = "native"


def turning_blur(views: Views, parameters: Motion, source: DrawSource, indices: Indices) -> Frames:
    """Motion blur whose direction turns."""

    def frame(index: int) -> NDArray[np.uint8]:
        angle = float((index + parameters.offset) * parameters.step)
        image = views.photograph if parameters.whole else views.base
        blurred = motion_blur(image, parameters.radius, parameters.sigma, angle, parameters.motion)
        return views.prepare(blurred) if parameters.whole else blurred

    return stack(views, indices, frame)


@dataclass(frozen=True)
class Zoom:
    """Growth of the zoom from frame to frame; ``on_base``: the clean image is zoomed, not what it was cropped from."""

    growth: float
    on_base: bool = False
    frames: int = FRAMES


UNITS = np.arange(256, dtype=np.float32) / np.float32(255)
"""Level -> its value on 0..1 in float32, in which the published running mean is kept."""


def growing_zoom(views: Views, parameters: Zoom, source: DrawSource, indices: Indices) -> Frames:
    """Running mean over zooms of 1, 1.004, 1.008 ...: a frame needs all zooms before it."""
    out = np.empty((len(indices), *views.base.shape), np.uint8)
    mean, total = np.empty(views.base.size, np.uint8), np.zeros(views.base.size, np.float32)
    places = {index: place for place, index in enumerate(indices)}
    for index in range(max(indices) + 1):
        zoomed = scaled(views, 1 + parameters.growth * index, parameters.on_base) if index else views.base
        sampling.add_level(total, np.ascontiguousarray(zoomed).reshape(-1), UNITS, np.float32(index + 1), mean)
        if index in places:
            out[places[index]] = mean.reshape(views.base.shape)
    return out


@dataclass(frozen=True)
class Widening:
    """Sigma of the first frame, its growth from frame to frame, and the filter's reach in sigmas."""

    first: float
    growth: float
    truncate: float
    frames: int = FRAMES


def widening_blur(views: Views, parameters: Widening, source: DrawSource, indices: Indices) -> Frames:
    """Gaussian blur whose sigma grows."""

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
    Widening,
    imagenet=[(0.25, 0.035, 6.0)],
    inception=[(0.35, 0.035, 6.0)],
    tiny=[(0.35, 0.014, 7.0)],
    cifar=[(0.3, 0.015, 7.0)],
)

PERTURBATIONS = (
    Perturbation("motion_blur", "blur", True, 1, MOTION_BLUR, turning_blur),
    Perturbation("zoom_blur", "blur", True, 1, ZOOM_BLUR, growing_zoom),
    Perturbation("gaussian_blur", "blur", False, 1, GAUSSIAN_BLUR, widening_blur),
)
