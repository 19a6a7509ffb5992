import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipeline.errors import SampleError, UserError
from pipeline.images.decoders import DECODERS
from pipeline.images.resizers import OPERATORS
from pipeline.transforms import imagenet_s as system_noise
from pipeline.transforms.family import Pair
from pipeline.transforms.imagenet_s import DECODER_PAIRS, GROUPS, PAIRS, RESIZE_PAIRS, differences, render
from tests.factories.images import INSTALLED, encoded, photograph

FFMPEG_LEVELS = 2

BICUBIC_LEVELS = 1
"""The published arrays were computed with Intel's IPP, whose pixels differ between CPUs."""


@pytest.fixture(scope="module")
def golden(shared: Path) -> dict[str, np.ndarray]:
    with np.load(shared / "golden" / "imagenet_s.npz") as archive:
        return dict(archive)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_pixels_equal_the_published_arrays(golden: dict[str, np.ndarray], index: int) -> None:
    data = golden[f"{index}/source"].tobytes()
    for decoder in ("pillow", "opencv", "ffmpeg"):
        difference = np.abs(render(data, decoder).astype(int) - golden[f"{index}/decoder/{decoder}"]).max()
        assert difference <= (FFMPEG_LEVELS if decoder == "ffmpeg" else 0)
    for resize in OPERATORS:
        difference = np.abs(render(data, resize=resize).astype(int) - golden[f"{index}/resize/{resize}"]).max()
        assert difference <= (BICUBIC_LEVELS if resize == "opencv-bicubic" else 0)


def test_the_golden_file_has_no_other_arrays(golden: dict[str, np.ndarray]) -> None:
    items = ["source", *(f"decoder/{name}" for name in ("pillow", "opencv", "ffmpeg"))]
    items += [f"resize/{name}" for name in OPERATORS]
    assert set(golden) == {f"{index}/{item}" for index in range(3) for item in items}


def test_only_pairs_with_opencv_bicubic_have_a_second_version() -> None:
    second = {name for name in PAIRS if system_noise.FAMILY.version(name) != 1}
    assert second == {name for name, pair in PAIRS.items() if pair.resize == "opencv-bicubic"}
    assert {system_noise.FAMILY.version(name) for name in second} == {2}


def test_groups_contain_the_pairs_of_the_paper() -> None:
    assert len(GROUPS["paper"]) == 13
    assert len(GROUPS["full"]) == 33
    assert len(PAIRS) == len(DECODERS) * len(OPERATORS) == 55
    assert set(GROUPS["paper"]) == {*DECODER_PAIRS, *RESIZE_PAIRS} <= set(GROUPS["full"])
    assert str(Pair("opencv", "pillow-bilinear")) == "opencv_pillow-bilinear"
    assert not any(character in name for name in PAIRS for character in "./, ")


@pytest.mark.parametrize("decoder", INSTALLED)
def test_every_pair_renders_every_file_format(decoder: str) -> None:
    for resize in OPERATORS:
        picture = Image.fromarray(photograph(90, 61))
        files = [
            encoded(picture, "JPEG", subsampling=2),
            encoded(picture.convert("L"), "JPEG"),
            encoded(picture.convert("CMYK"), "JPEG"),
            encoded(picture),
        ]
        for data in files:
            image = render(data, decoder, resize, side=56)
            assert image.dtype == np.uint8
            assert image.shape == (56, 56, 3)
            assert np.abs(image.astype(int) - render(data, side=56)).mean() < 12


@pytest.mark.parametrize(("side", "resized"), [(224, 256), (299, 341), (32, 36), (1, 1)])
def test_default_preparation_resizes_and_crops(side: int, resized: int) -> None:
    data = encoded(Image.fromarray(photograph(70, 110)))
    with Image.open(io.BytesIO(data)) as image:
        whole = np.asarray(image.resize((resized, resized), Image.Resampling.BILINEAR))
    start = round((resized - side) / 2)
    np.testing.assert_array_equal(render(data, side=side), whole[start : start + side, start : start + side])


def test_invalid_input_names_the_value() -> None:
    data = encoded(Image.fromarray(photograph(20, 20)))
    with pytest.raises(UserError, match="unknown resize operator 'magic'; allowed: pillow-nearest"):
        render(data, resize="magic")
    with pytest.raises(UserError, match="unknown decoder 'magic'"):
        render(data, "magic")
    for side in (0, 2.5, True, 10**6, float("nan")):
        with pytest.raises(ValueError, match=f"invalid side {side}: use an integer from 1 to 7168"):
            render(data, side=side)
    with pytest.raises(UserError, match="invalid data of type str: pass the content of an image file as bytes"):
        render("photograph.jpg")
    with pytest.raises(SampleError, match="empty"):
        render(b"")


def test_differences_are_relative_to_the_default() -> None:
    photographs = [encoded(Image.fromarray(photograph(80, 90 + index)), "JPEG", subsampling=2) for index in range(2)]
    rows = {row.pair: row for row in differences(photographs, side=64)}
    assert len(rows) == len(INSTALLED) - 1 + len(OPERATORS) - 1
    row = rows[Pair("pillow", "opencv-area")]
    difference = [
        np.abs(render(d, resize="opencv-area", side=64).astype(int) - render(d, side=64)) for d in photographs
    ]
    assert row.mean == pytest.approx(np.mean(difference))
    assert row.largest == np.max(difference)


def test_the_published_table_names_known_pairs() -> None:
    measured = system_noise.published_differences()
    assert {row["name"] for row in measured["pairs"]} <= set(PAIRS)
    assert "photographs" in measured["measured_on"]
