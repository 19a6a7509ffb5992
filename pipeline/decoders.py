"""Encoded photograph -> RGB array. Every recipe decodes here."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage
from PIL import UnidentifiedImageError

from pipeline.errors import SampleError

MAX_PIXELS = 2**26
"""A header that announces more pixels than this is refused before anything is decoded (67 megapixels)."""

FORMATS = ("JPEG", "PNG", "PPM", "BMP", "TIFF", "WEBP")
"""What a file may hold, whatever its suffix says: ImageNet has PNG bytes in files named .JPEG."""

EIGHT_BIT_MODES = frozenset(
    {"1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "LAB", "HSV"}
)
"""Pillow modes whose conversion to RGB is what the published scripts did: ``Image.convert("RGB")``."""

SIXTEEN_BIT_MODES = frozenset({"I;16", "I;16B", "I;16L", "I;16N"})
"""Grey with 16 bits: the high byte is kept (``convert`` would clip nearly everything to white)."""


def decode(data: bytes, decoder: str = "pillow") -> NDArray[np.uint8]:
    """The first frame of an encoded image as uint8 RGB (H, W, 3).

    Grey, palette, CMYK and alpha become RGB as Pillow's ``convert("RGB")`` does it: grey is repeated in three
    channels, alpha is dropped without blending. Orientation tags are ignored, as the published scripts did.
    Raises SampleError with the reason where the bytes are empty, damaged, too large or of another kind.
    """
    if not data:
        raise SampleError("the file is empty")
    return DECODERS[decoder](data)


def _pillow(data: bytes) -> NDArray[np.uint8]:
    # Pillow warns at sizes that it holds for bombs; MAX_PIXELS is below them, and refuses.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with PillowImage.open(io.BytesIO(data), formats=FORMATS) as image:
                _refuse_bomb(*image.size)
                return _rgb(image)
        except PillowImage.DecompressionBombError as error:
            raise SampleError(f"refused as a decompression bomb: {error}") from error
        except UnidentifiedImageError as error:
            raise SampleError(f"not an image of a known format ({', '.join(FORMATS)})") from error
        except SampleError:
            raise
        except Exception as error:  # Pillow's readers raise nearly anything on damaged files
            raise SampleError(f"cannot be decoded: {type(error).__name__}: {error}") from error


def _refuse_bomb(width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise SampleError(f"refused: {width} x {height} pixels are more than the {MAX_PIXELS} allowed")


def _rgb(image: PillowImage.Image) -> NDArray[np.uint8]:
    if image.mode in SIXTEEN_BIT_MODES:
        grey = (np.asarray(image) >> 8).astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, axis=2)
    if image.mode not in EIGHT_BIT_MODES:
        raise SampleError(f"pixel mode {image.mode} has no published conversion to 8-bit RGB")
    return np.array(image.convert("RGB"))


DECODERS: Mapping[str, Callable[[bytes], NDArray[np.uint8]]] = {"pillow": _pillow}
"""Decoder name -> function."""
