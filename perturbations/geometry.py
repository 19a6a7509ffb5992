"""Geometric perturbations of the photograph before its crop: translate, rotate, tilt, scale and (validation) shear."""

import math
from dataclasses import dataclass
from functools import reduce
from operator import add, mul

import numpy as np
from numpy.typing import NDArray

from corruptions.catalogue import Transform, table
from corruptions.draws import DrawSource
from corruptions.elementary import cos_sin
from corruptions.preparation import Window
from perturbations.catalogue import FRAMES, Frames, Indices, stack
from perturbations.kernels import sampling
from perturbations.views import Canvas, Views

CENTRE_SHIFT = 0.5
"""Quirk: torchvision 0.2 transforms about (w / 2 + 0.5, h / 2 + 0.5), half a pixel beyond the centre.

Later versions use the centre. The published data was made with torchvision 0.2.
"""

NEUTRAL_FRAME = 15
"""Index of the frame in which the angle of rotate, tilt and shear is 0."""


def affine_matrix(
    height: int, width: int, rotation: float = 0.0, scale: float = 1.0, shear: float = 0.0
) -> sampling.Matrix:
    """Return torchvision 0.2's inverse matrix of a transform about the centre, in its order of operations.

    Args:
        height: Height of the image in pixels.
        width: Width of the image in pixels.
        rotation: Angle in degrees.
        scale: Scale factor.
        shear: Angle in degrees.

    Returns:
        The six coefficients (a, b, c, d, e, f): output pixel (x, y) is sampled at (a x + b y + c, d x + e y + f).
    """
    centre_x, centre_y = width * 0.5 + CENTRE_SHIFT, height * 0.5 + CENTRE_SHIFT
    angle, shear_angle = math.radians(rotation), math.radians(shear)
    cosine, sine = cos_sin(angle)
    shear_cosine, shear_sine = cos_sin(angle + shear_angle)
    determinant = shear_cosine * cosine + shear_sine * sine
    gain = (1.0 / scale) / determinant
    a, b = shear_cosine * gain, shear_sine * gain
    d, e = -sine * gain, cosine * gain
    c = a * -centre_x + b * -centre_y + centre_x
    f = d * -centre_x + e * -centre_y + centre_y
    return a, b, c, d, e, f


def _affine_window(canvas: Canvas, window: Window, **transform: float) -> NDArray[np.uint8]:
    """Return a window of an image after a transform, which has the arguments of :func:`affine_matrix`."""
    matrix = affine_matrix(canvas.height, canvas.width, **transform)
    return sampling.affine(canvas.bordered, canvas.part, (canvas.height, canvas.width), matrix, window)


def _transformed(views: Views, **transform: float) -> NDArray[np.uint8]:
    """Return the prepared image of the photograph after a transform."""
    return views.finish(_affine_window(views.resized, views.window, **transform))


def scaled(views: Views, scale: float, on_base: bool) -> NDArray[np.uint8]:
    """Return the prepared image scaled about the centre.

    Args:
        views: The prepared photograph.
        scale: Scale factor.
        on_base: Scale the prepared image, which leaves a black border. Otherwise the border shows the photograph.
    """
    if on_base:
        return _affine_window(views.prepared, views.prepared.part, scale=scale)
    return _transformed(views, scale=scale)


@dataclass(frozen=True)
class Shift:
    """Number of frames, and index of the frame without a shift."""

    frames: int
    unshifted: int


def translate(views: Views, parameters: Shift, source: DrawSource, indices: Indices) -> Frames:
    """Return frames that move from left to right by one pixel of the resized photograph per frame.

    Beyond the photograph, frames are black.
    """
    return stack(views, indices, lambda index: views.finish(_shifted(views, index - parameters.unshifted)))


def _shifted(views: Views, shift: int) -> NDArray[np.uint8]:
    """Return the window of the photograph moved right by ``shift`` pixels."""
    canvas, window = views.resized, views.window
    out = np.zeros((window.height, window.width, 3), np.uint8)
    top, left = window.top - canvas.top, window.left - canvas.left - shift
    begin, end = max(left, 0), min(left + window.width, canvas.pixels.shape[1])
    if begin < end:
        out[:, begin - left : end - left] = canvas.pixels[top : top + window.height, begin:end]
    return out


@dataclass(frozen=True)
class AngleStep:
    """Angle per frame in degrees."""

    degrees: float
    frames: int = FRAMES

    def angle(self, index: int) -> float:
        """Return the angle of a frame."""
        return (index - NEUTRAL_FRAME) * self.degrees


