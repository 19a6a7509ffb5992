"""Array -> payload bytes and back: one class per encoder, whose fields are its settings in a recipe."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import Annotated, ClassVar, Literal, get_args

import cv2
import numpy as np
import simplejpeg
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from corruptions import jpeg
from pipeline.images.decoders import MAX_PIXELS, endless_scans

Image = NDArray[np.uint8]
"""RGB (H, W, 3), or the frames of a sequence (T, H, W, 3)."""

MAX_FRAMES = 1000
"""Of a payload that is read back; the longest published sequence has 41."""


MAX_VIDEO_PIXELS = 2**24
"""Of a frame of H.264, of which a decoder holds up to 17."""

NPY_PREFIX, MAX_NPY_HEADER = 10, 1000
"""Bytes: of what stands before the header of a .npy file of version 1.0, and of both together at most."""

_NPY_MAGIC = b"\x93NUMPY\x01\x00"
_NPY_HEADER = re.compile(
    rb"(?=.*'descr': *'[|<=>]?u1')(?=.*'fortran_order': *False)"
    rb"\{.*'shape': *\(((?:[1-9][0-9]{0,8}, *){2,3}[1-9][0-9]{0,8}),?\).*\} *\n?"
)
"""Read by a pattern: NumPy evaluates headers as Python, which deep nesting ends with errors of any kind."""

_PNG_START = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
_PNG_SIGNATURE, _PNG_CHUNK = 8, 12
_PNG_TEXTS = frozenset({b"tEXt", b"zTXt", b"iTXt", b"iCCP"})
"""Chunks that no pixel depends on; compressed ones may unfold for hours."""


class Encoder(BaseModel):
    """How a payload is stored. ``encode`` and ``decode`` are inverse up to the format's own loss.

    ``whole_sequence`` formats keep all frames in one payload, the others have a payload for each frame;
    ``images`` formats take single images too. ``bare`` ones hold the pixels themselves: whoever decodes them gets the
    same. ``decode`` raises ValueError for bytes that are no sound payload.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    suffix: ClassVar[str]
    whole_sequence: ClassVar[bool] = False
    images: ClassVar[bool] = True
    bare: ClassVar[bool] = False

    def __str__(self) -> str:
        """Name and settings, as the manifest has them: ``jpeg quality=85 optimize=true``."""
        settings = self.model_dump(exclude={"name"}, mode="json")
        return " ".join([self.name, *(f"{key}={str(value).lower()}" for key, value in settings.items())])

    def encode(self, image: Image, grain: bool = False) -> bytes:
        """The payload. ``grain`` tells that noise is the content, which some encoders keep by other settings."""
        raise NotImplementedError

    def decode(self, data: bytes) -> Image:
        """What a reader gets from a payload."""
        raise NotImplementedError

    def decode_into(self, data: bytes, place: Image) -> None:
        """Decode into an array that is there. Raises ValueError as ``decode``, and for a payload of another shape."""
        pixels = self.decode(data)
        _require_shape(pixels.shape, place)
        place[...] = pixels


class Jpeg(Encoder):
    """JPEG, 4:2:0 chroma. OpenCV writes the bytes that Pillow writes at the same settings, a little faster.

    ``quality`` 1..100; ``optimize`` computes Huffman tables for each image (smaller files, the same pixels).
    """

    name: Literal["jpeg"] = "jpeg"
    quality: Annotated[int, Field(ge=1, le=100)] = 85
    optimize: bool = True
    suffix = ".jpg"

    def encode(self, image: Image, grain: bool = False) -> bytes:
        """A JPEG file."""
        settings = [cv2.IMWRITE_JPEG_QUALITY, self.quality, cv2.IMWRITE_JPEG_OPTIMIZE, int(self.optimize)]
        return _imencode(self.suffix, image, settings)

    def decode(self, data: bytes) -> Image:
        """The pixels that Pillow gives, faster."""
        height, width, *_ = simplejpeg.decode_jpeg_header(data)
        _refuse_bomb(1, height, width)
        _refuse_scans(data, height, width)
        return jpeg.decode(data, height, width)

    def decode_into(self, data: bytes, place: Image) -> None:
        """As ``decode``, without an array in between."""
        height, width, *_ = simplejpeg.decode_jpeg_header(data)
        _require_shape((height, width, 3), place)
        _refuse_scans(data, height, width)
        simplejpeg.decode_jpeg(data, colorspace="RGB", buffer=place)


