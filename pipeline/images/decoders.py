"""Image decoders: encoded photograph to RGB array. All recipes decode through this module."""

import importlib.metadata
import io
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import cv2
import numpy as np
import simplejpeg
from numpy.typing import NDArray
from PIL import Image as PillowImage
from PIL import UnidentifiedImageError, features

from corruptions.kernels.colour import ycbcr
from corruptions.registry import unknown
from pipeline.errors import SampleError, UserError

Image = NDArray[np.uint8]

MAX_PIXELS = 2**26
"""Maximum number of pixels of an image (67 megapixels). Larger ones are refused from their header, before decoding."""

MAX_SLOW_PIXELS = 2**24
"""Maximum for a PPM of text, or of other than 256 levels: Pillow decodes these in Python, at 1 to 2 s per megapixel."""

MAX_SCANNED = 2**32
"""Maximum of pixels times scans of a JPEG. Each scan of a progressive JPEG visits every pixel; a dozen are usual."""

SCAN_BYTES = 10
"""Minimum size of a scan in bytes: its marker and header."""

FORMATS = ("JPEG", "PNG", "PPM", "BMP", "TIFF", "WEBP", "GIF")
"""Accepted formats. The content decides, not the suffix: ImageNet contains PNG data in files named .JPEG."""

JPEG_FORMATS = frozenset({"JPEG", "MPO"})
"""Pillow's names of JPEG, the second for files with more images behind the first, which some cameras write."""

