import io
import time
import zlib

import av
import numpy as np
import pytest
from PIL import Image

from manifests.limits import MAX_SAMPLE_PIXELS, OK_ROWS
from pipeline.datasets.base import MAX_PAYLOAD_BYTES
from pipeline.images.decoders import MAX_PIXELS
from pipeline.images.encoder import Encoder
from pipeline.images.encoders import MAX_FRAMES, Jpeg, Mp4, Npy, Png, decode_members, encode_members

SIZES = [(224, 224), (16, 16), (17, 33), (299, 299), (64, 63)]


def picture(height: int, width: int) -> np.ndarray:
    rows, columns = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(height).integers(0, 50, (height, width, 3))
    return (np.stack([rows, columns, rows + columns], axis=2) % 200 + noise).astype(np.uint8)


def sequence(frames: int = 5, height: int = 48, width: int = 64) -> np.ndarray:
    return np.stack([np.roll(picture(height, width), index, axis=1) for index in range(frames)])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("quality", "optimize"), [(85, True), (85, False), (10, True), (100, True)])
def test_jpeg_bytes_equal_pillow(size: tuple[int, int], quality: int, optimize: bool) -> None:
    image, buffer = picture(*size), io.BytesIO()
    Image.fromarray(image).save(buffer, "JPEG", quality=quality, optimize=optimize)
    assert Jpeg(quality=quality, optimize=optimize).encode(image) == buffer.getvalue()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("quality", [5, 50, 85, 100])
def test_jpeg_pixels_equal_pillow(size: tuple[int, int], quality: int) -> None:
    encoder = Jpeg(quality=quality)
    data = encoder.encode(picture(*size))
    with Image.open(io.BytesIO(data)) as image:
        np.testing.assert_array_equal(encoder.decode(data), np.asarray(image))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("compression", [0, 3, 9])
def test_png_is_lossless_and_readable_by_pillow(size: tuple[int, int], compression: int) -> None:
    encoder, image = Png(compression=compression), picture(*size)
    data = encoder.encode(image)
    np.testing.assert_array_equal(encoder.decode(data), image)
    with Image.open(io.BytesIO(data)) as read:
        np.testing.assert_array_equal(np.asarray(read), image)


@pytest.mark.parametrize("array", [picture(17, 33), sequence()], ids=["image", "sequence"])
def test_npy_is_lossless_in_both_layouts(array: np.ndarray) -> None:
    rows_first, channels_first = Npy().encode(array), Npy(layout="CHW").encode(array)
    np.testing.assert_array_equal(np.load(io.BytesIO(rows_first)), array)
    np.testing.assert_array_equal(np.load(io.BytesIO(channels_first)), np.moveaxis(array, -1, -3))
    np.testing.assert_array_equal(Npy().decode(rows_first), array)
    np.testing.assert_array_equal(Npy(layout="CHW").decode(channels_first), array)


def test_a_sequence_has_one_member_per_frame_or_one_member() -> None:
    frames = sequence()
    members = encode_members(Png(), frames)
    assert list(members) == [f".{index:03d}.png" for index in range(5)]
    np.testing.assert_array_equal(decode_members(Png(), members), frames)
    members = encode_members(Npy(), frames)
    assert list(members) == [".npy"]
    np.testing.assert_array_equal(decode_members(Npy(), members), frames)
    assert list(encode_members(Jpeg(), frames[0])) == [".jpg"]
    assert decode_members(Jpeg(), encode_members(Jpeg(), frames[:1])).shape == (1, 48, 64, 3)


@pytest.mark.parametrize(("height", "width"), [(48, 64), (33, 47)])
def test_mp4_keeps_frames_and_full_chroma(height: int, width: int) -> None:
    frames = sequence(31, height, width)
    data = Mp4().encode(frames)
    decoded = Mp4().decode(data)
    assert decoded.shape == frames.shape
    # crf 20 loses some of the noise, but every frame stays closest to its original
    assert np.abs(decoded.astype(int) - frames).mean() < 6
    for index in (1, 15, 29):
        distances = [np.abs(decoded[index].astype(int) - frame).mean() for frame in frames]
        assert int(np.argmin(distances)) == index


