"""Icons-50: both forms, the parts of each protocol, transparency, and files that cannot be trusted."""

import io
import os
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pipeline.errors import SampleError, UserError
from pipeline.images.decoders import decode
from pipeline.sources.base import SourceImage, notices_of
from pipeline.sources.kinds import open_source
from pipeline.sources.parts import PartOptions
from tests.factories.parts import class_folder, icon_arrays, icon_pixels, icons, write_icon_array, write_icon_folders


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_icon_folders(tmp_path_factory.mktemp("icons") / "Icons-50")


@pytest.fixture(scope="module")
def array(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_icon_array(tmp_path_factory.mktemp("array"))


def opened(place: Path, **options: Any):
    return open_source("icons-50", str(place), part=PartOptions(**options))


def listed(place: Path, **options: Any) -> list[tuple[str, int, str]]:
    return [(image.id, image.label, image.class_name) for image in opened(place, **options)]


def pixels(source, image: SourceImage) -> np.ndarray:
    data = source.read(image)
    return decode(data) if isinstance(data, bytes) else data


@pytest.mark.parametrize("protocol", [None, "style:microsoft", "subclass", "rendition"])
def test_both_forms_list_the_same_icons(folders: Path, array: Path, protocol: str | None) -> None:
    for part in ("seen", "held_out") if protocol else (None,):
        options = {"protocol": protocol, "part": part}
        assert listed(folders, **options) == listed(array, **options) == listed(array / "Icons-50.npy", **options)


def test_both_forms_have_the_same_pixels_and_labels(folders: Path, array: Path) -> None:
    one, other = opened(folders), opened(array)
    expected = {f"class_{i[0]:02d}/{i[1]}/{i[2]}_{i[3]}": icon_pixels(i) for i in icons()}
    for first, second in zip(one, other, strict=True):
        np.testing.assert_array_equal(pixels(one, first), expected[first.id])
        np.testing.assert_array_equal(pixels(other, second), expected[first.id])
    assert one.labels.classes == other.labels.classes == 50
    assert one.labels.names == tuple(map(class_folder, range(50)))
    assert (notices_of(one), notices_of(other)) == ((), ())


@pytest.mark.parametrize(
    ("protocol", "is_held_out"),
    [
        ("style:microsoft", lambda icon: icon[1] == "microsoft"),
        ("subclass", lambda icon: icon[3] == "duck"),
        ("rendition", lambda icon: icon[2] == "2"),
    ],
)
def test_protocols_hold_out_exactly_their_icons(folders: Path, array: Path, protocol: str, is_held_out) -> None:
    for place in (folders, array):
        for part in ("seen", "held_out"):
            found = {id_ for id_, *_ in listed(place, protocol=protocol, part=part)}
            wanted = [icon for icon in icons() if is_held_out(icon) == (part == "held_out")]
            assert found == {f"class_{i[0]:02d}/{i[1]}/{i[2]}_{i[3]}" for i in wanted}


def test_nothing_is_told_where_both_rules_agree_or_there_are_no_paths(folders: Path, array: Path) -> None:
    for place in (folders, array):
        source = opened(place, protocol="style:microsoft", part="seen")
        assert list(source)
        assert notices_of(source) == ()


def write_named(root: Path, *names: str, **settings: Any) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4)).save(root / name)
    return root


def test_substring_matching_is_the_rule_of_the_program_and_the_difference_is_told(tmp_path: Path) -> None:
    names = ["monkey/apple_1_face.png", "clock/apple_1_watch.png", "clock/apple_1_stopwatch.png", "clock/apple_1_x.png"]
    write_named(tmp_path, *names)
    exact = opened(tmp_path, protocol="subclass", part="held_out")
    assert [image.origin for image in exact] == ["clock/apple_1_watch.png"]
    program = opened(tmp_path, protocol="subclass", part="held_out", matching="substring")
    assert {image.origin for image in program} == {*names[:3]}
    rest = opened(tmp_path, protocol="subclass", part="seen", matching="substring")
    assert [image.origin for image in rest] == names[3:]
    for source in (exact, program, rest):
        assert "2 icons would be in the other part with another source.matching" in notices_of(source)


