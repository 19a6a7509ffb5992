"""Geometry: translate, rotate, tilt, scale and, for validation, shear, of what the clean image was cropped from."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corruptions.catalogue import table
from corruptions.draws import DrawSource
from corruptions.preparation import Window
from perturbations.catalogue import FRAMES, Frames, Indices, Perturbation, stack
from perturbations.kernels import sampling
from perturbations.views import Canvas, Views

CENTRE_SHIFT = 0.5
"""Quirk: torchvision 0.2 turned about (w / 2 + 0.5, h / 2 + 0.5), half a pixel beyond the centre; later ones do not."""

MIDDLE = 15
"""The frame in which turns, tilts and shears are 0."""


def affine_matrix(
    height: int, width: int, turn: float = 0.0, scale: float = 1.0, shear: float = 0.0
) -> sampling.Matrix:
    """torchvision 0.2's inverse matrix of a transform about the centre; angles in degrees, its order of operations."""
    centre_x, centre_y = width * 0.5 + CENTRE_SHIFT, height * 0.5 + CENTRE_SHIFT
    angle, slant = math.radians(turn), math.radians(shear)
    determinant = math.cos(angle + slant) * math.cos(angle) + math.sin(angle + slant) * math.sin(angle)
    share = (1.0 / scale) / determinant
    a, b = math.cos(angle + slant) * share, math.sin(angle + slant) * share
    d, e = -math.sin(angle) * share, math.cos(angle) * share
    c = a * -centre_x + b * -centre_y + centre_x
    f = d * -centre_x + e * -centre_y + centre_y
    return a, b, c, d, e, f


def _transformed(views: Views, turn: float, scale: float, shear: float) -> NDArray[np.uint8]:
    """The window of the transformed photograph, as large as the clean image."""
    canvas = views.resized
    matrix = affine_matrix(canvas.height, canvas.width, turn, scale, shear)
    return views.finish(sampling.affine(canvas.pixels, canvas[1:], matrix, views.window))


def scaled(views: Views, scale: float, on_base: bool) -> NDArray[np.uint8]:
    """The clean image scaled about the centre, with what comes in at the border unless it is done ``on_base`` alone."""
    if not on_base:
        return _transformed(views, 0.0, scale, 0.0)
    canvas = Canvas(views.base, *views.base.shape[:2])
    window = Window(0, 0, canvas.height, canvas.width)
    matrix = affine_matrix(canvas.height, canvas.width, scale=scale)
    shrunk: NDArray[np.uint8] = sampling.affine(canvas.pixels, canvas[1:], matrix, window)
    return shrunk


@dataclass(frozen=True)
class Shift:
    """Number of frames, and the frame without a shift."""

    frames: int
    still: int


def translate(views: Views, parameters: Shift, source: DrawSource, indices: Indices) -> Frames:
    """From left to right, a pixel of the resized photograph per frame; black comes in where there is no more of it."""
    return stack(views, indices, lambda index: views.finish(_shifted(views, index - parameters.still)))


def _shifted(views: Views, shift: int) -> NDArray[np.uint8]:
    """The window of the photograph moved right by ``shift`` pixels."""
    canvas, window = views.resized, views.window
    out = np.zeros((window.height, window.width, 3), np.uint8)
    top, left = window.top - canvas.top, window.left - canvas.left - shift
    begin, end = max(left, 0), min(left + window.width, canvas.pixels.shape[1])
    if begin < end:
        out[:, begin - left : end - left] = canvas.pixels[top : top + window.height, begin:end]
    return out


@dataclass(frozen=True)
class Turn:
    """Degrees per frame."""

    degrees: float
    frames: int = FRAMES


def rotate(views: Views, parameters: Turn, source: DrawSource, indices: Indices) -> Frames:
    """Turns about the centre."""
    return stack(views, indices, lambda index: _transformed(views, (index - MIDDLE) * parameters.degrees, 1.0, 0.0))


def shear(views: Views, parameters: Turn, source: DrawSource, indices: Indices) -> Frames:
    """Slants about the centre."""
    return stack(views, indices, lambda index: _transformed(views, 0.0, 1.0, (index - MIDDLE) * parameters.degrees))


