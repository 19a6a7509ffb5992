"""Payload encoders: array to bytes and back. The fields of each class are its settings in a recipe."""

import io
import re
import struct
from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import prod
from typing import Annotated, Any, ClassVar, Literal, get_args

import cv2
import numpy as np
import simplejpeg
from pydantic import Field

from corruptions.kernels.jpeg import round_trip
from pipeline.images.decoders import MAX_PIXELS, excess_scans
from pipeline.images.encoder import Encoder, Image, require_shape
from pipeline.images.files import Own
from pipeline.images.jpeg import file_and_pixels

MAX_FRAMES = 1000
"""Maximum number of frames in a payload. The longest published sequence has 41."""


MAX_VIDEO_PIXELS = 2**24
"""Maximum pixels of an H.264 frame. A decoder holds up to 17 frames in memory."""

NPY_PREFIX, MAX_NPY_HEADER = 10, 1000
"""Size in bytes of what precedes the header of a .npy file (version 1.0), and maximum size including the header."""

_NPY_MAGIC = b"\x93NUMPY\x01\x00"
_NPY_HEADER = re.compile(
    rb"(?=.*'descr': *'(?:[|<=>]?(?P<bytes>u1)|<(?P<words>u2))')(?=.*'fortran_order': *False)"
    rb"\{.*'shape': *\((?P<shape>(?:[1-9][0-9]{0,8}, *){2,3}[1-9][0-9]{0,8}),?\).*\} *\n?"
)
"""Header of a .npy file. NumPy evaluates headers as Python, which fails in many ways on deep nesting."""

_PNG_START = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
_PNG_SIGNATURE, _PNG_CHUNK = 8, 12
_PNG_TEXTS = frozenset({b"tEXt", b"zTXt", b"iTXt", b"iCCP"})
"""PNG chunks that do not affect pixels. Compressed ones could expand to any size, so they are removed."""


class Jpeg(Encoder):
    """JPEG: the same bytes as Pillow's at equal settings.

    Attributes:
        quality: 1..100.
        optimize: Compute Huffman tables for each image: smaller files, same pixels.
        chroma: Subsampling: "4:2:0", or "4:4:4" for none.
    """

    name: Literal["jpeg"] = "jpeg"
    quality: Annotated[int, Field(ge=1, le=100)] = 85
    optimize: bool = True
    chroma: Literal["4:2:0", "4:4:4"] = "4:2:0"
    suffix = ".jpg"
    unnamed: ClassVar[Mapping[str, Any]] = {"chroma": "4:2:0"}

    def encode(self, image: Image, grain: bool = False) -> bytes:
        """Return a JPEG file."""
        return self.encode_decoded(image)[0]

    def encode_decoded(self, image: Image, grain: bool = False) -> tuple[bytes, Image]:
        """Return a JPEG file and the pixels that readers get, without decoding it."""
        return file_and_pixels(image, self.quality, self.chroma == "4:2:0", self.optimize)

    def stored(self, image: Image, grain: bool = False) -> Image:
        """Return the pixels that readers get, without a file."""
        return round_trip(image, self.quality, halved=self.chroma == "4:2:0")

    def stored_into(self, image: Image, grain: bool, target: Image) -> None:
        """Write the pixels that readers get into an existing array without an intermediate one."""
        require_shape(image.shape, target)
        round_trip(image, self.quality, self.chroma == "4:2:0", target)

    def decode(self, data: bytes) -> Image:
        """Return the same pixels as Pillow."""
        height, width, *_ = simplejpeg.decode_jpeg_header(data)
        _refuse_bomb(1, height, width)
        _refuse_scans(data, height, width)
        return np.asarray(simplejpeg.decode_jpeg(data, colorspace="RGB"), np.uint8)

    def decode_into(self, data: bytes, target: Image) -> None:
        """Decode into an existing array without an intermediate one."""
        height, width, *_ = simplejpeg.decode_jpeg_header(data)
        require_shape((height, width, 3), target)
        _refuse_scans(data, height, width)
        simplejpeg.decode_jpeg(data, colorspace="RGB", buffer=target)