def test_mp4_has_the_published_settings() -> None:
    plain, grainy = Mp4().encode(sequence()), Mp4().encode(sequence(), grain=True)
    for settings in (b"ref=16", b"me=umh", b"subme=10", b"trellis=2", b"crf=20.0", b"psy_rd=1.00:0.00", b"threads=1 "):
        assert settings in plain
    for settings in (b"crf=23.0", b"deblock=1:-2:-2", b"psy_rd=1.00:0.25"):
        assert settings in grainy
    assert b"subme=7" in Mp4(preset="medium").encode(sequence())


def test_mp4_lossless_setting_is_near_lossless() -> None:
    """The conversion between RGB and YUV is not lossless."""
    frames = sequence()
    decoded = Mp4(crf=0, preset="ultrafast").decode(Mp4(crf=0, preset="ultrafast").encode(frames))
    assert np.abs(decoded.astype(int) - frames).max() <= 4


@pytest.mark.slow
def test_mp4_bytes_do_not_depend_on_memory_contents() -> None:
    """The vector code of x264 read uninitialised memory before its CPU-independent mode was set."""
    moving = np.stack([np.roll(picture(224, 224), index, axis=1) for index in range(12)])
    first = Mp4().encode(moving)
    for size in (20, 48, 96):
        Mp4(preset="medium").decode(Mp4(preset="medium").encode(sequence(3, size, size)))
        Mp4().decode(first)
        assert Mp4().encode(moving) == first
        assert Mp4().encode(moving, grain=True) == Mp4().encode(moving, grain=True)


