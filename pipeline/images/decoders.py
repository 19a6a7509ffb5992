"""Encoded photograph -> RGB array. Every recipe decodes here."""

from __future__ import annotations

import importlib.metadata
import io
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import cv2
import numpy as np
import simplejpeg
from numpy.typing import NDArray
from PIL import Image as PillowImage
from PIL import UnidentifiedImageError, features

from pipeline.errors import SampleError, UserError

Image = NDArray[np.uint8]

MAX_PIXELS = 2**26
"""A header that announces more pixels than this is refused before anything is decoded (67 megapixels)."""

MAX_SCANNED = 2**32
"""Pixels times scans of a JPEG: each scan of a progressive one goes over all its pixels again. A dozen are usual."""

SCAN_BYTES = 10
"""The least that a scan takes: its marker and header."""

FORMATS = ("JPEG", "PNG", "PPM", "BMP", "TIFF", "WEBP")
"""What a file may hold, whatever its suffix says: ImageNet has PNG bytes in files named .JPEG."""

EIGHT_BIT_MODES = frozenset(
    {"1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "LAB", "HSV"}
)
"""Pillow modes whose conversion to RGB is what the published scripts did: ``Image.convert("RGB")``."""

SIXTEEN_BIT_MODES = frozenset({"I;16", "I;16B", "I;16L", "I;16N"})
"""Grey with 16 bits: the high byte is kept (``convert`` would clip nearly everything to white)."""

JPEG_MODES = frozenset({"L", "RGB"})
"""JPEGs that every decoder reads for itself: grey and YCbCr. What else there is, Pillow reads for all of them."""

START_OF_IMAGE, END_OF_IMAGE, START_OF_SCAN = b"\xff\xd8", b"\xff\xd9", b"\xff\xda"
"""Markers of a JPEG file."""


@dataclass(frozen=True)
class Decoder:
    """One way to decode JPEG: ``decode`` gives RGB (H, W, 3); ``library`` names what it uses, with its version.

    ``install`` is the command that brings it, ``beside`` what else it needs.
    """

    decode: Callable[[bytes], Image]
    library: Callable[[], str]
    install: str
    beside: str = ""

    def missing(self) -> str | None:
        """What stops this decoder on this machine and what to do about it; None if it works."""
        try:
            self.library()
        except (ImportError, OSError, RuntimeError) as error:
            return f"{error}; install it with: {self.install}{self.beside}"
        return None


def decode(data: bytes, decoder: str = "pillow") -> Image:
    """The first frame of an encoded image as uint8 RGB (H, W, 3), which may be read-only.

    Decoders differ in what they make of a JPEG's numbers; so a grey or YCbCr JPEG goes to the named one, and all else
    (CMYK JPEGs and the lossless formats) to Pillow, whichever is named. Grey, palette, CMYK and alpha become RGB as
    Pillow's ``convert("RGB")`` does it: grey is repeated in three channels, alpha is dropped without blending.
    Orientation tags are ignored, as the published scripts did.
    Raises SampleError with the reason where the bytes are empty, damaged, cut short, too large or of another kind, and
    UserError where the decoder is not there.
    """
    if not data:
        raise SampleError("the file is empty")
    if decoder not in DECODERS:
        raise UserError(f"no decoder is called {decoder!r}; allowed: {', '.join(DECODERS)}")
    # Pillow warns at sizes that it holds for bombs; MAX_PIXELS is below them, and refuses.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with PillowImage.open(io.BytesIO(data), formats=FORMATS) as image:
                _refuse_bomb(*image.size)
                if reason := endless_scans(data, *image.size):
                    raise SampleError(f"refused: {reason}")
                if decoder == "pillow" or image.format != "JPEG" or image.mode not in JPEG_MODES:
                    return _rgb(image)
                size = image.size
        except PillowImage.DecompressionBombError as error:
            raise SampleError(f"refused as a decompression bomb: {error}") from error
        except UnidentifiedImageError as error:
            raise SampleError(f"not an image of a known format ({', '.join(FORMATS)})") from error
        except SampleError:
            raise
        except Exception as error:  # Pillow's readers raise nearly anything on damaged files
            raise SampleError(f"cannot be decoded: {type(error).__name__}: {error}") from error
    return _decode_jpeg(data, decoder, size)


def _decode_jpeg(data: bytes, name: str, size: tuple[int, int]) -> Image:
    """A sound JPEG by a decoder other than Pillow. Others fill up what is missing of a file, so that is looked at."""
    if data.rfind(END_OF_IMAGE) < data.rfind(START_OF_SCAN):
        raise SampleError("cannot be decoded: the file is cut short, it has no end-of-image marker")
    try:
        pixels = DECODERS[name].decode(data)
    except (ImportError, OSError) as error:
        raise UserError(f"decoder {name} cannot be used: {DECODERS[name].missing() or error}") from error
    except Exception as error:  # each library has errors of its own
        raise SampleError(f"cannot be decoded by {name}: {type(error).__name__}: {error}") from error
    if pixels.shape != (size[1], size[0], 3):
        raise SampleError(f"cannot be decoded by {name}: it gives {pixels.shape} for a {size[0]} x {size[1]} image")
    return pixels


def _refuse_bomb(width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise SampleError(f"refused: {width} x {height} pixels are more than the {MAX_PIXELS} allowed")


def endless_scans(data: bytes, width: int, height: int) -> str:
    """Return why a JPEG would take minutes to decode; nothing for all others."""
    if len(data) // SCAN_BYTES * width * height <= MAX_SCANNED or not data.startswith(START_OF_IMAGE):
        return ""  # nearly all: counting the scans of an output takes a tenth of its decoding
    scans = data.count(START_OF_SCAN)
    if scans * width * height <= MAX_SCANNED:
        return ""
    return f"{scans} scans of {width} x {height} pixels are more than the {MAX_SCANNED} allowed"


def _rgb(image: PillowImage.Image) -> Image:
    if image.mode in SIXTEEN_BIT_MODES:
        grey = (np.asarray(image) >> 8).astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, axis=2)
    if image.mode not in EIGHT_BIT_MODES:
        raise SampleError(f"pixel mode {image.mode} has no published conversion to 8-bit RGB")
    # Copies of a photograph take a third of its decoding: convert makes one even of RGB, np.array another.
    return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))