EIGHT_BIT_MODES = frozenset(
    {"1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "LAB", "HSV"}
)
"""Pillow modes that ``Image.convert("RGB")`` converts, as the published scripts did."""

SIXTEEN_BIT_MODES = frozenset({"I;16", "I;16B", "I;16L", "I;16N"})
"""Modes of 16-bit grey. The high byte is kept, because ``convert`` would clip nearly all values to white.

Pillow reads PGMs of more than 8 bits as 32-bit grey, scaled to 16 bits.
"""

JPEG_MODES = frozenset({"L", "RGB"})
"""Modes of JPEGs that the selected decoder reads (grey and YCbCr). Pillow reads all other JPEGs."""

SIMPLE_COLOURS = frozenset({"Gray", "YCbCr"})
"""Colour spaces of JPEGs that libjpeg-turbo converts to RGB as Pillow does."""

HALF_WIDTH_CHROMA = frozenset({"yuvj420p", "yuvj422p", "yuv420p", "yuv422p"})
"""FFmpeg's pixel formats of 4:2:0 and 4:2:2. With even height, libswscale converts them differently on each CPU."""

OTHER_FORMATS = frozenset({"gray", "gbrp", "yuvj444p", "yuvj440p", "yuvj411p", "yuv444p", "yuv440p", "yuv411p"})
"""Other pixel formats of grey and YCbCr JPEGs, which libswscale converts in the same way on every CPU."""

ORIENTATION = 0x0112
"""The tag of an image's orientation."""

AS_STORED: Mapping[int, PillowImage.Transpose] = {
    2: PillowImage.Transpose.FLIP_LEFT_RIGHT,
    3: PillowImage.Transpose.ROTATE_180,
    4: PillowImage.Transpose.FLIP_TOP_BOTTOM,
    5: PillowImage.Transpose.TRANSPOSE,
    6: PillowImage.Transpose.ROTATE_90,
    7: PillowImage.Transpose.TRANSVERSE,
    8: PillowImage.Transpose.ROTATE_270,
}
"""Orientation tag of a TIFF -> what reverts the turn that Pillow makes. It turns no other format."""

WHITE, OPAQUE = np.uint16(255), np.uint16(255)
"""Level of white, and alpha of opaque pixels."""

MISSING = (128, 128, 128)
"""Pixel that libjpeg makes of missing data."""

START_OF_IMAGE, END_OF_IMAGE, START_OF_SCAN = b"\xff\xd8", b"\xff\xd9", b"\xff\xda"
"""JPEG markers."""


@dataclass(frozen=True)
class Decoder:
    """A JPEG decoder.

    Attributes:
        decode: Returns uint8 RGB (H, W, 3) of a JPEG.
        library: Returns the name and version of the library. Raises where it is not installed.
        install: Command that installs the library.
        requirement: What else is needed, as the end of a sentence; empty for nothing.
        strict: Whether it raises for truncated JPEGs that have an end marker. libjpeg makes the missing blocks grey.
    """

    decode: Callable[[bytes], Image]
    library: Callable[[], str]
    install: str
    requirement: str = ""
    strict: bool = True

    def missing(self) -> str | None:
        """Return why this decoder does not work on this machine and how to install it; None if it works."""
        try:
            self.library()
        except (ImportError, OSError, RuntimeError) as error:
            return f"{error}; install it with: {self.install}{self.requirement}"
        return None


def decode(data: bytes, decoder: str = "pillow") -> Image:
    """Decode the first frame of an image.

    Decoders give different pixels for the same JPEG, so the named decoder reads grey and YCbCr JPEGs. Pillow reads all
    other images (CMYK JPEGs and lossless formats). Grey, palette, CMYK and alpha are converted as by Pillow's
    ``convert("RGB")``: grey is repeated in three channels, alpha is dropped without blending. Pixels are as stored:
    orientation tags turn nothing, as in the published scripts.

    Args:
        data: Content of an image file.
        decoder: Name of a decoder, see ``DECODERS``.

    Returns:
        A uint8 RGB array (H, W, 3), which may be read-only.

    Raises:
        SampleError: The data is empty, damaged, truncated, too large or not an image.
        UserError: The decoder is unknown or not installed.
    """
    if decoder not in DECODERS:
        raise UserError(unknown("decoder", decoder, allowed=DECODERS))
    with _opened(data) as image:
        if image.format not in JPEG_FORMATS:
            return _rgb(image)
        used = decoder if image.mode in JPEG_MODES else "pillow"
        one_scan = "progressive" not in image.info and _scanned_channels(data) == len(image.getbands())
        shows = one_scan and image.mode in JPEG_MODES  # a truncation makes at least the last block grey
        size, pixels = image.size, _rgb(image) if used == "pillow" else None
    if pixels is None:
        pixels = _decode_jpeg(data, decoder, size)
    if not DECODERS[used].strict and not (shows and tuple(pixels[-1, -1]) != MISSING):
        _refuse_truncated(data)
    return pixels


def decode_again(data: bytes) -> Image:
    """Decode a file as :func:`decode` does, but a YCbCr or grey JPEG without Pillow, in two thirds of the time.

    It reads the files of a mirror. Source images are read by the decoder that the recipe names.
    """
    with suppress(ValueError):  # of what Pillow decodes with a warning, or refuses with a better reason
        height, width, colours, _ = simplejpeg.decode_jpeg_header(data)
        if colours in SIMPLE_COLOURS and height * width <= MAX_PIXELS and not excess_scans(data, width, height):
            return np.asarray(simplejpeg.decode_jpeg(data, colorspace="RGB"), np.uint8)
    return decode(data)


def decode_on_white(data: bytes) -> Image | None:
    """Decode the first frame of an image that has transparency, laid on white.

    Args:
        data: Content of an image file.

    Returns:
        A new uint8 RGB array (H, W, 3); None if the image has no transparency.

    Raises:
        SampleError: The data is empty, damaged, truncated, too large or not an image.
    """
    with _opened(data) as image:
        if not image.has_transparency_data:
            return None
        if image.mode in SIXTEEN_BIT_MODES:  # of which convert would clip nearly all values to white
            levels = _rgb(image).copy()
            levels[np.asarray(image) == image.info["transparency"]] = WHITE
            return levels
        pixels = np.asarray(image.convert("RGBA")).astype(np.uint16)
    colours, alpha = pixels[:, :, :3], pixels[:, :, 3:]
    return ((colours * alpha + WHITE * (OPAQUE - alpha) + OPAQUE // 2) // OPAQUE).astype(np.uint8)


@contextmanager
def _opened(data: bytes) -> Iterator[PillowImage.Image]:
    """Open an image with Pillow. All errors inside of the block, which may decode, become SampleError."""
    if not data:
        raise SampleError("the file is empty")
    # Pillow only warns about large images. MAX_PIXELS is below its limit and refuses them.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with PillowImage.open(io.BytesIO(data), formats=FORMATS) as image:
                slow = image.format == "PPM" and image.tile[0][0] != "raw"
                _refuse_bomb(*image.size, MAX_SLOW_PIXELS if slow else MAX_PIXELS)
                if reason := excess_scans(data, *image.size):
                    raise SampleError(f"refused: {reason}")
                turn = AS_STORED.get(image.getexif().get(ORIENTATION, 1)) if image.format == "TIFF" else None
                yield image if turn is None else image.transpose(turn)
        except PillowImage.DecompressionBombError as error:
            raise SampleError(f"refused as a decompression bomb: {error}") from error
        except UnidentifiedImageError as error:
            raise SampleError(f"not a supported image format; allowed: {', '.join(FORMATS)}") from error
        except SampleError:
            raise
        except Exception as error:  # Pillow raises exceptions of many types for damaged files
            raise SampleError(f"cannot be decoded: {type(error).__name__}: {error}") from error


def _decode_jpeg(data: bytes, name: str, size: tuple[int, int]) -> Image:
    """Decode a JPEG with a decoder other than Pillow. They fill in missing data, so truncation is checked here."""
    if data.rfind(END_OF_IMAGE) < data.rfind(START_OF_SCAN):
        raise SampleError("cannot be decoded: the file is truncated (no end-of-image marker)")
    try:
        pixels = DECODERS[name].decode(data)
    except (ImportError, OSError) as error:
        raise UserError(f"decoder {name} cannot be used: {DECODERS[name].missing() or error}") from error
    except SampleError:
        raise
    except Exception as error:  # each library raises its own types
        raise SampleError(f"cannot be decoded by {name}: {type(error).__name__}: {error}") from error
    if pixels.shape != (size[1], size[0], 3):
        raise SampleError(
            f"cannot be decoded by {name}: it returned the shape {pixels.shape} for a {size[0]} x {size[1]} image"
        )
    return pixels


def _scanned_channels(data: bytes) -> int:
    """Return the number of channels in the first scan of a JPEG; 0 if the scan is not found."""
    position = len(START_OF_IMAGE)
    while (marker := data[position : position + 2]) != START_OF_SCAN:
        if not marker.startswith(b"\xff"):
            return 0
        position += 1 if marker == b"\xff\xff" else 2 + int.from_bytes(data[position + 2 : position + 4])
    return data[position + 4]


def _refuse_truncated(data: bytes) -> None:
    """Raise SampleError for a JPEG whose data ends before its last block, read at the size that is fastest."""
    try:
        simplejpeg.decode_jpeg(data, "GRAY", fastdct=True, min_height=1, min_width=1)
    except ValueError as error:  # other damage is accepted, as in the published scripts
        if "remature end" in str(error):
            raise SampleError(
                "cannot be decoded: the file is truncated (its data ends before the last block)"
            ) from error


def _refuse_bomb(width: int, height: int, allowed: int) -> None:
    if width * height > allowed:
        raise SampleError(f"refused: {width} x {height} pixels are more than the {allowed} allowed")


def excess_scans(data: bytes, width: int, height: int) -> str:
    """Return why a JPEG has too many scans, which could take minutes to decode; an empty string if it has not."""
    if len(data) // SCAN_BYTES * width * height <= MAX_SCANNED or not data.startswith(START_OF_IMAGE):
        return ""  # skips counting the scans, which takes time, for nearly all images
    scans = data.count(START_OF_SCAN)
    if scans * width * height <= MAX_SCANNED:
        return ""
    return f"{scans} scans of {width} x {height} pixels are more than the {MAX_SCANNED} allowed"


def _rgb(image: PillowImage.Image) -> Image:
    if image.mode in SIXTEEN_BIT_MODES or (image.mode == "I" and image.format == "PPM"):
        grey = (np.asarray(image) >> 8).astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, axis=2)
    if image.mode not in EIGHT_BIT_MODES:
        raise SampleError(f"pixel mode {image.mode} has no published conversion to 8-bit RGB")
    # Avoid copies: convert copies even an RGB image, and np.array copies again.
    return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))


