"""Noise perturbations: one clean frame, followed by frames with independent noise."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corruptions.catalogue import Transform, table
from corruptions.draws import DrawSource
from corruptions.kernels.random import noise
from corruptions.noise import Photons, Sigma, photons_to_image
from perturbations.catalogue import FRAMES, Frames, Indices, stack
from perturbations.views import Views


@dataclass(frozen=True)
class Gaussian(Sigma):
    """Standard deviation, in units of the full range 0..1."""

    frames: int = FRAMES


@dataclass(frozen=True)
class Shot(Photons):
    """Mean photon count of a white value."""

    frames: int = FRAMES


def gaussian_noise(views: Views, parameters: Gaussian, source: DrawSource, indices: Indices) -> Frames:
    """Return frames with independent normal noise, added in float32."""
    base = views.base.reshape(-1)

    def frame(index: int) -> NDArray[np.uint8]:
        if index == 0:
            return views.base
        unit = source.at_call(index).normal(0.0, 1.0, views.base.shape)
        drawn = np.multiply(unit.astype(np.float32, copy=False), np.float32(parameters.sigma))
        return noise.add_noise(base, drawn.reshape(-1)).reshape(views.base.shape)

    return stack(views, indices, frame)


def shot_noise(views: Views, parameters: Shot, source: DrawSource, indices: Indices) -> Frames:
    """Return frames of independent photon counts."""

    def frame(index: int) -> NDArray[np.uint8]:
        if index == 0:
            return views.base
        return photons_to_image(views.base, parameters, source.at_call(index).poisson(views.base, parameters.lam))

    return stack(views, indices, frame)


def speckle_noise(views: Views, parameters: Gaussian, source: DrawSource, indices: Indices) -> Frames:
    """Return frames with independent normal noise times the image."""
    base = views.base.reshape(-1)

    def frame(index: int) -> NDArray[np.uint8]:
        if index == 0:
            return views.base
        drawn = source.at_call(index).normal(0.0, parameters.sigma, views.base.shape)
        return noise.multiply_noise(base, drawn.reshape(-1)).reshape(views.base.shape)

    return stack(views, indices, frame)


GAUSSIAN_NOISE = table(
    Gaussian,
    imagenet=[(0.03,), (0.05,), (0.08,)],
    inception=[(0.035,), (0.055,), (0.085,)],
    tiny=[(0.025,), (0.05,), (0.075,)],
    cifar=[(0.02,), (0.04,), (0.06,)],
)
SHOT_NOISE = table(
    Shot,
    imagenet=[(300,), (120,), (60,)],
    inception=[(250,), (100,), (50,)],
    tiny=[(500,), (250,), (125,)],
    cifar=[(700,), (400,), (200,)],
)
SPECKLE_NOISE = table(
    Gaussian,
    imagenet=[(0.05,), (0.1,), (0.15,)],
    inception=[(0.06,), (0.11,), (0.16,)],
    tiny=[(0.05,), (0.1,), (0.15,)],
    cifar=[(0.05,), (0.07,), (0.1,)],
)

PERTURBATIONS = (
    Transform("gaussian_noise", 1, "noise", GAUSSIAN_NOISE, gaussian_noise),
    Transform("shot_noise", 1, "noise", SHOT_NOISE, shot_noise),
    Transform("speckle_noise", 1, "noise", SPECKLE_NOISE, speckle_noise, benchmark=False),
)
