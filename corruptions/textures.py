"""The frost textures: located, verified by digest, and decoded once per process."""

import hashlib
import importlib.util
import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from corruptions.kernels.sampling.opencv_resize import resize_cubic, resize_linear, scale_linear

PACKAGE = "imagecorruptions"
"""Package that contains the authors' textures as data files. Its code is outdated and is never imported."""

PACKAGE_FOLDER = "frost"
"""Folder of the textures in the package."""

INSTALL_HINT = f'run "pip install {PACKAGE}", or set frost_folder to a folder with the six files'
"""How to get the textures."""


MAX_BYTES = 2**24
"""Bytes of a texture file that are read. A longer file has a different digest in any case."""


@dataclass(frozen=True)
class Texture:
    """File name, and SHA-256 digest of the file."""

    name: str
    sha256: str


TEXTURES = (
    Texture("frost1.png", "ff9f907860bd7a835d459e32f9d588062b7f61ee267343cc7222b56753a14755"),
    Texture("frost2.png", "fe211a89b336999c207a852ce05818d4545d0b57c5beadd824b4cc9d9a9b6137"),
    Texture("frost3.png", "2d0d50b4a9bb213f38b024ef7768731bb83cc08d2f26b5766bbc167cdfa0e504"),
    Texture("frost4.jpg", "3f8b91ca1a9fa7167b09e773da53f5ae60d0a1fd88f02a783f6e328a72887f6e"),
    Texture("frost5.jpg", "5fc6a19df4a429ba68abdcc8f8a4278d4c9f81c9ccafd2c92ab0c8cf8992ebd2"),
    Texture("frost6.jpg", "1f92b2f48408748085b68dd81d816ef239f42cef3029c25d041fcb6760fb4f25"),
)
"""All textures, in published order."""


def find_folder(folder: str | None) -> Path:
    """Return the folder of the textures. The package is located but not imported.

    Args:
        folder: Folder to use. None uses that of the package.

    Returns:
        The folder.

    Raises:
        FileNotFoundError: If the folder does not exist or the package is not installed.
    """
    if folder is not None:
        if not Path(folder).is_dir():
            raise FileNotFoundError(f"frost_folder {folder!r} is not a folder; {INSTALL_HINT}")
        return Path(folder)
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"the frost textures are not installed; {INSTALL_HINT}")
    return Path(spec.submodule_search_locations[0]) / PACKAGE_FOLDER


def read_verified(path: Path, sha256: str) -> bytes:
    """Return the contents of a texture file.

    Args:
        path: The file.
        sha256: Expected digest of its contents.

    Returns:
        The bytes of the file.

    Raises:
        FileNotFoundError: If the file is missing.
        ValueError: If its digest is not the expected one.
    """
    if not path.is_file():
        raise FileNotFoundError(f"the frost texture {path} is missing; {INSTALL_HINT}")
    with open(path, "rb") as file:
        content = file.read(MAX_BYTES)
    actual = hashlib.sha256(content).hexdigest()
    if actual != sha256:
        raise ValueError(
            f"the frost texture {path} has sha256 {actual}, expected {sha256}: another file would change the pixels; "
            f"{INSTALL_HINT}"
        )
    return content


@lru_cache(maxsize=3 * len(TEXTURES))
def load(folder: str | None, index: int, scale: float) -> NDArray[np.uint8]:
    """Return a decoded texture. It is cached for this process.

    Args:
        folder: Folder of the textures. None uses that of the package.
        index: Index into TEXTURES.
        scale: Factor by which both sides are resized.

    Returns:
        uint8 RGB (rows, columns, 3), without alpha.

    Raises:
        FileNotFoundError: If the file is missing.
        ValueError: If its digest is not the expected one, or OpenCV cannot decode it.
    """
    texture = TEXTURES[index]
    content = read_verified(find_folder(folder) / texture.name, texture.sha256)
    decoded = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
    if decoded is None:
        raise ValueError(f"OpenCV cannot decode {texture.name}: install an OpenCV with PNG and JPEG support")
    pixels = cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB)
    if scale != 1.0:
        pixels = scale_linear(np.asarray(pixels, np.uint8), scale)
    return np.asarray(pixels, np.uint8)


ENLARGEMENT = 1.1
"""Factor by which every texture is enlarged in the profile of detection, also one that covers the image."""


def covering_shape(texture: tuple[int, int], image: tuple[int, int], enlarged: bool = False) -> tuple[int, int]:
    """Return the shape to which a texture is enlarged for an image: larger than the image along both axes.

    A texture that is large enough keeps its shape. A smaller one is enlarged by the smallest sufficient factor. This
    never happens at the published image sizes.

    Args:
        texture: Shape of the texture (rows, columns).
        image: Shape of the image (rows, columns).
        enlarged: Whether for the profile of detection. Quirk: there, it is always enlarged, by a tenth more than the
            image needs (imagecorruptions).

    Returns:
        The shape (rows, columns).
    """
    if enlarged:
        factor = max(1, *(side / own for own, side in zip(texture, image, strict=True))) * ENLARGEMENT
        return math.ceil(texture[0] * factor), math.ceil(texture[1] * factor)
    factor = max((needed + 1) / side for side, needed in zip(texture, image, strict=True))
    if factor <= 1.0:
        return texture
    rows, columns = (max(needed + 1, math.floor(side * factor)) for side, needed in zip(texture, image, strict=True))
    return rows, columns


def covering_part(
    texture: NDArray[np.uint8], image: tuple[int, int], corner: tuple[int, int], enlarged: bool = False
) -> tuple[NDArray[np.uint8], int, int]:
    """Return an array with the part of a texture that covers an image, and the part's position in this array.

    A texture that is large enough is returned whole. Of an enlarged one, only the part is computed.

    Args:
        texture: uint8 RGB (rows, columns, 3).
        image: Shape of the image (H, W).
        corner: First row and column of the part in the texture of :func:`covering_shape`.
        enlarged: Whether for the profile of detection, where textures are enlarged by cubic interpolation.

    Returns:
        uint8 RGB array, row, column.
    """
    shape = covering_shape((texture.shape[0], texture.shape[1]), image, enlarged)
    if shape == texture.shape[:2]:
        return texture, *corner
    resize = resize_cubic if enlarged else resize_linear
    return resize(texture, shape, corner, image), 0, 0
