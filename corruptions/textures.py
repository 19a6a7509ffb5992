"""The frost textures: found, checked by digest, decoded once per process."""

from __future__ import annotations

import hashlib
import importlib.util
import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

PACKAGE = "imagecorruptions"
"""Carries the authors' textures as data files; its code does not work with today's libraries and is never imported."""

PACKAGE_FOLDER = "frost"

INSTALL_HINT = f'"pip install {PACKAGE}" brings them; or name a folder that holds the six files in frost_folder'


MAX_BYTES = 2**24
"""Of a texture's file: the largest has 2 MB, and what is longer has another digest anyway."""


@dataclass(frozen=True)
class Texture:
    """A file name and the sha256 of the file's bytes."""

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


def find_folder(folder: str | None) -> Path:
    """The folder of the textures: the one given, or that of the package, which is not imported.

    Raises FileNotFoundError if there is none.
    """
    if folder is not None:
        if not Path(folder).is_dir():
            raise FileNotFoundError(f"frost_folder {folder!r} is not a folder; {INSTALL_HINT}")
        return Path(folder)
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"the frost textures are not installed; {INSTALL_HINT}")
    return Path(spec.submodule_search_locations[0]) / PACKAGE_FOLDER


def read_checked(path: Path, sha256: str) -> bytes:
    """The bytes of a texture. Raises FileNotFoundError, or ValueError if they are other bytes than the authors'."""
    if not path.is_file():
        raise FileNotFoundError(f"the frost texture {path} is missing; {INSTALL_HINT}")
    with open(path, "rb") as file:
        content = file.read(MAX_BYTES)
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ValueError(
            f"the frost texture {path} has sha256 {found}, expected {sha256}: other pixels make another data set; "
            f"{INSTALL_HINT}"
        )
    return content


@lru_cache(maxsize=3 * len(TEXTURES))
def load(folder: str | None, index: int, scale: float) -> NDArray[np.uint8]:
    """Texture ``index``, (rows, columns, 3) uint8 RGB without alpha, scaled by ``scale``; kept for this process."""
    texture = TEXTURES[index]
    content = read_checked(find_folder(folder) / texture.name, texture.sha256)
    decoded = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
    if decoded is None:
        raise ValueError(f"this OpenCV cannot decode {texture.name}")
    pixels = cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB)
    if scale != 1.0:
        pixels = cv2.resize(pixels, None, fx=scale, fy=scale, interpolation=cv2.INTER_LINEAR)
    return np.asarray(pixels, np.uint8)


def covering_shape(texture: tuple[int, int], image: tuple[int, int]) -> tuple[int, int]:
    """The shape (rows, columns) in which a texture is used for an image: larger than the image along both axes.

    A texture that is large enough keeps its shape; another is enlarged by one factor, no more than needed. The
    published scripts have no images that large.
    """
    factor = max((needed + 1) / side for side, needed in zip(texture, image, strict=True))
    if factor <= 1.0:
        return texture
    rows, columns = (max(needed + 1, math.floor(side * factor)) for side, needed in zip(texture, image, strict=True))
    return rows, columns


def cover(texture: NDArray[np.uint8], image: tuple[int, int]) -> NDArray[np.uint8]:
    """The texture, enlarged as :func:`covering_shape` says where it is too small for the image."""
    rows, columns = covering_shape((texture.shape[0], texture.shape[1]), image)
    if (rows, columns) == texture.shape[:2]:
        return texture
    return np.asarray(cv2.resize(texture, (columns, rows), interpolation=cv2.INTER_LINEAR), np.uint8)
