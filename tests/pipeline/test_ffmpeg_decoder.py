"""The decoder ``ffmpeg`` against FFmpeg's own decoding on x86-64, which it reproduces on every CPU."""

import platform

import av
import numpy as np
import pytest
import simplejpeg
from av.video.reformatter import ColorRange
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from corruptions.kernels.colour import ycbcr
from pipeline.errors import SampleError
from pipeline.images import decoders
from pipeline.images.decoders import decode
from tests.factories.images import encoded, photograph

pytestmark = pytest.mark.slow

on_x86_64 = pytest.mark.skipif(
    platform.machine() not in {"x86_64", "AMD64"}, reason="FFmpeg's own decoding gives other pixels on this CPU"
)

STEPS = {"4:4:4": (1, 1), "4:2:2": (1, 2), "4:2:0": (2, 2), "4:4:0": (2, 1), "4:1:1": (1, 4)}
"""Rows and columns of pixels that share a chroma value."""

COMMENTS = {"full range": b"", "limited range": b"CS=ITU601", "rows from bottom to top": b"Metasoft MJPEG Codec"}
"""Comments in a JPEG that change how FFmpeg decodes it."""


def frame_of(data: bytes, **options: str) -> av.VideoFrame:
    """Return the frame that FFmpeg decodes."""
    codec = av.CodecContext.create("mjpeg", "r")
    codec.options = options
    return [*codec.decode(av.Packet(data)), *codec.decode(None)][0]


def converted(frame: av.VideoFrame) -> np.ndarray:
    """Return the pixels of a frame as FFmpeg's command converts them."""
    return frame.reformat(format="rgb24", interpolation="BICUBIC").to_ndarray()


def with_comment(data: bytes, comment: bytes) -> bytes:
    """Return a JPEG with a comment after its first marker."""
    return data[:2] + b"\xff\xfe" + (len(comment) + 3).to_bytes(2, "big") + comment + b"\0" + data[2:]


def squares(height: int, width: int, side: int, seed: int) -> np.ndarray:
    """Return squares of random channels, half of them 0 or 255, uint8 (H, W, 3)."""
    generator = np.random.default_rng(seed)
    levels = generator.integers(0, 256, (height // side + 1, width // side + 1, 3))
    extreme = generator.random(levels.shape) < 0.5
    levels[extreme] = 255 * (levels[extreme] > 127)
    return levels.astype(np.uint8).repeat(side, 0).repeat(side, 1)[:height, :width]


def encoded_planes(image: np.ndarray, chroma: str, quality: int) -> bytes:
    """Return a JPEG whose planes are the channels of an image, so that colours outside of RGB occur too."""
    down, across = STEPS[chroma]
    luma, cb, cr = image[..., 0], image[::down, ::across, 1], image[::down, ::across, 2]
    return simplejpeg.encode_jpeg_yuv_planes(*map(np.ascontiguousarray, (luma, cb, cr)), quality)


@on_x86_64
@pytest.mark.parametrize("name", sorted(decoders.HALF_WIDTH_CHROMA))
def test_every_combination_of_levels_is_converted_as_by_ffmpeg(name: str) -> None:
    """Columns have all values of Cb for two pixels each, groups of 128 rows those of Cr, rows all pairs of luma."""
    frame = av.VideoFrame(512, 256 * 128, name)
    full_range = name.startswith("yuvj")
    frame.color_range = ColorRange.JPEG if full_range else ColorRange.MPEG
    luma, cb, cr = (decoders._rows(plane) for plane in frame.planes)
    luma[:, :512] = 2 * (np.arange(frame.height)[:, None] % 128) + np.arange(512) % 2
    cb[:, :256] = np.arange(256)
    cr[:, :256] = np.repeat(np.arange(256), len(cr) // 256)[:, None]
    np.testing.assert_array_equal(ycbcr.to_rgb(luma, cb, cr, 512, full_range), converted(frame))


@on_x86_64
@settings(max_examples=300)
@given(
    size=st.tuples(st.integers(1, 300), st.integers(1, 300)) | st.tuples(st.integers(1, 35), st.integers(1, 35)),
    side=st.sampled_from([1, 3, 8, 21]),
    chroma=st.sampled_from([*STEPS]),
    comment=st.sampled_from([*COMMENTS]),
    quality=st.integers(1, 100),
    seed=st.integers(0, 2**32 - 1),
)
def test_pixels_are_those_of_ffmpeg(
    size: tuple[int, int], side: int, chroma: str, comment: str, quality: int, seed: int
) -> None:
    data = with_comment(encoded_planes(squares(*size, side, seed), chroma, quality), COMMENTS[comment])
    np.testing.assert_array_equal(decode(data, "ffmpeg"), converted(frame_of(data)))


@on_x86_64
@pytest.mark.parametrize("settings", [{"subsampling": 0}, {"subsampling": 1}, {"subsampling": 2}, {"keep_rgb": True}])
@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("coarse", [False, True])
def test_planes_of_the_simple_inverse_dct_are_those_of_the_default(
    settings: dict[str, object], progressive: bool, coarse: bool
) -> None:
    """Coarse quantisation gives coefficients that no image has."""
    tables = {"qtables": [[255] * 64] * 2} if coarse else {"quality": 95}
    for height, width in ((1, 1), (2, 3), (40, 57), (61, 83)):
        image = Image.fromarray(squares(height, width, 1, seed=height))
        data = encoded(image, "JPEG", progressive=progressive, **settings, **tables)
        default, simple = frame_of(data), frame_of(data, idct="simple")
        for one, other in zip(default.planes, simple.planes, strict=True):
            assert bytes(one) == bytes(other)
        np.testing.assert_array_equal(decode(data, "ffmpeg"), converted(default))


@on_x86_64
@pytest.mark.parametrize("chroma", ["4:2:0", "4:2:2", "4:4:4"])
def test_damaged_files_give_the_pixels_of_ffmpeg(chroma: str) -> None:
    data = encoded_planes(squares(64, 80, 5, seed=1), chroma, 90)
    generator = np.random.default_rng(7)
    start, decoded = data.index(b"\xff\xda") + 14, 0
    for _ in range(60):
        damaged = bytearray(data)
        for position in generator.integers(start, len(data) - 2, 4):
            damaged[position] = int(generator.integers(0, 255))
        try:
            pixels = decode(bytes(damaged), "ffmpeg")
        except SampleError:
            continue
        decoded += 1
        np.testing.assert_array_equal(pixels, converted(frame_of(bytes(damaged))))
    assert decoded > 30


def test_rows_from_bottom_to_top_are_reversed() -> None:
    data = encoded(Image.fromarray(photograph(32, 48)), "JPEG")
    flipped = with_comment(data, COMMENTS["rows from bottom to top"])
    np.testing.assert_array_equal(decode(flipped, "ffmpeg"), decode(data, "ffmpeg")[::-1])


def test_unsupported_pixel_formats_fail_with_their_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoders, "OTHER_FORMATS", frozenset())
    data = encoded(Image.fromarray(photograph(32, 48)), "JPEG", subsampling=0)
    with pytest.raises(SampleError, match=r"cannot be decoded by ffmpeg: .*unsupported pixel format yuvj444p"):
        decode(data, "ffmpeg")
