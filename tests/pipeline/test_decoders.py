from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipeline.decoders import MAX_PIXELS, decode
from pipeline.errors import SampleError

GENERATOR = np.random.default_rng(3)
RGB = GENERATOR.integers(0, 256, (20, 30, 3)).astype(np.uint8)
GREY = RGB[:, :, 0]


def encoded(image: Image.Image, kind: str = "PNG", **settings: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **settings)
    return buffer.getvalue()


def repeated(grey: np.ndarray) -> np.ndarray:
    return np.repeat(grey[:, :, None], 3, axis=2)


def test_rgb_is_kept() -> None:
    for kind in ("PNG", "PPM", "BMP", "TIFF"):
        np.testing.assert_array_equal(decode(encoded(Image.fromarray(RGB), kind)), RGB)


def test_grey_is_repeated_in_three_channels() -> None:
    np.testing.assert_array_equal(decode(encoded(Image.fromarray(GREY))), repeated(GREY))


def test_grey_jpeg_has_equal_channels() -> None:
    image = decode(encoded(Image.fromarray(GREY), "JPEG"))
    assert image.shape == (20, 30, 3)
    assert (image[..., 0] == image[..., 1]).all()
    assert (image[..., 0] == image[..., 2]).all()


def test_palette_gives_its_colours() -> None:
    palette = Image.fromarray(RGB).quantize(16)
    np.testing.assert_array_equal(decode(encoded(palette)), np.asarray(palette.convert("RGB")))


def test_alpha_is_dropped_not_blended() -> None:
    alpha = np.dstack([RGB, np.zeros((20, 30), np.uint8)])
    np.testing.assert_array_equal(decode(encoded(Image.fromarray(alpha))), RGB)


def test_cmyk_is_converted_as_pillow_does() -> None:
    data = encoded(Image.fromarray(RGB).convert("CMYK"), "JPEG", quality=95)
    with Image.open(io.BytesIO(data)) as image:
        assert image.mode == "CMYK"
        np.testing.assert_array_equal(decode(data), np.asarray(image.convert("RGB")))


def test_sixteen_bit_grey_keeps_the_high_byte() -> None:
    deep = GENERATOR.integers(0, 2**16, (20, 30)).astype(np.uint16)
    for kind in ("PNG", "TIFF"):
        np.testing.assert_array_equal(
            decode(encoded(Image.fromarray(deep), kind)), repeated((deep >> 8).astype(np.uint8))
        )


def test_float_pixels_fail_with_their_mode() -> None:
    with pytest.raises(SampleError, match="mode F"):
        decode(encoded(Image.fromarray(GREY.astype(np.float32)), "TIFF"))


def test_orientation_tags_are_ignored() -> None:
    tags = Image.Exif()
    tags[0x0112] = 6
    plain, turned = encoded(Image.fromarray(RGB), "JPEG"), encoded(Image.fromarray(RGB), "JPEG", exif=tags)
    assert plain != turned
    np.testing.assert_array_equal(decode(turned), decode(plain))


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_truncated_files_fail(kind: str) -> None:
    data = encoded(Image.fromarray(np.tile(RGB, (10, 10, 1))), kind)
    for length in (len(data) // 2, len(data) // 10, 5):
        with pytest.raises(SampleError):
            decode(data[:length])


def test_empty_and_foreign_bytes_fail() -> None:
    with pytest.raises(SampleError, match="empty"):
        decode(b"")
    with pytest.raises(SampleError, match="not an image"):
        decode(b"#!/bin/sh\necho no picture\n")


def test_formats_that_run_programs_are_not_opened() -> None:
    """EPS would start Ghostscript."""
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"
    with pytest.raises(SampleError, match="not an image"):
        decode(eps)


def test_bombs_are_refused_by_their_header(tmp_path: Path) -> None:
    """A PNG that announces 30,000 x 30,000 pixels in a few bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    bomb = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0" * 1000))
        + chunk(b"IEND", b"")
    )
    with pytest.raises(SampleError, match=r"bomb|more than"):
        decode(bomb)
    side = int(MAX_PIXELS**0.5) + 1
    with pytest.raises(SampleError, match=f"{side} x {side} pixels are more than"):
        decode(encoded(Image.new("1", (side, side))))
