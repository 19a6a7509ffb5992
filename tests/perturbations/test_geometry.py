"""Sampling compared with Pillow and OpenCV, with the centre of torchvision 0.2."""

import math

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import perturbations
from corruptions.preparation import Window
from perturbations.geometry import CENTRE_SHIFT, affine_matrix, tilt_matrix
from perturbations.kernels import sampling
from perturbations.views import Canvas, make_views
from tests.factories.images import noise


def pillow(image: np.ndarray, matrix: tuple[float, ...]) -> np.ndarray:
    whole = Image.fromarray(image)
    return np.asarray(whole.transform(whole.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR))


def affine(canvas: Canvas, matrix: sampling.Matrix, window: tuple[int, int, int, int]) -> np.ndarray:
    shape = (canvas.height, canvas.width)
    return sampling.affine(canvas.bordered, canvas.part, shape, matrix, Window(*window))


@given(st.integers(1, 60), st.integers(1, 60), st.floats(-45, 45), st.floats(0.2, 3), st.floats(-30, 30), st.booleans())
@settings(max_examples=50)
def test_affine_equals_pillow(
    height: int, width: int, rotation: float, scale: float, shear: float, is_straight: bool
) -> None:
    image = noise(height, width)
    matrix = affine_matrix(height, width, 0.0 if is_straight else rotation, scale, 0.0 if is_straight else shear)
    canvas = Canvas(image, height, width)
    np.testing.assert_array_equal(affine(canvas, matrix, canvas.part), pillow(image, matrix))


def test_a_window_equals_that_part_of_the_full_result() -> None:
    image = noise(50, 70)
    for matrix in (affine_matrix(50, 70, 10, 0.8, 5), affine_matrix(50, 70, scale=0.7)):
        whole, part = (affine(Canvas(image, 50, 70), matrix, window) for window in ((0, 0, 50, 70), (11, 13, 20, 30)))
        np.testing.assert_array_equal(part, whole[11:31, 13:43])


def test_a_partial_canvas_gives_the_same_window() -> None:
    """Only the centre of very long images is computed, but coordinates refer to the complete image."""
    image = noise(40, 200)
    for matrix in (affine_matrix(40, 200, 10), affine_matrix(40, 200, scale=0.7)):
        middle = np.ascontiguousarray(image[:, 50:150])
        canvases = Canvas(image, 40, 200), Canvas(middle, 40, 200, left=50)
        whole, part = (affine(canvas, matrix, (4, 84, 32, 32)) for canvas in canvases)
        np.testing.assert_array_equal(part, whole)


def test_the_centre_equals_that_of_torchvision_0_2() -> None:
    """The fixed point is (w / 2 + 0.5, h / 2 + 0.5). In later versions it is (w / 2, h / 2)."""
    assert CENTRE_SHIFT == 0.5
    a, b, c, d, e, f = affine_matrix(60, 80, rotation=9, scale=1.3, shear=4)
    x, y = 80 / 2 + 0.5, 60 / 2 + 0.5
    assert a * x + b * y + c == pytest.approx(x, abs=1e-12)
    assert d * x + e * y + f == pytest.approx(y, abs=1e-12)
    assert abs(a * (x - 0.5) + b * (y - 0.5) + c - (x - 0.5)) > 0.01


def test_affine_matrix_rotates_and_scales() -> None:
    a, b, _, d, e, _ = affine_matrix(10, 10, rotation=30)
    assert (a, b, d, e) == pytest.approx((math.cos(math.pi / 6), 0.5, -0.5, math.cos(math.pi / 6)))
    a, b, _, d, e, _ = affine_matrix(10, 10, scale=2)
    assert (a, b, d, e) == (0.5, 0.0, 0.0, 0.5)


def test_translate_shows_more_of_the_photograph() -> None:
    photograph = noise(300, 400)
    views = make_views(photograph, [("center_crop", 224)])
    frames = perturbations.perturber("translate")(views, 0)
    for index in (0, 20, 33, 40):
        left = 88 - (index - 20)
        np.testing.assert_array_equal(frames[index], photograph[38:262, left : left + 224])


def test_translate_is_black_beyond_the_photograph() -> None:
    views = make_views(noise(64, 64), [("square", 64)])
    first = perturbations.perturber("translate", profile="tiny")(views, 0)[0]
    assert (first[:, -15:] == 0).all()
    np.testing.assert_array_equal(first[:, :-15], noise(64, 64)[:, 15:])


@pytest.mark.parametrize("degrees", [-15.0, -4.0, 0.0, 7.0, 15.0])
def test_tilt_equals_opencv(degrees: float) -> None:
    image = cv2.GaussianBlur(noise(256, 340), (0, 0), 2)
    views = make_views(image, [("center_crop", 224)])
    whole = cv2.warpPerspective(image, np.array(tilt_matrix(256, 340, degrees)), (340, 256))[16:240, 58:282]
    frame = perturbations.perturber("tilt")(views, 0)[int(degrees) + 15]
    np.testing.assert_array_equal(frame, whole)


def test_drip_equals_numpy_convolve() -> None:
    layer = np.random.default_rng(1).random((17, 5))
    for weights in ([0.05, 0.1, 0.15, 0.7], [0.2, 0.8]):
        expected = np.stack([np.convolve(column, weights, mode="same") for column in layer.T], axis=1)
        np.testing.assert_allclose(sampling.drip(layer, np.array(weights)), expected, rtol=1e-13)