def _pillow(data: bytes) -> Image:
    with PillowImage.open(io.BytesIO(data), formats=("JPEG",)) as image:
        return _rgb(image)


def _opencv(data: bytes) -> Image:
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    if pixels is None:
        raise ValueError("OpenCV gives no image")
    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB), np.uint8)


def _ffmpeg(data: bytes) -> Image:
    """FFmpeg's decoder and scaler as its command line uses them for ``-pix_fmt rgb24``, in this process."""
    import av

    codec = av.CodecContext.create("mjpeg", "r")
    codec.thread_count = 1
    frames = [*codec.decode(av.Packet(data)), *codec.decode(None)]
    # PyAV's own default for the chroma planes is not the command's: odd heights differ by up to 8 levels.
    return np.asarray(frames[0].reformat(format="rgb24", interpolation="BICUBIC").to_ndarray(), np.uint8)


def _turbo_fast(data: bytes) -> Image:
    """libjpeg-turbo with its fast integer DCT, and chroma repeated instead of interpolated."""
    return np.asarray(simplejpeg.decode_jpeg(data, colorspace="RGB", fastdct=True, fastupsample=True), np.uint8)


def _nvjpeg(data: bytes) -> Image:
    codec, parameters = _nvidia()
    image = codec.decode(data, params=parameters)
    if image is None:
        raise ValueError("nvImageCodec gives no image")
    return np.ascontiguousarray(np.asarray(image.cpu()), np.uint8)


@cache
def _nvidia() -> tuple[Any, Any]:
    """A decoder on the GPU and its parameters. Raises ImportError or RuntimeError where there is none."""
    from nvidia import nvimgcodec

    kinds = (nvimgcodec.BackendKind.GPU_ONLY, nvimgcodec.BackendKind.HYBRID_CPU_GPU)
    codec = nvimgcodec.Decoder(backends=[nvimgcodec.Backend(kind) for kind in kinds])
    return codec, nvimgcodec.DecodeParams(apply_exif_orientation=False)


def _pillow_library() -> str:
    return f"Pillow {importlib.metadata.version('pillow')}, libjpeg-turbo {features.version('libjpeg_turbo')}"


def _opencv_library() -> str:
    lines = cv2.getBuildInformation().splitlines()
    jpeg = next((line.split(":", 1)[1].strip() for line in lines if line.strip().startswith("JPEG:")), "unknown JPEG")
    return f"OpenCV {cv2.__version__}, {jpeg}"


def _ffmpeg_library() -> str:
    import av

    codec, scaler = (".".join(map(str, av.library_versions[name])) for name in ("libavcodec", "libswscale"))
    return f"PyAV {av.__version__}, libavcodec {codec}, libswscale {scaler}"


def _turbo_library() -> str:
    return f"simplejpeg {importlib.metadata.version('simplejpeg')}"


def _nvjpeg_library() -> str:
    from nvidia import nvimgcodec

    _nvidia()
    return f"nvImageCodec {nvimgcodec.__version__}"


DECODERS: Mapping[str, Decoder] = {
    "pillow": Decoder(_pillow, _pillow_library, "pip install pillow"),
    "opencv": Decoder(_opencv, _opencv_library, "pip install opencv-python"),
    "ffmpeg": Decoder(_ffmpeg, _ffmpeg_library, "pip install av"),
    "turbo-fast": Decoder(_turbo_fast, _turbo_library, "pip install simplejpeg"),
    "nvjpeg": Decoder(
        _nvjpeg,
        _nvjpeg_library,
        "pip install 'nvidia-nvimgcodec-cu12[nvjpeg]'",
        ", on a machine with an NVIDIA GPU",
    ),
}
"""Decoder name -> how it decodes, what it needs."""
