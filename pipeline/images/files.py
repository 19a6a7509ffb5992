"""Image files in the format of their source file, with its orientation tag and its colour profile.

Readers that turn images by the orientation tag, such as OpenCV, see the geometry that they see in the source file.
"""

import io
import os
import struct
import warnings
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import cv2
from PIL import Image as PillowImage
from PIL import TiffImagePlugin
from pydantic import Field

from corruptions.kernels.jpeg import round_trip
from pipeline.errors import SampleError
from pipeline.images.decoders import FORMATS, ORIENTATION, decode_again
from pipeline.images.encoder import Encoder, Image

FORMAT_OF_SUFFIX: Mapping[str, str] = {
    **dict.fromkeys((".jpg", ".jpeg", ".jpe", ".jfif", ".mpo"), "JPEG"),
    **dict.fromkeys((".ppm", ".pgm", ".pbm", ".pnm"), "PPM"),
    **dict.fromkeys((".tif", ".tiff"), "TIFF"),
    ".bmp": "BMP",
    ".webp": "WEBP",
}
"""Suffix in lower case -> format of files with it. All others, also GIF, which has only 256 colours, become PNG."""

TURNS = range(2, 9)
"""Orientation tags that turn or mirror an image."""

PROFILE_SPACE, RGB_SPACE = slice(16, 20), b"RGB "
"""Where a colour profile names its colour space, and the only one that fits RGB pixels."""

MAX_PROFILE = 2**20
"""Maximum size in bytes of a colour profile that is copied."""

PNG_HEADER = 33
"""Size in bytes of the signature and the header of a PNG file."""

WEBP_OPTIONS = {"lossless": True, "quality": 0, "method": 0}
"""A tenth of the default's time, and a tenth larger."""


@dataclass(frozen=True)
class Tags:
    """What is copied from a source file besides its pixels.

    Attributes:
        orientation: EXIF orientation, 2 to 8; 1 for none.
        profile: ICC profile of an RGB space; empty for none.
    """

    orientation: int = 1
    profile: bytes = b""


class Own(Encoder):
    """The format of each source file, with its orientation tag and colour profile. Lossless except for JPEG.

    Attributes:
        quality: JPEG quality, 1..100.
        chroma: Subsampling of JPEG: "4:4:4" (none) or "4:2:0", which removes most of coloured noise.
        content: "own": as the suffix of the file says. "png": PNG, and files named .png. "png-bytes": PNG under the
            name of the file.
    """

    name: Literal["own"] = "own"
    quality: Annotated[int, Field(ge=1, le=100)] = 95
    chroma: Literal["4:4:4", "4:2:0"] = "4:4:4"
    content: Literal["own", "png", "png-bytes"] = "own"
    suffix = ""

    def of(self, origin: str, data: object = None) -> Encoder:
        """Return the encoder of the files of one source image."""
        tags = tags_of(data) if isinstance(data, bytes) else Tags()
        return FileEncoder(**dict(self), origin=origin, tags=tags)

    def file_name(self, origin: str) -> str:
        """Return the path of a file that is made from a source file, which ``content`` decides."""
        return f"{os.path.splitext(origin)[0]}.png" if self.content == "png" else origin

    def encode(self, image: Image, grain: bool = False) -> bytes:
        """Return a file of the format that the name decides."""
        return self.of("").encode(image)

    def decode(self, data: bytes) -> Image:
        """Return the pixels of a file of any format, as sources read it."""
        try:
            return decode_again(data)
        except SampleError as error:
            raise ValueError(str(error)) from error


class FileEncoder(Own):
    """The encoder of the files of one source image.

    Attributes:
        origin: Path of the source image.
        tags: Its tags.
    """

    origin: str
    tags: Tags

    @property
    def suffix(self) -> str:  # type: ignore[override]  # a class variable of other encoders
        """The suffix of the file in lower case."""
        return os.path.splitext(self.file_name(self.origin))[1].lower()

    def encode(self, image: Image, grain: bool = False) -> bytes:
        """Return the file."""
        return encode_file(image, self._kind, self.tags, self.quality, self.chroma)

    def encode_decoded(self, image: Image, grain: bool = False) -> tuple[bytes, Image]:
        """Return the file and the pixels that readers get. A JPEG file is not decoded for them."""
        if self._kind == "JPEG":
            return self.encode(image), round_trip(image, self.quality, halved=self.chroma == "4:2:0")
        return super().encode_decoded(image, grain)

    @property
    def _kind(self) -> str:
        return format_of(self.origin) if self.content == "own" else "PNG"