class Png(Encoder):
    """PNG, lossless. ``compression`` 0 (none) to 9 (smallest, slowest): the same pixels at each."""

    name: Literal["png"] = "png"
    compression: Annotated[int, Field(ge=0, le=9)] = 3
    suffix = ".png"

    def encode(self, image: Image, grain: bool = False) -> bytes:
        """A PNG file."""
        return _imencode(self.suffix, image, [cv2.IMWRITE_PNG_COMPRESSION, self.compression])

    def decode(self, data: bytes) -> Image:
        """The pixels."""
        if not data.startswith(_PNG_START) or len(data) < 24:
            raise ValueError("not a PNG file")
        width, height = struct.unpack(">II", data[16:24])
        _refuse_bomb(1, height, width)
        try:
            image = cv2.imdecode(np.frombuffer(_without_texts(data), np.uint8), cv2.IMREAD_COLOR)
        except cv2.error as error:
            raise ValueError(f"the PNG file is damaged: {error.err}") from error
        if image is None:
            raise ValueError("the PNG file is damaged")
        return np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB), np.uint8)


class Npy(Encoder):
    """NumPy's array file, lossless: an image, or all frames of a sequence.

    ``layout``: "HWC", or "CHW" with the channels before the rows.
    """

    name: Literal["npy"] = "npy"
    layout: Literal["HWC", "CHW"] = "HWC"
    suffix = ".npy"
    whole_sequence = True
    bare = True

    def encode(self, image: Image, grain: bool = False) -> bytes:
        """A .npy file of uint8."""
        ordered = image if self.layout == "HWC" else np.moveaxis(image, -1, -3)
        return npy_header(ordered.shape) + ordered.tobytes()

    def decode(self, data: bytes) -> Image:
        """The array as (..., H, W, 3). Nothing is unpickled, and no more memory taken than the file has bytes."""
        start = NPY_PREFIX + int.from_bytes(data[8:NPY_PREFIX], "little")
        shape = npy_shape(data[: min(start, MAX_NPY_HEADER)])
        if prod(shape) != len(data) - start or shape[-1 if self.layout == "HWC" else -3] != 3:
            raise ValueError(f"not whole uint8 images of three channels: {shape} in {len(data)} bytes")
        _refuse_bomb(shape[0] if len(shape) == 4 else 1, prod(shape[-3:]) // 3, 1)
        array = np.frombuffer(data, np.uint8, offset=start).reshape(shape)
        return np.array(array if self.layout == "HWC" else np.moveaxis(array, -3, -1), order="C")


class Mp4(Encoder):
    """H.264 in MP4 at one frame a second, full chroma, as ImageNet-P was published: libx264 on one thread.

    ``crf``: quality, 0 (lossless) to 51; published 20. ``grain_crf``: that of noise sequences, which are encoded with
    ``-tune grain``; published 23. ``preset``: x264's; published "veryslow". Source: the ImageNet-P scripts.
    """

    name: Literal["mp4"] = "mp4"
    crf: Annotated[int, Field(ge=0, le=51)] = 20
    grain_crf: Annotated[int, Field(ge=0, le=51)] = 23
    preset: Literal["ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow"] = (
        "veryslow"
    )
    suffix = ".mp4"
    whole_sequence = True
    images = False

    def encode(self, image: Image, grain: bool = False) -> bytes:
        """An MP4 file."""
        import av

        # Without cpu-independent, x264's vector code reads memory that it never wrote: bytes change from run to run.
        options = {"preset": self.preset, "crf": str(self.crf), "x264-params": "cpu-independent=1"}
        if grain:
            options |= {"crf": str(self.grain_crf), "tune": "grain"}
        buffer = io.BytesIO()
        with av.open(buffer, "w", format="mp4", options={"fflags": "+bitexact"}) as container:
            stream = container.add_stream("libx264", rate=1, options=options)
            stream.height, stream.width = image.shape[1:3]
            stream.pix_fmt = "yuv444p"
            stream.codec_context.thread_count = 1
            for frame in image:
                container.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")))
            container.mux(stream.encode())
        return buffer.getvalue()

    def decode(self, data: bytes) -> Image:
        """All frames, (T, H, W, 3)."""
        import av

        frames: list[Image] = []
        try:
            with av.open(io.BytesIO(data), "r", format="mp4") as container:
                stream = container.streams.video[0]
                _refuse_bomb(max(stream.frames, 1), stream.height, stream.width)
                stream.thread_type = "NONE"
                stream.codec_context.options = {"max_pixels": str(MAX_VIDEO_PIXELS)}
                for frame in container.decode(stream):
                    # As they come: what the file says of their number and size need not be true.
                    _refuse_bomb(len(frames) + 1, frame.height, frame.width)
                    frames.append(np.asarray(frame.to_ndarray(format="rgb24"), np.uint8))
        except (av.error.FFmpegError, IndexError) as error:
            raise ValueError(f"not a readable MP4 file: {error}") from error
        if not frames:
            raise ValueError("the MP4 file has no frames")
        return _stacked(frames)


@lru_cache
def npy_shape(header: bytes) -> tuple[int, ...]:
    """The shape that the header of a .npy file tells of. Raises ValueError for other arrays than images of uint8."""
    if not header.startswith(_NPY_MAGIC):
        raise ValueError("not a .npy file of version 1.0")
    told = _NPY_HEADER.fullmatch(header, NPY_PREFIX)
    if told is None:
        raise ValueError(f"not images of uint8: {header[NPY_PREFIX:][:100].strip()!r}")
    return tuple(map(int, told[1].split(b",")))


@lru_cache
def npy_header(shape: tuple[int, ...]) -> bytes:
    """What stands before the pixels of a .npy file of uint8."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return buffer.getvalue()


AnyEncoder = Annotated[Jpeg | Png | Npy | Mp4, Field(discriminator="name")]

ENCODERS: Mapping[str, type[Encoder]] = {
    encoder.model_fields["name"].default: encoder for encoder in get_args(get_args(AnyEncoder)[0])
}
"""Encoder name -> class, of all in ``AnyEncoder``."""


def member_suffixes(encoder: Encoder, frames: int | None) -> tuple[str, ...]:
    """The suffixes of a sample's payload members; ``frames`` is None for a single image.

    A sequence has ``.000.jpg``, ``.001.jpg`` ..., or one member where the format keeps it whole.
    """
    if frames is None or encoder.whole_sequence:
        return (encoder.suffix,)
    return tuple(f".{index:03d}{encoder.suffix}" for index in range(frames))


def encode_members(encoder: Encoder, output: Image, grain: bool = False) -> dict[str, bytes]:
    """An image (H, W, 3) or a sequence (T, H, W, 3) as payload members, suffix -> bytes."""
    suffixes = member_suffixes(encoder, len(output) if output.ndim == 4 else None)
    if output.ndim == 4 and not encoder.whole_sequence:
        return {suffix: encoder.encode(frame, grain) for suffix, frame in zip(suffixes, output, strict=True)}
    return {suffixes[0]: encoder.encode(output, grain)}


def decode_members(encoder: Encoder, members: Mapping[str, bytes]) -> Image:
    """What a reader gets from payload members in their order. Raises ValueError that names the unsound one."""
    if list(members) == [encoder.suffix]:
        return encoder.decode(members[encoder.suffix])
    images: list[Image] = []
    for suffix, data in members.items():
        try:
            images.append(encoder.decode(data))
            _refuse_bomb(len(members), *images[0].shape[:2])
        except ValueError as error:
            raise ValueError(f"{suffix}: {error}") from error
    return _stacked(images)


def _stacked(frames: list[Image]) -> Image:
    if len({frame.shape for frame in frames}) != 1:
        raise ValueError("its frames have different sizes")
    return np.stack(frames)


def _imencode(suffix: str, image: Image, settings: list[int]) -> bytes:
    done, data = cv2.imencode(suffix, cv2.cvtColor(image, cv2.COLOR_RGB2BGR), settings)
    if not done:
        raise RuntimeError(f"{suffix} encoding of a {image.shape} image failed")
    return data.tobytes()


def _require_shape(shape: tuple[int, ...], place: Image) -> None:
    if shape != place.shape:
        raise ValueError(f"its pixels are {shape}, not {place.shape}")


def _refuse_scans(data: bytes, height: int, width: int) -> None:
    if reason := endless_scans(data, width, height):
        raise ValueError(reason)


def _without_texts(data: bytes) -> bytes:
    """Return a PNG file without the chunks that hold texts and colour profiles; one without any as it is."""
    if not any(kind in data for kind in _PNG_TEXTS):
        return data
    kept, place = [data[:_PNG_SIGNATURE]], _PNG_SIGNATURE
    while place < len(data):
        end = place + _PNG_CHUNK + int.from_bytes(data[place : place + 4], "big")
        if data[place + 4 : place + 8] not in _PNG_TEXTS:
            kept.append(data[place:end])
        place = end
    return b"".join(kept)


def _refuse_bomb(frames: int, height: int, width: int) -> None:
    """Raises ValueError where a header announces more than any data set of ours holds."""
    if frames > MAX_FRAMES or frames * height * width > MAX_PIXELS:
        allowed = f"{MAX_FRAMES} frames and {MAX_PIXELS} pixels"
        raise ValueError(f"{frames} frames of {width} x {height} pixels are more than the {allowed} allowed")
