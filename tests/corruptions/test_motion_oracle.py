"""The native motion blur compared with ImageMagick."""

import sys

import numpy as np
import pytest

from corruptions import corrupt, imagemagick
from corruptions.blur import MOTION_BLUR
from corruptions.catalogue import Options
from corruptions.kernels.smoothing.motion import motion_blur
from corruptions.precipitation import SNOW
from tests.conftest import UNDER_CI

ANGLES = (0.0, 45.0, 90.0, 180.0, -30.0, -45.0, -90.0, -135.0, -150.0, 13.7, 60.0, 120.0, 200.3, 321.123)
SHAPES = ((48, 64, 3), (16, 16, 3), (16, 40, 3), (61, 23), (40, 40))


@pytest.fixture(scope="module")
def oracle():
    """Return ImageMagick's motion blur. Without it, tests are skipped, or fail under CI."""
    try:
        imagemagick.image_class()
    except ImportError as error:
        if UNDER_CI:
            pytest.fail(f"CI needs ImageMagick: {error}")
        pytest.skip(f"ImageMagick is not installed: {error}")
    return imagemagick.motion_blur


def widths() -> list[tuple[int, float]]:
    """Return every radius and sigma of motion blur and snow in all profiles."""
    rows = (row for table in (MOTION_BLUR, SNOW) for rows in table.values() for row in rows)
    return sorted({(row.radius, row.sigma) for row in rows})


@pytest.mark.parametrize(("radius", "sigma"), widths())
def test_native_equals_imagemagick(oracle, radius, sigma):
    for shape in SHAPES:
        image = np.random.RandomState(radius).randint(0, 256, shape).astype(np.uint8)
        image[:, ::7] = 0
        image[:, 3::7] = 255
        for angle in ANGLES:
            found, expected = motion_blur(image, radius, sigma, angle), oracle(image, radius, sigma, angle)
            np.testing.assert_array_equal(found, expected, f"angle {angle}")


@pytest.mark.parametrize("level", [0, 1, 127, 254, 255])
def test_flat_images_stay_flat(oracle, level):
    image = np.full((20, 30, 3), level, np.uint8)
    assert (motion_blur(image, 12, 8.0, 33.0) == image).all()
    assert (oracle(image, 12, 8.0, 33.0) == image).all()


def test_the_motion_option_selects_imagemagick(oracle):
    image = np.random.RandomState(0).randint(0, 256, (32, 48, 3)).astype(np.uint8)
    for name in ("motion_blur", "snow"):
        native = corrupt(image, name, 3, profile="cifar", seed=5)
        library = corrupt(image, name, 3, profile="cifar", seed=5, options=Options(motion="imagemagick"))
        np.testing.assert_array_equal(native, library)


def test_missing_wand_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "wand.image", None)
    with pytest.raises(ImportError, match=r"robustshards\[imagemagick\]"):
        imagemagick.motion_blur(np.zeros((16, 16, 3), np.uint8), 3, 1.0, 0.0)