@dataclass(frozen=True)
class Growth:
    """Percent of the size per frame and at frame 0; ``on_base``: of the clean image alone."""

    percent: float
    first: float
    on_base: bool = False
    frames: int = FRAMES


def scale(views: Views, parameters: Growth, source: DrawSource, indices: Indices) -> Frames:
    """Grows about the centre, at first with black around it where there is no more of the photograph."""
    return stack(
        views,
        indices,
        lambda index: scaled(views, (index * parameters.percent + parameters.first) / 100, parameters.on_base),
    )


def tilt(views: Views, parameters: Turn, source: DrawSource, indices: Indices) -> Frames:
    """Turns in space, about both axes of the picture at once."""
    canvas, window = views.resized, views.window

    def frame(index: int) -> NDArray[np.uint8]:
        forward = tilt_matrix(canvas.height, canvas.width, (index - MIDDLE) * parameters.degrees)
        # back from the picture to the part of the canvas that is there
        (a, b, c), (d, e, f), (g, h, i) = product(_moved(-canvas.left, -canvas.top), inverse(forward))
        return views.finish(sampling.project_window(canvas.pixels, (a, b, c, d, e, f, g, h, i), window))

    return stack(views, indices, frame)


def tilt_matrix(height: int, width: int, degrees: float) -> Matrix:
    """3 x 3 perspective matrix of a tilt; the signs of the turn about y are the published ones, not the usual."""
    angle, focal = math.radians(degrees), math.sqrt(width**2 + height**2)
    c, s = math.cos(angle), math.sin(angle)
    lift = ((1, 0, -width / 2), (0, 1, -height / 2), (0, 0, 1), (0, 0, 1))
    turn_y = ((c, 0, -s, 0), (0, 1, 0, 0), (s, 0, c, 0), (0, 0, 0, 1))
    turn_x = ((1, 0, 0, 0), (0, c, -s, 0), (0, s, c, 0), (0, 0, 0, 1))
    away = ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, focal), (0, 0, 0, 1))
    project = ((focal, 0, width / 2, 0), (0, focal, height / 2, 0), (0, 0, 1, 0))
    return product(project, product(away, product(turn_x, product(turn_y, lift))))


Matrix = tuple[tuple[float, ...], ...]
"""Rows of numbers: small products in plain floats, since BLAS rounds differently from CPU to CPU."""


def product(left: Matrix, right: Matrix) -> Matrix:
    """The matrix product."""
    columns = tuple(zip(*right, strict=True))
    return tuple(tuple(sum(a * b for a, b in zip(row, column, strict=True)) for column in columns) for row in left)


def inverse(matrix: Matrix) -> Matrix:
    """The inverse of a 3 x 3 matrix, by cofactors."""
    (a, b, c), (d, e, f), (g, h, i) = matrix
    determinant = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
    cofactors = (
        (e * i - f * h, c * h - b * i, b * f - c * e),
        (f * g - d * i, a * i - c * g, c * d - a * f),
        (d * h - e * g, b * g - a * h, a * e - b * d),
    )
    return tuple(tuple(value / determinant for value in row) for row in cofactors)


def _moved(x: int, y: int) -> Matrix:
    return ((1.0, 0.0, x), (0.0, 1.0, y), (0.0, 0.0, 1.0))


TRANSLATE = table(Shift, imagenet=[(41, 20)], inception=[(41, 20)], tiny=[(31, 15)], cifar=[(16, 7)])
ONE_DEGREE = table(Turn, imagenet=[(1.0,)], inception=[(1.0,)], tiny=[(1.0,)], cifar=[(1.0,)])
TILT = table(Turn, imagenet=[(1.0,)], inception=[(1.0,)], tiny=[(1.0,)], cifar=[(0.75,)])
SCALE = table(Growth, imagenet=[(2.5, 40)], inception=[(2.5, 40, True)], tiny=[(2.5, 40)], cifar=[(2, 70)])

PERTURBATIONS = (
    Perturbation("translate", "digital", True, 1, TRANSLATE, translate),
    Perturbation("rotate", "digital", True, 1, ONE_DEGREE, rotate),
    Perturbation("tilt", "digital", True, 1, TILT, tilt),
    Perturbation("scale", "digital", True, 1, SCALE, scale),
    Perturbation("shear", "digital", False, 1, ONE_DEGREE, shear),
)