def _pillow(data: bytes) -> Image:
    with PillowImage.open(io.BytesIO(data), formats=("JPEG",)) as image:
        return _rgb(image)


def _opencv(data: bytes) -> Image:
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    if pixels is None:
        raise ValueError("OpenCV returned no image")
    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB), np.uint8)


def _ffmpeg(data: bytes) -> Image:
    """Decode and convert as the ffmpeg command does on x86-64 for ``-pix_fmt rgb24``, in this process."""
    import av
    from av.video.reformatter import ColorRange

    def frame_of(**options: str) -> Any:
        codec = av.CodecContext.create("mjpeg", "r")
        codec.thread_count = 1
        codec.options = {"idct": "simple", **options}  # the default on x86-64; other CPUs have their own by default
        return [*codec.decode(av.Packet(data)), *codec.decode(None)][0]

    try:
        frame = frame_of(err_detect="explode")  # raises for truncated data
    except av.error.InvalidDataError:
        _refuse_truncated(data)
        frame = frame_of()
    if frame.format.name in HALF_WIDTH_CHROMA and frame.height % 2 == 0:
        luma, cb, cr = (_rows(plane) for plane in frame.planes)
        return ycbcr.to_rgb(luma, cb, cr, frame.width, frame.color_range == ColorRange.JPEG)
    if frame.format.name not in HALF_WIDTH_CHROMA | OTHER_FORMATS:
        raise ValueError(f"unsupported pixel format {frame.format.name}")
    # PyAV's default interpolation of chroma differs from the ffmpeg command's.
    return np.asarray(frame.reformat(format="rgb24", interpolation="BICUBIC").to_ndarray(), np.uint8)