def format_of(name: str) -> str:
    """Return the format of a file, which its suffix decides: JPEG, PNG, PPM, TIFF, BMP or WEBP."""
    return FORMAT_OF_SUFFIX.get(os.path.splitext(name)[1].lower(), "PNG")


def tags_of(data: bytes) -> Tags:
    """Return the tags of an image file; none if they are damaged."""
    with suppress(Exception), warnings.catch_warnings():  # Pillow raises exceptions of many types for damaged tags
        warnings.simplefilter("ignore")
        with PillowImage.open(io.BytesIO(data), formats=FORMATS) as image:
            if image.format == "PNG" and b"eXIf" in data:  # it may follow the pixels
                image.load()
            profile = image.info.get("icc_profile") or b""
            fits = len(profile) <= MAX_PROFILE and profile[PROFILE_SPACE] == RGB_SPACE
            orientation = _orientation(image)
            return Tags(orientation if orientation in TURNS else 1, profile if fits else b"")
    return Tags()


def _orientation(image: PillowImage.Image) -> Any:
    """Return the orientation in the EXIF data. Pillow's own function also reads XMP, which other readers ignore."""
    with suppress(Exception):
        if isinstance(image, TiffImagePlugin.TiffImageFile):
            return image.tag_v2.get(ORIENTATION, 1)
        exif = PillowImage.Exif()
        exif.load(image.info.get("exif", b""))
        return exif.get(ORIENTATION, 1)
    return 1


def encode_file(pixels: Image, kind: str, tags: Tags, quality: int = 95, chroma: str = "4:4:4") -> bytes:
    """Return an image file.

    Args:
        pixels: RGB image (H, W, 3).
        kind: Format, see :func:`format_of`. All but JPEG are lossless.
        tags: Orientation and colour profile. BMP and PPM files have none.
        quality: JPEG quality, 1 to 100.
        chroma: Subsampling of JPEG, 4:4:4 or 4:2:0.
    """
    if kind == "PNG":
        return _png(pixels, tags)
    options: dict[str, Any] = {"icc_profile": tags.profile} if tags.profile else {}
    if kind == "JPEG":
        options |= {"quality": quality, "subsampling": chroma}
    elif kind == "WEBP":
        options |= WEBP_OPTIONS
    if kind == "TIFF":
        options["tiffinfo"] = {ORIENTATION: tags.orientation}
    elif kind in ("JPEG", "WEBP") and tags.orientation != 1:
        options["exif"] = _exif(tags.orientation)
    buffer = io.BytesIO()
    PillowImage.fromarray(pixels).save(buffer, kind, **options)
    return buffer.getvalue()


def _exif(orientation: int) -> bytes:
    exif = PillowImage.Exif()
    exif[ORIENTATION] = orientation
    return exif.tobytes()


def _png(pixels: Image, tags: Tags) -> bytes:
    """Return a PNG file by OpenCV, which is faster than Pillow but writes no tags."""
    settings = [  # a third of the time of deflate's searches, at the same size for photographs and noise
        *(cv2.IMWRITE_PNG_COMPRESSION, 1),
        *(cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_RLE),
        *(cv2.IMWRITE_PNG_FILTER, cv2.IMWRITE_PNG_FILTER_AVG),
    ]
    done, data = cv2.imencode(".png", cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR), settings)
    if not done:
        raise RuntimeError(f"PNG encoding of a {pixels.shape} image failed")
    file, chunks = data.tobytes(), b""
    if tags.profile:
        chunks += _chunk(b"iCCP", b"ICC Profile\0\0" + zlib.compress(tags.profile, 0))  # the same for every zlib
    if tags.orientation != 1:
        chunks += _chunk(b"eXIf", _exif(tags.orientation).removeprefix(b"Exif\0\0"))
    return file[:PNG_HEADER] + chunks + file[PNG_HEADER:] if chunks else file


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