def rotate(views: Views, parameters: AngleStep, source: DrawSource, indices: Indices) -> Frames:
    """Return frames rotated about the centre."""
    return stack(views, indices, lambda index: _transformed(views, rotation=parameters.angle(index)))


def shear(views: Views, parameters: AngleStep, source: DrawSource, indices: Indices) -> Frames:
    """Return frames sheared about the centre."""
    return stack(views, indices, lambda index: _transformed(views, shear=parameters.angle(index)))


@dataclass(frozen=True)
class ScaleStep:
    """Percent of the size per frame, and at frame 0. ``on_base``: scale the prepared image, not the photograph."""

    percent: float
    first: float
    on_base: bool = False
    frames: int = FRAMES


def scale(views: Views, parameters: ScaleStep, source: DrawSource, indices: Indices) -> Frames:
    """Return frames that grow about the centre. The first ones are black beyond the photograph."""
    return stack(
        views,
        indices,
        lambda index: scaled(views, (index * parameters.percent + parameters.first) / 100, parameters.on_base),
    )


def tilt(views: Views, parameters: AngleStep, source: DrawSource, indices: Indices) -> Frames:
    """Return frames rotated in space, about the x and the y axis at once."""
    canvas, window = views.resized, views.window

    def frame(index: int) -> NDArray[np.uint8]:
        forward = tilt_matrix(canvas.height, canvas.width, parameters.angle(index))
        matrix = tuple(np.array(inverse(forward), np.float32).reshape(-1))
        return views.finish(sampling.project_window(canvas.framed, canvas.part, matrix, window))

    return stack(views, indices, frame)


def tilt_matrix(height: int, width: int, degrees: float) -> "Matrix":
    """Return the 3 x 3 perspective matrix of a tilt.

    Quirk: the signs of the rotation about y are opposite to the usual ones (published script).
    """
    angle, focal = math.radians(degrees), math.sqrt(width**2 + height**2)
    c, s = cos_sin(angle)
    lift = ((1, 0, -width / 2), (0, 1, -height / 2), (0, 0, 1), (0, 0, 1))
    rotate_y = ((c, 0, -s, 0), (0, 1, 0, 0), (s, 0, c, 0), (0, 0, 0, 1))
    rotate_x = ((1, 0, 0, 0), (0, c, -s, 0), (0, s, c, 0), (0, 0, 0, 1))
    move_back = ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, focal), (0, 0, 0, 1))
    project = ((focal, 0, width / 2, 0), (0, focal, height / 2, 0), (0, 0, 1, 0))
    return product(project, product(move_back, product(rotate_x, product(rotate_y, lift))))


Matrix = tuple[tuple[float, ...], ...]
"""Rows of a small matrix. Products use Python floats, because BLAS rounds differently from CPU to CPU."""


def product(left: Matrix, right: Matrix) -> Matrix:
    """Return the matrix product. Products are added in order; ``sum`` compensates rounding errors since Python 3.12."""
    columns = tuple(zip(*right, strict=True))
    return tuple(tuple(reduce(add, map(mul, row, column)) for column in columns) for row in left)


def inverse(matrix: Matrix) -> Matrix:
    """Return the inverse of a 3 x 3 matrix, computed from cofactors."""
    (a, b, c), (d, e, f), (g, h, i) = matrix
    determinant = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
    cofactors = (
        (e * i - f * h, c * h - b * i, b * f - c * e),
        (f * g - d * i, a * i - c * g, c * d - a * f),
        (d * h - e * g, b * g - a * h, a * e - b * d),
    )
    return tuple(tuple(value / determinant for value in row) for row in cofactors)


TRANSLATE = table(Shift, imagenet=[(41, 20)], inception=[(41, 20)], tiny=[(31, 15)], cifar=[(16, 7)])
ONE_DEGREE = table(AngleStep, imagenet=[(1.0,)], inception=[(1.0,)], tiny=[(1.0,)], cifar=[(1.0,)])
TILT = table(AngleStep, imagenet=[(1.0,)], inception=[(1.0,)], tiny=[(1.0,)], cifar=[(0.75,)])
SCALE = table(ScaleStep, imagenet=[(2.5, 40)], inception=[(2.5, 40, True)], tiny=[(2.5, 40)], cifar=[(2, 70)])

PERTURBATIONS = (
    Transform("translate", 1, "digital", TRANSLATE, translate),
    Transform("rotate", 1, "digital", ONE_DEGREE, rotate),
    Transform("tilt", 2, "digital", TILT, tilt),
    Transform("scale", 1, "digital", SCALE, scale),
    Transform("shear", 1, "digital", ONE_DEGREE, shear, benchmark=False),
)