def _rows(plane: Any) -> Image:
    """Return the rows of a plane of FFmpeg, from top to bottom, with their padding."""
    rows = np.frombuffer(plane, np.uint8).reshape(-1, abs(plane.line_size))
    return rows if plane.line_size > 0 else np.ascontiguousarray(rows[::-1])


def _turbo_fast(data: bytes) -> Image:
    """Decode with libjpeg-turbo, its fast integer DCT, and chroma repeated instead of interpolated."""
    return np.asarray(simplejpeg.decode_jpeg(data, colorspace="RGB", fastdct=True, fastupsample=True), np.uint8)


def _nvjpeg(data: bytes) -> Image:
    codec, parameters = _nvidia()
    _refuse_truncated(data)
    image = codec.decode(data, params=parameters)
    if image is None:
        raise ValueError("nvImageCodec returned no image")
    return np.ascontiguousarray(np.asarray(image.cpu()), np.uint8)


@cache
def _nvidia() -> tuple[Any, Any]:
    """Return a GPU decoder and its parameters. Raises ImportError or RuntimeError without library or GPU."""
    from nvidia import nvimgcodec

    kinds = (nvimgcodec.BackendKind.GPU_ONLY, nvimgcodec.BackendKind.HYBRID_CPU_GPU)
    codec = nvimgcodec.Decoder(backends=[nvimgcodec.Backend(kind) for kind in kinds])
    return codec, nvimgcodec.DecodeParams(apply_exif_orientation=False)


def _opencv_library() -> str:
    lines = cv2.getBuildInformation().splitlines()
    jpeg = next((line.split(":", 1)[1].strip() for line in lines if line.strip().startswith("JPEG:")), "unknown JPEG")
    return f"OpenCV {cv2.__version__}, {jpeg}"


def _ffmpeg_library() -> str:
    import av

    codec, scaler = (".".join(map(str, av.library_versions[name])) for name in ("libavcodec", "libswscale"))
    return f"PyAV {av.__version__}, libavcodec {codec}, libswscale {scaler}"


def _nvjpeg_library() -> str:
    from nvidia import nvimgcodec

    _nvidia()
    return f"nvImageCodec {nvimgcodec.__version__}"


DECODERS: Mapping[str, Decoder] = {
    "pillow": Decoder(
        _pillow,
        lambda: f"Pillow {importlib.metadata.version('pillow')}, libjpeg-turbo {features.version('libjpeg_turbo')}",
        "pip install pillow",
        strict=False,
    ),
    "opencv": Decoder(_opencv, _opencv_library, "pip install opencv-python", strict=False),
    "ffmpeg": Decoder(_ffmpeg, _ffmpeg_library, "pip install av"),
    "turbo-fast": Decoder(
        _turbo_fast, lambda: f"simplejpeg {importlib.metadata.version('simplejpeg')}", "pip install simplejpeg"
    ),
    "nvjpeg": Decoder(
        _nvjpeg, _nvjpeg_library, "pip install 'nvidia-nvimgcodec-cu12[nvjpeg]'", ", on a machine with an NVIDIA GPU"
    ),
}
"""Decoders by name."""