@pytest.mark.parametrize("encoder", [Jpeg(), Png(), Npy(), Mp4()], ids=lambda encoder: encoder.name)
@pytest.mark.parametrize("data", [b"", b"no picture at all", bytes(1000)])
def test_invalid_payloads_raise(encoder: Encoder, data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the message depends on the library
        encoder.decode(data)


@pytest.mark.parametrize("encoder", [Jpeg(), Png(), Npy(), Mp4()], ids=lambda encoder: encoder.name)
def test_truncated_payloads_raise(encoder: Encoder) -> None:
    data = encoder.encode(sequence() if encoder.whole_sequence else picture(64, 64))
    with pytest.raises(ValueError):  # noqa: PT011 - the message depends on the library
        encoder.decode(data[: len(data) // 2])


def test_payloads_that_declare_large_sizes_raise() -> None:
    jpeg = Jpeg().encode(picture(64, 64))
    start = jpeg.index(b"\xff\xc0") + 5
    with pytest.raises(ValueError, match="more than"):
        Jpeg().decode(jpeg[:start] + b"\xff\xdc\xff\xdc" + jpeg[start + 4 :])
    png = Png().encode(picture(64, 64))
    with pytest.raises(ValueError, match="more than"):
        Png().decode(png[:16] + (60_000).to_bytes(4, "big") * 2 + png[24:])
    npy = Npy().encode(picture(64, 64))
    with pytest.raises(ValueError, match="not complete"):
        Npy().decode(npy.replace(b"(64, 64, 3)", b"(64, 64, 9)"))
    with pytest.raises(ValueError, match="more than"):
        Mp4().decode(Mp4(preset="ultrafast").encode(np.zeros((1001, 16, 16, 3), np.uint8)))


def test_a_pickled_array_runs_no_code(tmp_path) -> None:
    class Exploit:
        def __reduce__(self):
            return open, (str(tmp_path / "run"), "w")

    buffer = io.BytesIO()
    np.save(buffer, np.array([Exploit()]), allow_pickle=True)
    with pytest.raises(ValueError, match="not uint8 images"):
        Npy().decode(buffer.getvalue())
    assert not (tmp_path / "run").exists()


def png_chunk(kind: bytes, content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + kind + content + zlib.crc32(kind + content).to_bytes(4, "big")


@pytest.mark.parametrize("start", [b"zTXtk\0\0", b"iTXtk\0\1\0\0\0", b"iCCPk\0\0", b"tEXtk\0"])
def test_text_chunks_of_a_png_are_not_decompressed(start: bytes) -> None:
    image, bomb = picture(16, 16), zlib.compress(bytes(7_900_000), 9)
    png = Png().encode(image)
    end = 8 + 25  # signature and IHDR
    texts = b"".join(png_chunk(start[:4], b"%d" % index + start[4:] + bomb) for index in range(300))
    start_time = time.process_time()
    np.testing.assert_array_equal(Png().decode(png[:end] + texts + png[end:]), image)
    assert time.process_time() - start_time < 2


def test_a_jpeg_with_too_many_scans_raises() -> None:
    buffer = io.BytesIO()
    Image.fromarray(np.zeros((2000, 2000, 3), np.uint8)).save(buffer, "JPEG", progressive=True)
    valid = buffer.getvalue()
    scan = valid[valid.rindex(b"\xff\xda") : -2]
    assert Jpeg().decode(valid).shape == (2000, 2000, 3)
    for decode in (Jpeg().decode, lambda data: Jpeg().decode_into(data, np.empty((2000, 2000, 3), np.uint8))):
        with pytest.raises(ValueError, match=r"\d+ scans of 2000 x 2000 pixels are more than"):
            decode(valid[:-2] + scan * 2000 + valid[-2:])


def npy_file(header: str, pixels: int = 48) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(pixels)


VALID_NPY = "{'descr': '|u1', 'fortran_order': False, 'shape': (4, 4, 3), }\n"


@pytest.mark.parametrize(
    "header",
    [
        *("{" * 900, "-" * 900 + "1", "(" * 900, "[" * 900 + "]" * 90, "lambda: 1", "\0" * 20),
        VALID_NPY.replace("4, 4, 3", "0, 4, 3"),
        VALID_NPY.replace("4, 4, 3", "-4, -4, 3"),
        VALID_NPY.replace("4, 4, 3", "9" * 500 + ", 4, 3"),
        VALID_NPY.replace("4, 4, 3", "12, 4, 1"),
        VALID_NPY.replace("4, 4, 3", "48,"),
        VALID_NPY.replace("False", "True"),
        VALID_NPY.replace("|u1", "|O"),
    ],
)
def test_invalid_array_headers_raise(header: str) -> None:
    assert Npy().decode(npy_file(VALID_NPY)).shape == (4, 4, 3)
    with pytest.raises(ValueError, match="uint8"):
        Npy().decode(npy_file(header))


@pytest.mark.slow
def test_too_many_video_frames_raise() -> None:
    """A fragmented MP4 does not declare its number of frames, and a declared number can be forged."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4", options={"movflags": "frag_keyframe+empty_moov"}) as container:
        stream = container.add_stream("libx264", rate=1, options={"preset": "ultrafast"})
        stream.height = stream.width = 16
        for _ in range(MAX_FRAMES + 20):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((16, 16, 3), np.uint8), format="rgb24")))
        container.mux(stream.encode())
    with pytest.raises(ValueError, match=f"{MAX_FRAMES + 1} frames of 16 x 16 pixels are more than"):
        Mp4().decode(buffer.getvalue())
    valid = bytearray(Mp4(preset="ultrafast").encode(sequence()))
    many = (400_000_000).to_bytes(4, "big")
    for box, offset in ((b"stsz", 12), (b"stsc", 16), (b"stts", 12)):
        position = valid.index(box) + offset
        valid[position : position + 4] = many
    valid[valid.index(b"stsz") + 11] = 1  # the same size for all frames
    with pytest.raises(ValueError, match="400000000 frames of 64 x 48 pixels are more than"):
        Mp4().decode(bytes(valid))


def test_total_pixels_of_frames_are_limited() -> None:
    frame = Png().encode(np.zeros((4096, 4096, 3), np.uint8))
    members = {f".{index:03d}.png": frame for index in range(5)}
    with pytest.raises(ValueError, match="5 frames of 4096 x 4096 pixels are more than"):
        decode_members(Png(), members)
    with pytest.raises(ValueError, match="different sizes"):
        decode_members(Png(), {".000.png": Png().encode(picture(16, 16)), ".001.png": Png().encode(picture(16, 17))})


def test_limits_of_manifests_and_encoders_are_equal() -> None:
    assert OK_ROWS["frames"].highest == MAX_FRAMES
    assert OK_ROWS["size"].highest == MAX_PAYLOAD_BYTES
    assert MAX_SAMPLE_PIXELS == MAX_PIXELS
