"""Frost textures: located without an import, verified, scaled, enlarged, and errors when they are missing."""

import platform
import shutil

import cv2
import numpy as np
import pytest

from corruptions import textures
from corruptions.catalogue import PROFILE_SIDES
from corruptions.weather import DRAWN_TEXTURES, FROST, add_frost, draw_frost


class Highest:
    """A source of draws that always returns the largest allowed number."""

    def integer(self, low: int, high: int) -> int:
        assert high > low
        return high - 1


def test_all_six_files_have_the_expected_digest():
    folder = textures.find_folder(None)
    for texture in textures.TEXTURES:
        assert textures.read_verified(folder / texture.name, texture.sha256)


def test_textures_are_rgb_without_alpha_and_scaled_per_profile():
    folder = textures.find_folder(None)
    for index, texture in enumerate(textures.TEXTURES):
        blue_first = cv2.imread(str(folder / texture.name), cv2.IMREAD_COLOR)
        whole = textures.load(None, index, 1.0)
        assert (whole == blue_first[..., ::-1]).all()
        for scale in {rows[0].scale for rows in FROST.values()} - {1.0}:
            expected = tuple(round(side * scale) for side in whole.shape[:2])
            assert np.abs(np.subtract(textures.load(None, index, scale).shape[:2], expected)).max() <= 1


@pytest.mark.skipif(platform.machine().lower() not in {"x86_64", "amd64"}, reason="OpenCV's pixels differ there")
def test_scaled_and_enlarged_textures_equal_opencv():
    for index in range(len(textures.TEXTURES)):
        whole = textures.load(None, index, 1.0)
        for scale in {rows[0].scale for rows in FROST.values()} - {1.0}:
            expected = cv2.resize(whole, None, fx=scale, fy=scale, interpolation=cv2.INTER_LINEAR)
            np.testing.assert_array_equal(textures.load(None, index, scale), expected)
            shape = textures.covering_shape(expected.shape[:2], (300, 200))
            enlarged = cv2.resize(expected, shape[::-1], interpolation=cv2.INTER_LINEAR)
            part, row, column = textures.covering_part(expected, (300, 200), (shape[0] - 300, shape[1] - 200))
            window = part[row : row + 300, column : column + 200]
            np.testing.assert_array_equal(window, enlarged[-300:, -200:])


def test_textures_keep_their_size_at_published_sides():
    for profile, side in PROFILE_SIDES.items():
        for index in range(DRAWN_TEXTURES):
            shape = textures.load(None, index, FROST[profile][0].scale).shape[:2]
            assert textures.covering_shape(shape, (side, side)) == shape


@pytest.mark.parametrize("shape", [(315, 200), (400, 300), (300, 1200), (2000, 2000)])
def test_larger_images_enlarge_the_texture_by_one_factor(shape):
    rows, columns = textures.covering_shape((315, 560), shape)
    assert rows > shape[0]
    assert columns > shape[1]
    assert abs(rows / columns - 315 / 560) < 0.01
    assert min(rows - shape[0], columns - shape[1]) == 1


@pytest.mark.parametrize("profile", PROFILE_SIDES)
@pytest.mark.parametrize("shape", [(16, 16), (61, 97), (200, 700)])
def test_the_last_corner_has_a_complete_crop(profile, shape):
    image = np.zeros((*shape, 3), np.uint8)
    parameters = FROST[profile][0]
    draws = draw_frost(Highest(), image, parameters)
    frosted = add_frost(image, parameters, draws)
    texture = textures.load(None, draws.texture, parameters.scale)
    layer, row, column = textures.covering_part(texture, shape, (draws.row, draws.column))
    part = layer[row : row + shape[0], column : column + shape[1]]
    assert part.shape == image.shape
    assert (frosted == (parameters.add * part).astype(np.uint8)).all()


def test_the_sixth_texture_is_never_drawn():
    assert len(textures.TEXTURES) == 6
    assert draw_frost(Highest(), np.zeros((16, 16, 3), np.uint8), FROST["imagenet"][0]).texture == 4


def test_a_folder_gives_the_same_textures_as_the_package(tmp_path):
    folder = shutil.copytree(textures.find_folder(None), tmp_path / "frost")
    assert (textures.load(str(folder), 2, 1.0) == textures.load(None, 2, 1.0)).all()


def test_a_changed_texture_is_rejected_with_its_digest(tmp_path):
    folder = shutil.copytree(textures.find_folder(None), tmp_path / "frost")
    (folder / "frost4.jpg").write_bytes(b"other pixels")
    with pytest.raises(ValueError, match=r"frost4\.jpg has sha256 [0-9a-f]{64}, expected 3f8b91ca1a9f"):
        textures.load(str(folder), 3, 1.0)


def test_a_missing_file_or_folder_names_what_to_install(tmp_path):
    with pytest.raises(FileNotFoundError, match="pip install imagecorruptions"):
        textures.load(str(tmp_path), 0, 1.0)
    with pytest.raises(FileNotFoundError, match=r"nowhere.*pip install imagecorruptions"):
        textures.load(str(tmp_path / "nowhere"), 0, 1.0)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(textures, "PACKAGE", "no_such_package_of_textures")
    with pytest.raises(FileNotFoundError, match="not installed"):
        textures.find_folder(None)