class Png(Encoder):
    """PNG, lossless. ``compression``: 0 (none) to 9 (smallest, slowest), with the same pixels."""

    name: Literal["png"] = "png"
    compression: Annotated[int, Field(ge=0, le=9)] = 3
    suffix = ".png"
    lossless = True

    def encode(self, image: Image, grain: bool = False) -> bytes:
        """Return a PNG file."""
        settings = [cv2.IMWRITE_PNG_COMPRESSION, self.compression]
        done, data = cv2.imencode(self.suffix, cv2.cvtColor(image, cv2.COLOR_RGB2BGR), settings)
        if not done:
            raise RuntimeError(f"PNG encoding of a {image.shape} image failed")
        return data.tobytes()

    def decode(self, data: bytes) -> Image:
        """Return the pixels as stored: an orientation tag does not turn them."""
        if not data.startswith(_PNG_START) or len(data) < 24:
            raise ValueError("not a PNG file")
        width, height = struct.unpack(">II", data[16:24])
        _refuse_bomb(1, height, width)
        try:
            flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
            image = cv2.imdecode(np.frombuffer(_without_texts(data), np.uint8), flags)
        except cv2.error as error:
            raise ValueError(f"the PNG file is damaged: {error.err}") from error
        if image is None:
            raise ValueError("the PNG file is damaged")
        return np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB), np.uint8)


class Npy(Encoder):
    """NumPy's array file, lossless: an image, or all frames of a sequence.

    Attributes:
        layout: "HWC", or "CHW" with the channels before the rows.
        depth: Bits of a value: 8 for uint8, 16 for uint16, little-endian, where 65535 stands for 1.0.
    """

    name: Literal["npy"] = "npy"
    layout: Literal["HWC", "CHW"] = "HWC"
    depth: Literal[8, 16] = 8
    suffix = ".npy"
    whole_sequence = True
    bare = True
    lossless = True
    unnamed: ClassVar[Mapping[str, Any]] = {"depth": 8}

    @property
    def dtype(self) -> type[np.uint8] | type[np.uint16]:
        """Type of the pixel values. Its largest value stands for 1.0."""
        return np.uint8 if self.depth == 8 else np.uint16

    def encode(self, image: Image, grain: bool = False) -> bytes:
        """Return a .npy file. Raises ValueError if the values have another type than the encoder."""
        if image.dtype != self.dtype:
            raise ValueError(f"the image is {image.dtype}, but depth={self.depth} stores {self.dtype.__name__}")
        ordered = image if self.layout == "HWC" else np.moveaxis(image, -1, -3)
        return npy_header(ordered.shape, self._description) + ordered.astype(self._description, copy=False).tobytes()

    def decode(self, data: bytes) -> Image:
        """Return the array (..., H, W, 3). Nothing is unpickled; memory is bounded by the file size."""
        start = NPY_PREFIX + int.from_bytes(data[8:NPY_PREFIX], "little")
        shape = npy_shape(data[: min(start, MAX_NPY_HEADER)], self.depth)
        size, kind = prod(shape) * self.depth // 8, self.dtype.__name__
        if size != len(data) - start or shape[-1 if self.layout == "HWC" else -3] != 3:
            raise ValueError(f"not complete {kind} images with three channels: shape {shape} in {len(data)} bytes")
        _refuse_bomb(shape[0] if len(shape) == 4 else 1, prod(shape[-3:]) // 3, 1)
        array = np.frombuffer(data, self._description, offset=start).reshape(shape)
        return np.array(array if self.layout == "HWC" else np.moveaxis(array, -3, -1), self.dtype, order="C")

    @property
    def _description(self) -> str:
        """The type of the values in the header, which fixes the order of their bytes."""
        return "|u1" if self.depth == 8 else "<u2"


class Mp4(Encoder):
    """H.264 in MP4 at one frame per second and full chroma, as in the published ImageNet-P; libx264 on one thread.

    Attributes:
        crf: Quality, 0 (lossless) to 51; published: 20.
        grain_crf: Quality of noise sequences, which are encoded with ``-tune grain``; published: 23.
        preset: Preset of x264; published: "veryslow".

    Source: the ImageNet-P scripts.
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
        """Return an MP4 file."""
        import av

        # Without cpu-independent, x264's vector code reads uninitialised memory, and bytes differ between runs.
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
        """Return all frames, (T, H, W, 3)."""
        import av

        frames: list[Image] = []
        try:
            with av.open(io.BytesIO(data), "r", format="mp4") as container:
                stream = container.streams.video[0]
                _refuse_bomb(max(stream.frames, 1), stream.height, stream.width)
                stream.thread_type = "NONE"
                stream.codec_context.options = {"max_pixels": str(MAX_VIDEO_PIXELS)}
                for frame in container.decode(stream):
                    # Check each frame: number and size in the file header may be wrong.
                    _refuse_bomb(len(frames) + 1, frame.height, frame.width)
                    frames.append(np.asarray(frame.to_ndarray(format="rgb24"), np.uint8))
        except (av.error.FFmpegError, IndexError) as error:
            raise ValueError(f"not a readable MP4 file: {error}") from error
        if not frames:
            raise ValueError("the MP4 file has no frames")
        return _stacked(frames)


@lru_cache
def npy_shape(header: bytes, depth: int) -> tuple[int, ...]:
    """Return the shape in the header of a .npy file. Raises ValueError unless it has images of this depth in bits."""
    if not header.startswith(_NPY_MAGIC):
        raise ValueError("not a .npy file of version 1.0")
    match = _NPY_HEADER.fullmatch(header, NPY_PREFIX)
    if match is None or not match["bytes" if depth == 8 else "words"]:
        raise ValueError(f"not uint{depth} images: {header[NPY_PREFIX:][:100].strip()!r}")
    return tuple(map(int, match["shape"].split(b",")))


@lru_cache
def npy_header(shape: tuple[int, ...], description: str = "|u1") -> bytes:
    """Return the bytes that precede the pixels in a .npy file; ``description`` is the type of the values."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": description, "fortran_order": False, "shape": shape})
    return buffer.getvalue()


