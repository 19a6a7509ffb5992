"""Digital: contrast, elastic transform, pixelate, JPEG compression and, for validation, saturate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from corruptions import jpeg
from corruptions.catalogue import Corruption, Image, draws_nothing, table
from corruptions.draws import DrawSource
from corruptions.kernels import color, contrast, elastic
from corruptions.kernels import pixelate as resize


@dataclass(frozen=True)
class Share:
    """What is left: of the deviation from the mean (contrast), of each side (pixelate); 0..1."""

    c: float


def flatten_contrast(image: Image, parameters: Share, draws: None) -> Image:
    """The image drawn towards the mean of each channel."""
    flat: Image = contrast.flatten(image.reshape(-1), parameters.c)
    return flat.reshape(image.shape)


CONTRAST = table(
    Share,
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


class ElasticDraws(NamedTuple):
    """Jitter of three points, (3, 2), and a field for each axis, (H, W) in -1..1."""

    jitter: NDArray[np.floating]
    right: NDArray[np.floating]
    down: NDArray[np.floating]


ELASTIC_TRUNCATE = 3.0
"""Reach of the smoothing in sigmas."""


ELASTIC_TRANSFORM = table(
    Elastic,
    # The published numbers are shares of 244, a slip for 224 that the data contains, and of 360 for side 299.
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


def draw_elastic(source: DrawSource, image: Image, parameters: Elastic) -> ElasticDraws:
    """The corners' jitter, then the field along columns, then the field along rows."""
    reach, shape = parameters.jitter, image.shape[:2]
    return ElasticDraws(
        source.uniform(-reach, reach, (3, 2)), source.uniform(-1, 1, shape), source.uniform(-1, 1, shape)
    )


def distort(image: Image, parameters: Elastic, draws: ElasticDraws) -> Image:
    """The image under a random affine map, then under smooth random displacements."""
    warped = elastic.warp(image, elastic.affine_inverse(image.shape[0], image.shape[1], draws.jitter))
    right = elastic.smooth_field(draws.right, parameters.sigma, ELASTIC_TRUNCATE)
    down = elastic.smooth_field(draws.down, parameters.sigma, ELASTIC_TRUNCATE)
    result: Image = elastic.displace(warped, right, down, np.float32(parameters.alpha))
    return result


def pixelate(image: Image, parameters: Share, draws: None) -> Image:
    """The image averaged down and repeated up again, as Pillow's BOX does."""
    return resize.pixelate(image, parameters.c)


PIXELATE = table(
    Share,
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
    """The image through JPEG with 4:2:0 chroma and back; libjpeg-turbo on both ways, as in Pillow."""
    bgr = cv2.cvtColor(image, cv2.COLOR_RGB2BGR)
    coded = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, parameters.quality])[1]
    return jpeg.decode(coded, *image.shape[:2])


JPEG_COMPRESSION = table(
    Jpeg,
    imagenet=[(25,), (18,), (15,), (10,), (7,)],
    inception=[(23,), (16,), (13,), (8,), (5,)],
    tiny=[(65,), (58,), (50,), (40,), (25,)],
    cifar=[(80,), (65,), (58,), (50,), (40,)],
)


@dataclass(frozen=True)
class Saturation:
    """HSV saturation times ``gain`` plus ``offset``."""

    gain: float
    offset: float


def saturate(image: Image, parameters: Saturation, draws: None) -> Image:
    """The image with its HSV saturation changed."""
    return color.scale_saturation(image, parameters.gain, parameters.offset)


SATURATE = table(
    Saturation,
    imagenet=[(0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)],
    inception=[(0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)],
    tiny=[(0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (30, 0.2)],
    cifar=[(0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)],
)

CORRUPTIONS: tuple[Corruption, ...] = (
    Corruption("contrast", "digital", True, 1, CONTRAST, draws_nothing, flatten_contrast),
    Corruption("elastic_transform", "digital", True, 1, ELASTIC_TRANSFORM, draw_elastic, distort),
    Corruption("pixelate", "digital", True, 1, PIXELATE, draws_nothing, pixelate),
    Corruption("jpeg_compression", "digital", True, 1, JPEG_COMPRESSION, draws_nothing, compress),
    Corruption("saturate", "digital", False, 1, SATURATE, draws_nothing, saturate),
)
