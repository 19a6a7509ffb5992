import io
import shutil
import subprocess
from itertools import product
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pipeline.errors import SampleError, UserError
from pipeline.images.decoders import MAX_PIXELS, decode
from pipeline.images.encoders import ENCODERS
from pipeline.images.files import Own
from tests.factories.images import INSTALLED, encoded, photograph

GENERATOR = np.random.default_rng(3)
RGB = GENERATOR.integers(0, 256, (20, 30, 3)).astype(np.uint8)
GREY = RGB[:, :, 0]


def grey_to_rgb(grey: np.ndarray) -> np.ndarray:
    return np.repeat(grey[:, :, None], 3, axis=2)


PICTURE, DEEP = Image.fromarray(RGB), GENERATOR.integers(0, 2**16, (20, 30)).astype(np.uint16)


@pytest.mark.parametrize(
    ("picture", "kinds", "pixels"),
    [
        pytest.param(PICTURE, ["PNG", "PPM", "BMP", "TIFF"], RGB, id="rgb"),
        pytest.param(Image.fromarray(GREY), ["PNG"], grey_to_rgb(GREY), id="grey is copied to three channels"),
        pytest.param(PICTURE.quantize(16), ["PNG"], np.asarray(PICTURE.quantize(16).convert("RGB")), id="palette"),
        pytest.param(
            Image.fromarray(np.dstack([RGB, np.zeros((20, 30), np.uint8)])), ["PNG"], RGB, id="alpha is dropped"
        ),
        pytest.param(
            Image.fromarray(DEEP), ["PNG", "TIFF", "PPM"], grey_to_rgb((DEEP >> 8).astype(np.uint8)), id="high byte"
        ),
    ],
)
def test_lossless_files_give_rgb_pixels(picture: Image.Image, kinds: list[str], pixels: np.ndarray) -> None:
    for kind in kinds:
        np.testing.assert_array_equal(decode(encoded(picture, kind)), pixels)


def test_the_first_frame_of_a_gif_is_read() -> None:
    frames = [Image.fromarray(RGB[start:]).quantize(16).resize((30, 20)) for start in (0, 4)]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    np.testing.assert_array_equal(decode(data), np.asarray(frames[0].convert("RGB")))


def test_the_first_of_several_jpegs_is_decoded_by_the_chosen_decoder() -> None:
    first, second = (Image.fromarray(each) for each in (photograph(64, 48), photograph(64, 48)[::-1]))
    several = encoded(first, "MPO", save_all=True, append_images=[second])
    expected = decode(encoded(first, "JPEG"), "turbo-fast")
    assert (decode(encoded(first, "JPEG")) != expected).any()
    np.testing.assert_array_equal(decode(several, "turbo-fast"), expected)


def test_cmyk_is_converted_as_pillow_does() -> None:
    data = encoded(Image.fromarray(RGB).convert("CMYK"), "JPEG", quality=95)
    with Image.open(io.BytesIO(data)) as image:
        assert image.mode == "CMYK"
        np.testing.assert_array_equal(decode(data), np.asarray(image.convert("RGB")))


SIDE = int(MAX_PIXELS**0.5) + 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"),
        (b"#!/bin/sh\necho no picture\n", "not a supported image format"),
        (encoded(Image.fromarray(RGB))[:-300], "cannot be decoded"),
        # Pillow would start Ghostscript for EPS files.
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n", "not a supported image"),
        (encoded(Image.fromarray(GREY.astype(np.float32)), "TIFF"), "mode F"),
        (encoded(Image.new("1", (SIDE, SIDE))), f"{SIDE} x {SIDE} pixels are more than"),
        # Pillow decodes these in Python.
        *(
            (f"{header}\n".encode(), "5000 x 5000 pixels are more than the 16777216 allowed")
            for header in ("P2 5000 5000 255", "P5 5000 5000 4095", "P6 5000 5000 65535")
        ),
        (b"P2 4096 4096 255\n", "cannot be decoded"),  # as many as are allowed, all missing
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_other_files_and_large_images_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(SampleError, match=message):
        decode(data)


