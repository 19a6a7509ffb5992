"""Digital corruptions: contrast, elastic transform, pixelate, JPEG compression and, in the extra group, saturate."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions.catalogue import Image, Transform, table, with_detection
from corruptions.draws import DrawSource
from corruptions.kernels import jpeg
from corruptions.kernels.colour import color, contrast
from corruptions.kernels.sampling import elastic
from corruptions.kernels.sampling import pixelate as resize
from corruptions.kernels.sampling.fixed_sampling import PADDING
from corruptions.kernels.smoothing import mirrored


@dataclass(frozen=True)
class Fraction:
    """Fraction that is kept, 0..1, of the deviation from the mean."""

    c: float


def reduce_contrast(image: Image, parameters: Fraction, draws: None) -> Image:
    """Return the image with each channel's deviations from its mean reduced."""
    return contrast.scale_deviations(image.reshape(-1), parameters.c).reshape(image.shape)


CONTRAST = table(
    Fraction,
    imagenet=[(0.4,), (0.3,), (0.2,), (0.1,), (0.05,)],
    inception=[(0.4,), (0.3,), (0.2,), (0.1,), (0.05,)],
    tiny=[(0.4,), (0.3,), (0.2,), (0.1,), (0.05,)],
    cifar=[(0.75,), (0.5,), (0.4,), (0.3,), (0.15,)],
)


@dataclass(frozen=True)
class Elastic:
    """Displacement gain, its smoothing and the jitter of the affine map's corners, all in pixels."""

    alpha: float
    sigma: float
    jitter: float


@dataclass(frozen=True)
class ScaledElastic:
    """Displacement gain, and its smoothing and range as fractions of the sides. There is no affine map."""

    alpha: float
    sigma: float = 0.01
    reach: float = 0.005


class ElasticDraws(NamedTuple):
    """Jitter of three corner points, (3, 2) in pixels, and one displacement field per axis, (H, W)."""

    jitter: NDArray[np.floating]
    right: NDArray[np.floating]
    down: NDArray[np.floating]


ELASTIC_TRUNCATE = 3.0
"""Radius of the smoothing filter in sigmas."""


ELASTIC_TRANSFORM = table(
    Elastic,
    # Quirk: the published values are fractions of 244 (a slip for 224 that the data contains), and of 360 for side 299.
    imagenet=[
        (488, 170.79999999999998, 24.400000000000002),
        (488, 19.52, 48.800000000000004),
        (12.200000000000001, 2.44, 4.88),
        (17.080000000000002, 2.44, 4.88),
        (29.279999999999998, 2.44, 4.88),
    ],
    inception=[
        (720, 251.99999999999997, 36.0),
        (720, 28.8, 72.0),
        (18.0, 3.6, 7.2),
        (25.200000000000003, 3.6, 7.2),
        (43.199999999999996, 3.6, 7.2),
    ],
    tiny=[(0, 0, 5.12), (3.2, 19.2, 3.84), (6.4, 5.12, 3.84), (6.4, 1.92, 1.92), (10.24, 1.92, 1.28)],
    cifar=[(0, 0, 2.56), (1.6, 6.4, 2.24), (2.56, 1.92, 1.92), (3.2, 1.28, 1.6), (3.2, 0.96, 0.96)],
)

SCALED_ELASTIC = table(ScaledElastic, detection=[(12.5,), (16.25,), (21.25,), (25.0,), (30.0,)])


def draw_elastic(source: DrawSource, image: Image, parameters: Elastic | ScaledElastic) -> ElasticDraws:
    """Draw the corners' jitter, then the horizontal field, then the vertical field."""
    shape = image.shape[:2]
    if isinstance(parameters, ScaledElastic):
        reach = parameters.reach * shape[0]  # quirk: of the height, along both axes (imagecorruptions)
        corners: NDArray[np.floating] = np.zeros((3, 2))
    else:
        reach, corners = 1.0, source.uniform(-parameters.jitter, parameters.jitter, (3, 2))
    return ElasticDraws(corners, source.uniform(-reach, reach, shape), source.uniform(-reach, reach, shape))


def distort(image: Image, parameters: Elastic | ScaledElastic, draws: ElasticDraws) -> Image:
    """Return the image after a random affine map and smooth random displacements."""
    height, width, _ = image.shape
    sigmas = (parameters.sigma, parameters.sigma)
    if isinstance(parameters, ScaledElastic):
        sigmas = (parameters.sigma * height, parameters.sigma * width)
    right, down = (
        mirrored.displacements(field, sigmas, ELASTIC_TRUNCATE, parameters.alpha) for field in (draws.right, draws.down)
    )
    if isinstance(parameters, ScaledElastic):
        return elastic.displace(np.pad(image.reshape(-1), (0, PADDING)), right, down)
    inverse = elastic.affine_inverse(height, width, draws.jitter).astype(np.float32)
    return elastic.displace(elastic.warp(image, inverse), right, down)


@dataclass(frozen=True)
class Blocks:
    """Fraction of each side that is kept, 0..1. ``steps``: enlarged by Pillow's NEAREST, not by its BOX."""

    c: float
    steps: bool = False


def pixelate(image: Image, parameters: Blocks, draws: None) -> Image:
    """Return the image shrunk by averaging, as by Pillow's BOX filter, and enlarged by repetition."""
    return resize.pixelate(image, parameters.c, parameters.steps)


PIXELATE = table(
    Blocks,
    imagenet=[(0.6,), (0.5,), (0.4,), (0.3,), (0.25,)],
    inception=[(0.5,), (0.4,), (0.3,), (0.25,), (0.2,)],
    tiny=[(0.9,), (0.8,), (0.7,), (0.6,), (0.5,)],
    cifar=[(0.95,), (0.9,), (0.85,), (0.75,), (0.65,)],
)


@dataclass(frozen=True)
class Jpeg:
    """JPEG quality, 1..100."""

    quality: int


def compress(image: Image, parameters: Jpeg, draws: None) -> Image:
    """Return the image encoded as JPEG with 4:2:0 chroma and decoded again, both as by libjpeg-turbo in Pillow."""
    return jpeg.round_trip(image, parameters.quality)


JPEG_COMPRESSION = table(
    Jpeg,
    imagenet=[(25,), (18,), (15,), (10,), (7,)],
    inception=[(23,), (16,), (13,), (8,), (5,)],
    tiny=[(65,), (58,), (50,), (40,), (25,)],
    cifar=[(80,), (65,), (58,), (50,), (40,)],
)


@dataclass(frozen=True)
class Saturation:
    """Factor and offset applied to the HSV saturation."""

    gain: float
    offset: float


def saturate(image: Image, parameters: Saturation, draws: None) -> Image:
    """Return the image with its HSV saturation changed."""
    return color.scale_saturation(image, parameters.gain, parameters.offset)


SATURATE = table(
    Saturation,
    imagenet=[(0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)],
    inception=[(0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)],
    tiny=[(0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (30, 0.2)],
    cifar=[(0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)],
)

CORRUPTIONS: tuple[Transform, ...] = (
    Transform("contrast", 1, "digital", CONTRAST, reduce_contrast),
    Transform("elastic_transform", 2, "digital", {**ELASTIC_TRANSFORM, **SCALED_ELASTIC}, distort, draw_elastic),
    Transform("pixelate", 1, "digital", with_detection(PIXELATE, steps=True), pixelate),
    Transform("jpeg_compression", 1, "digital", JPEG_COMPRESSION, compress),
    Transform("saturate", 1, "digital", SATURATE, saturate, benchmark=False),
)