AnyEncoder = Annotated[Jpeg | Png | Npy | Own | Mp4, Field(discriminator="name")]

EncoderName = Literal["jpeg", "png", "npy", "own", "mp4"]
"""Names of encoders that type checkers accept."""

ENCODERS: Mapping[str, type[Encoder]] = {
    encoder.model_fields["name"].default: encoder for encoder in get_args(get_args(AnyEncoder)[0])
}
"""Encoder classes by name."""


def member_suffixes(encoder: Encoder, frames: int | None) -> tuple[str, ...]:
    """Return the suffixes of a sample's payload members; ``frames`` is None for a single image.

    A sequence has ``.000.jpg``, ``.001.jpg`` ..., or one member where the format stores all frames in one payload.
    """
    if frames is None or encoder.whole_sequence:
        return (encoder.suffix,)
    return tuple(f".{index:03d}{encoder.suffix}" for index in range(frames))


def encode_members(encoder: Encoder, output: Image, grain: bool = False) -> dict[str, bytes]:
    """Encode an image (H, W, 3) or a sequence (T, H, W, 3) as payload members, suffix -> bytes."""
    return {suffix: encoder.encode(part, grain) for suffix, part in _parts(encoder, output)}


def encode_decoded(encoder: Encoder, output: Image, grain: bool = False) -> tuple[dict[str, bytes], Image]:
    """Return the payload members of an image or sequence as :func:`encode_members`, and the pixels readers get."""
    made = {suffix: encoder.encode_decoded(part, grain) for suffix, part in _parts(encoder, output)}
    pixels = [pixels for _, pixels in made.values()]
    members = {suffix: data for suffix, (data, _) in made.items()}
    return members, pixels[0] if pixels[0].ndim == output.ndim else np.stack(pixels)


def _parts(encoder: Encoder, output: Image) -> Iterator[tuple[str, Image]]:
    """Yield the suffix of each payload member of an image or sequence, and the image or sequence in it."""
    suffixes = member_suffixes(encoder, len(output) if output.ndim == 4 else None)
    yield from zip(suffixes, [output] if output.ndim == 3 or encoder.whole_sequence else output, strict=True)


def stored_pixels(encoder: Encoder, output: Image, grain: bool = False) -> Image:
    """Return the pixels that readers get of an image (H, W, 3) or sequence (T, H, W, 3) once it is stored."""
    if output.ndim == 4 and not encoder.whole_sequence:
        return np.stack([encoder.stored(frame, grain) for frame in output])
    return encoder.stored(output, grain)


def decode_members(encoder: Encoder, members: Mapping[str, bytes]) -> Image:
    """Decode payload members, in their order. Raises ValueError that names the invalid one."""
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
        raise ValueError("frames have different sizes")
    return np.stack(frames)


def _refuse_scans(data: bytes, height: int, width: int) -> None:
    if reason := excess_scans(data, width, height):
        raise ValueError(reason)


def _without_texts(data: bytes) -> bytes:
    """Return a PNG file without its chunks of texts and colour profiles."""
    if not any(kind in data for kind in _PNG_TEXTS):
        return data
    kept, start = [data[:_PNG_SIGNATURE]], _PNG_SIGNATURE
    while start < len(data):
        end = start + _PNG_CHUNK + int.from_bytes(data[start : start + 4], "big")
        if data[start + 4 : start + 8] not in _PNG_TEXTS:
            kept.append(data[start:end])
        start = end
    return b"".join(kept)


def _refuse_bomb(frames: int, height: int, width: int) -> None:
    """Raise ValueError where a header declares more frames or pixels than any data set has."""
    if frames > MAX_FRAMES or frames * height * width > MAX_PIXELS:
        allowed = f"{MAX_FRAMES} frames and {MAX_PIXELS} pixels"
        raise ValueError(f"{frames} frames of {width} x {height} pixels are more than the {allowed} allowed")