@pytest.mark.parametrize(
    ("kind", "options"),
    [("JPEG", {}), ("PNG", {}), ("TIFF", {}), ("TIFF", {"compression": "tiff_lzw"}), ("WEBP", {"lossless": True})],
)
def test_pixels_are_as_stored_whatever_the_orientation_tag(kind: str, options: dict[str, Any]) -> None:
    for orientation in range(2, 9):
        tags = Image.Exif()
        tags[0x0112] = orientation
        plain, tagged = (encoded(Image.fromarray(RGB), kind, **options, **more) for more in ({}, {"exif": tags}))
        assert plain != tagged
        np.testing.assert_array_equal(decode(tagged), decode(plain))
        if kind in ("JPEG", "PNG"):  # as indexed data sets are read
            np.testing.assert_array_equal(ENCODERS[kind.lower()](name=kind.lower()).decode(tagged), decode(plain))


@pytest.mark.parametrize("decoder", INSTALLED)
def test_every_decoder_reads_every_jpeg(decoder: str) -> None:
    for size in ((1, 1), (8, 8), (17, 33), (64, 63), (100, 81)):
        for subsampling in (0, 1, 2):
            image = photograph(*size)
            data = encoded(Image.fromarray(image), "JPEG", quality=95, subsampling=subsampling)
            decoded = decode(data, decoder)
            assert decoded.dtype == np.uint8
            assert decoded.shape == image.shape
            assert np.abs(decoded.astype(int) - decode(data)).mean() < 6
            progressive = encoded(Image.fromarray(image), "JPEG", quality=95, subsampling=subsampling, progressive=True)
            np.testing.assert_array_equal(decode(progressive, decoder), decoded)