def test_substring_matching_of_renditions_and_styles(tmp_path: Path) -> None:
    write_named(tmp_path, "a/apple_1_top_25.png", "a/apple_2_x.png", "a/apple_1_x.png", "pineapple/lg_1_x.png")
    for protocol, by_field, by_substring in (("rendition", 1, 2), ("style:apple", 3, 4)):
        options = {"protocol": protocol, "part": "held_out"}
        assert len(listed(tmp_path, **options)) == by_field
        assert len(listed(tmp_path, **options, matching="substring")) == by_substring


# Transparency


def write_transparent(root: Path, mode: str = "RGBA") -> Path:
    """Write an icon whose left half is red and transparent, and whose right half is half blue."""
    data = np.zeros((8, 8, 4), np.uint8)
    data[:, :4] = (255, 0, 0, 0)
    data[:, 4:] = (0, 0, 255, 128)
    path = root / "a" / "apple_1_x.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(data)
    (image.quantize(4) if mode == "P" else image).save(path)
    return root


@pytest.mark.parametrize("mode", ["RGBA", "P"])
def test_transparent_pixels_are_laid_on_white(tmp_path: Path, mode: str) -> None:
    source = opened(write_transparent(tmp_path, mode))
    (image,) = source
    found = pixels(source, image)
    assert (found[:, :4] == 255).all()
    assert (found[:, 4:] == (127, 127, 255)).all()
    assert found.flags.c_contiguous


def test_alpha_is_rounded_to_the_nearest_level(tmp_path: Path) -> None:
    levels, alpha = (grid.astype(np.uint8) for grid in np.mgrid[0:256, 0:256])
    (tmp_path / "a").mkdir()
    Image.fromarray(np.stack([levels, levels, levels, alpha], 2)).save(tmp_path / "a" / "x_1_x.png")
    source = opened(tmp_path)
    (image,) = source
    exact = (levels.astype(int) * alpha + 255 * (255 - alpha.astype(int))) / 255
    assert np.abs(pixels(source, image)[..., 0] - exact).max() <= 0.5


def test_a_transparent_level_of_16_bit_grey_is_laid_on_white(tmp_path: Path) -> None:
    """Pillow would clip the other levels to white as well."""
    (tmp_path / "a").mkdir()
    levels = np.array([[0x1234, 0x8000]] * 2, np.uint16)
    Image.fromarray(levels).save(tmp_path / "a" / "apple_1_x.png", transparency=0x1234)
    source = opened(tmp_path)
    (image,) = source
    assert pixels(source, image).tolist() == [[[255] * 3, [0x80] * 3]] * 2


def test_opaque_icons_are_read_as_they_are(tmp_path: Path) -> None:
    write_named(tmp_path, "a/apple_1_x.png")
    source = opened(tmp_path)
    (image,) = source
    assert source.read(image) == (tmp_path / "a" / "apple_1_x.png").read_bytes()


# Odd and hostile input


def test_names_without_fields_fail_when_they_are_read(tmp_path: Path) -> None:
    write_named(tmp_path, "a/apple_1_x.png", "a/loose.png", "a/two_words.png", "b/google_1_x.png", "b/lg__x.png")
    (tmp_path / "README.txt").write_text("text")
    (tmp_path / "a" / "notes.txt").write_text("text")
    seen = opened(tmp_path, protocol="style:google", part="seen")
    assert [image.id for image in seen] == [
        "class_00/apple/1_x", "class_00/loose", "class_00/two_words", "class_01/lg__x",
    ]  # fmt: skip
    assert seen.ignored[".txt"] == 2
    for image in list(seen)[1:]:
        with pytest.raises(SampleError, match="the name of the file is not <style>_<rendition>_<subtype>"):
            seen.read(image)


def test_another_number_of_classes_is_told(tmp_path: Path) -> None:
    for place in (write_icon_folders(tmp_path / "f", 3), write_icon_array(tmp_path / "a", icon_arrays(3))):
        source = opened(place)
        assert len(list(source)) == 24
        assert notices_of(source) == ("3 classes of icons instead of 50",)


def test_of_array_and_folders_the_array_is_read(tmp_path: Path, array: Path) -> None:
    write_icon_folders(tmp_path, 2)
    shutil.copy(array / "Icons-50.npy", tmp_path)
    source = opened(tmp_path)
    assert len(list(source)) == 400
    assert notices_of(source) == (f"{tmp_path}/Icons-50.npy is read; the folders beside it are not",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocol": "style:nokia", "part": "seen"}, "no icon of the style 'nokia'; it has 'apple', 'google', 'micro"),
        ({"protocol": "subclass"}, "needs source.part: give them with --set"),
        ({"part": "seen"}, "needs source.protocol"),
        ({"matching": "field"}, "needs source.protocol and source.part"),
    ],
)
def test_invalid_options_are_refused(folders: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        listed(folders, **options)


def test_the_array_has_no_paths_to_search(array: Path) -> None:
    with pytest.raises(UserError, match=r"source.matching=substring searches: give the class folders"):
        listed(array, protocol="subclass", part="seen", matching="substring")


def test_an_empty_part_is_refused(tmp_path: Path) -> None:
    write_named(tmp_path, "a/apple_1_x.png")
    with pytest.raises(UserError, match="the part held_out of the protocol rendition is empty"):
        listed(tmp_path, protocol="rendition", part="held_out")


def test_a_folder_without_icons_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has neither Icons-50.npy nor class folders"):
        opened(tmp_path)


class Attack:
    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self._marker}",)


def hostile(marker: Path) -> Iterator[bytes]:
    """Yield files whose pickle calls a function: as the content, in a field, in an array of objects, without header."""
    content = icon_arrays(2)
    objects = np.empty(1, object)
    objects[0] = Attack(marker)
    for attack in (Attack(marker), {**content, "style": Attack(marker)}, {**content, "subtype": objects}):
        file = io.BytesIO()
        np.save(file, np.array(attack, dtype=object))
        yield file.getvalue()
        yield pickle.dumps(attack)


def test_an_array_whose_pickle_calls_a_function_is_refused(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    for data in hostile(marker):
        (tmp_path / "Icons-50.npy").write_bytes(data)
        with pytest.raises(
            UserError, match=r"Icons-50.npy is damaged or unsafe: .*system, which data sets do not need"
        ):
            listed(tmp_path)
    assert not marker.exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image": None}, "'image' .* is not a uint8 array"),
        ({"image": np.zeros((16, 32, 32, 3), np.uint8)}, "is not a uint8 array of shape"),
        ({"image": np.zeros((16, 3, 32, 32), np.float32)}, "is not a uint8 array"),
        ({"image": np.zeros((16, 3, 0, 32), np.uint8)}, r"shape \(16, 3, 0, 32\), without pixels: download it again"),
        ({"class": [0]}, "'class' .* must be 16 labels"),
        ({"class": [-1] * 16}, "image 0, has no class"),
        ({"class": [10**9] * 16}, "invalid label 1000000000"),
        ({"style": None}, "'style' .* must be 16 texts"),
        ({"style": [None] * 16}, "'style' .* must be 16 texts"),
        ({"style": [[]] * 16}, "'style' .* must be 16 texts"),
        ({"style": ["../x"] * 16}, "invalid field '../x'"),
        ({"style": [""] * 16}, "invalid field ''"),
        ({"subtype": ["a\nb"] * 16}, "control character"),
        ({"subtype": ["x"] * 16}, "have the same id"),
    ],
)
def test_damaged_arrays_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    write_icon_array(tmp_path, icon_arrays(2) | changes)
    with pytest.raises(UserError, match=message):
        listed(tmp_path)


@pytest.mark.parametrize("kind", [list, tuple, np.array, lambda values: np.array(values, dtype=object)])
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_fields_can_be_lists_and_arrays(tmp_path: Path, kind, protocol: int) -> None:
    content = icon_arrays(2)
    fields = {key: kind(content[key]) for key in ("class", "style", "subtype")}
    rendition = kind([int(number) for number in content["rendition"]])
    (tmp_path / "Icons-50.npy").write_bytes(pickle.dumps(content | fields | {"rendition": rendition}, protocol))
    assert listed(tmp_path) == listed(write_icon_array(tmp_path / "lists", content))