@pytest.mark.parametrize("decoder", INSTALLED)
def test_every_decoder_reads_every_kind_of_file(decoder: str) -> None:
    """Grey JPEGs give equal channels. All other files are decoded by Pillow, whichever decoder is set."""
    grey = decode(encoded(Image.fromarray(photograph(40, 50)[:, :, 0]), "JPEG", quality=95), decoder)
    assert (grey[..., 0] == grey[..., 1]).all()
    assert (grey[..., 0] == grey[..., 2]).all()
    assert np.abs(grey[..., 0].astype(int) - photograph(40, 50)[:, :, 0]).mean() < 3
    picture = Image.fromarray(photograph(40, 50))
    files = [encoded(picture.convert("CMYK"), "JPEG"), encoded(picture), encoded(picture.quantize(16))]
    files += [encoded(picture, kind) for kind in ("BMP", "TIFF", "WEBP", "PPM")]
    for data in files:
        np.testing.assert_array_equal(decode(data, decoder), decode(data))
    tags = Image.Exif()
    tags[0x0112] = 6  # an orientation, which OpenCV would apply
    rotated = decode(encoded(picture, "JPEG", exif=tags), decoder)
    np.testing.assert_array_equal(rotated, decode(encoded(picture, "JPEG"), decoder))


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_files_of_a_mirror_are_decoded_as_by_pillow(mode: str) -> None:
    for size, subsampling, progressive in product(((1, 1), (17, 33), (100, 81)), (0, 1, 2), (False, True)):
        picture = Image.fromarray(photograph(*size)).convert(mode)
        data = encoded(picture, "JPEG", quality=95, subsampling=subsampling, progressive=progressive)
        np.testing.assert_array_equal(Own().decode(data), decode(data))
    with_noise = data.replace(b"\xff\xd9", b"\0\xff\xd9")  # a warning, at which libjpeg-turbo's own interface fails
    np.testing.assert_array_equal(Own().decode(with_noise), decode(data))
    with pytest.raises(ValueError, match="truncated"):
        Own().decode(data[: len(data) // 2] + b"\xff\xd9")


@pytest.mark.parametrize("decoder", INSTALLED)
def test_truncated_jpegs_fail_in_every_decoder(decoder: str) -> None:
    for share in (0.99, 0.9, 0.5, 0.1, 0.01):
        for progressive in (False, True):
            data = encoded(Image.fromarray(photograph(200, 300)), "JPEG", quality=95, progressive=progressive)
            with pytest.raises(SampleError):
                decode(data[: int(len(data) * share)], decoder)
            for mode in ("RGB", "L", "CMYK"):
                data = encoded(
                    Image.fromarray(photograph(200, 300)).convert(mode), "JPEG", quality=95, progressive=progressive
                )
                with pytest.raises(SampleError):
                    decode(data[: int(len(data) * share)] + b"\xff\xd9", decoder)


@pytest.mark.parametrize("decoder", INSTALLED)
def test_intact_grey_corners_and_bytes_before_the_end_marker_are_no_truncation(decoder: str) -> None:
    image = np.full((40, 50, 3), 128, np.uint8)
    data = encoded(Image.fromarray(image), "JPEG")
    np.testing.assert_array_equal(decode(data, decoder), image)
    if decoder != "turbo-fast":  # which fails at any damage
        np.testing.assert_array_equal(decode(data[:-2] + b"12345" + data[-2:], decoder), image)


@pytest.mark.parametrize("decoder", INSTALLED)
def test_damaged_jpegs_give_the_declared_size_or_fail(decoder: str) -> None:
    """After random bytes are changed, the decoder returns an image of the declared size or raises."""
    data = encoded(Image.fromarray(photograph(64, 80)), "JPEG", quality=90)
    generator = np.random.default_rng(5)
    for _ in range(60):
        damaged = bytearray(data)
        for position in generator.integers(2, len(data), 4):
            damaged[position] = int(generator.integers(0, 256))
        try:
            pixels = decode(bytes(damaged), decoder)
        except SampleError:
            continue
        with Image.open(io.BytesIO(damaged)) as image:
            assert pixels.shape == (image.height, image.width, 3)


@pytest.mark.parametrize("decoder", INSTALLED)
def test_every_decoder_refuses_bombs(decoder: str) -> None:
    data = encoded(Image.fromarray(photograph(64, 64)), "JPEG")
    start = data.index(b"\xff\xc0") + 5
    with pytest.raises(SampleError, match=r"bomb|more than"):
        decode(data[:start] + b"\xff\xdc\xff\xdc" + data[start + 4 :], decoder)


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="the ffmpeg command is not installed")
@pytest.mark.parametrize("size", [(64, 80), (61, 83), (224, 301)])
@pytest.mark.parametrize("subsampling", [0, 1, 2, None])
def test_ffmpeg_pixels_equal_the_ffmpeg_command(size: tuple[int, int], subsampling: int | None) -> None:
    """The published generator ran this command with ``-pix_fmt rgb24``. Subsampling None means a grey image."""
    picture = Image.fromarray(photograph(*size))
    settings = {} if subsampling is None else {"subsampling": subsampling}
    data = encoded(picture.convert("L") if subsampling is None else picture, "JPEG", quality=90, **settings)
    command = ["ffmpeg", "-loglevel", "error", "-f", "mjpeg", "-i", "-", "-pix_fmt", "rgb24", "-f", "rawvideo", "-"]
    raw = subprocess.run(command, input=data, capture_output=True, check=True, timeout=60).stdout
    np.testing.assert_array_equal(decode(data, "ffmpeg"), np.frombuffer(raw, np.uint8).reshape(*size, 3))


def test_turbo_fast_differs_more_with_subsampling() -> None:
    """Fast DCT and simple upsampling change pixels by a few levels, less without chroma subsampling."""
    image = Image.fromarray(photograph(100, 120))
    differences = []
    for subsampling in (0, 2):
        data = encoded(image, "JPEG", quality=90, subsampling=subsampling)
        differences.append(np.abs(decode(data, "turbo-fast").astype(int) - decode(data)).mean())
    assert 0 < differences[0] < differences[1] < 5


def test_missing_and_unknown_decoders_name_the_remedy() -> None:
    data = encoded(Image.fromarray(photograph(20, 20)), "JPEG")
    with pytest.raises(UserError, match="unknown decoder 'gd'; allowed: pillow, opencv, ffmpeg, turbo-fast, nvjpeg"):
        decode(data, "gd")
    if "nvjpeg" not in INSTALLED:
        with pytest.raises(UserError, match=r"decoder nvjpeg cannot be used: .*pip install 'nvidia-nvimgcodec"):
            decode(data, "nvjpeg")
