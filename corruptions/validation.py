"""Validation of arguments. Each check returns the value in the form that kernels need, or raises an error."""

import operator
from collections.abc import Collection, Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from corruptions.catalogue import PROFILES, Image, Options
from corruptions.draws import SEED_BITS, DrawSource, FastDraws, PublishedDraws, UnseededDraws
from corruptions.registry import find, unknown


def to_rgb(image: NDArray[np.uint8], smallest_side: int, is_reversed: bool = False) -> Image:
    """Return an image as a C-contiguous, writeable uint8 (H, W, 3) array. Grey is repeated to three channels.

    Args:
        image: RGB (H, W, 3), or grey (H, W) or (H, W, 1).
        smallest_side: Smallest accepted side in pixels.
        is_reversed: Whether to reverse the order of channels.

    Returns:
        The same array, or a copy if its layout has to change.

    Raises:
        TypeError: If it is not a uint8 array.
        ValueError: If its shape is invalid, or it is a masked array.
    """
    if isinstance(image, np.ma.MaskedArray):
        raise ValueError("image must not be a masked array; use image.filled(0), which makes masked pixels black")
    if not isinstance(image, np.ndarray):
        raise TypeError(f"image must be a numpy array, not {type(image).__name__}; convert it with numpy.asarray")
    if image.dtype != np.uint8:
        raise TypeError(f"image must be uint8 with levels 0..255, not {image.dtype}; {_to_uint8(image)}")
    grey = image.ndim == 2 or (image.ndim == 3 and image.shape[2] == 1)
    if not grey and (image.ndim != 3 or image.shape[2] != 3):
        raise ValueError(
            f"image must be RGB (H, W, 3) or grey (H, W) or (H, W, 1), not of shape {image.shape}{_to_channels(image)}"
        )
    if min(image.shape[:2]) < smallest_side:
        smallest = f"{smallest_side} x {smallest_side}"
        raise ValueError(f"image must be at least {smallest}, not {image.shape[0]} x {image.shape[1]}")
    if grey:
        image = np.broadcast_to(image.reshape(*image.shape[:2], 1), (*image.shape[:2], 3))
    if is_reversed:
        return reversed_channels(image)
    # Copy read-only arrays: numba treats them as a separate type, for which all kernels would be compiled again.
    return image if image.flags.carray else np.require(image, requirements=("C", "W"))


def reversed_channels(image: Image) -> Image:
    """Return a copy of an image with its channels in reverse order."""
    return np.asarray(cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_RGB2BGR), np.uint8)


def check_channels(channels: str) -> bool:
    """Return whether the order of channels is reversed. Raises ValueError if it is unknown."""
    return find("order of channels", {"rgb": False, "bgr": True}, channels)


def _to_uint8(image: NDArray[Any]) -> str:
    """Return how to make an image of another type uint8."""
    if image.dtype.kind not in "fiu":
        return "convert it first"
    low, high = (image.min(), image.max()) if image.size else (0, 1)
    if not (low >= 0 and high <= 255):
        return "scale it to 0..255 (undo a normalisation), then use image.astype(numpy.uint8)"
    factor = " * 255" if high <= 1 else ""
    return f"use (image{factor}).round().astype(numpy.uint8)"


def _to_channels(image: NDArray[Any]) -> str:
    """Return how to bring the channels of an image of another shape to the end; empty if it is unknown."""
    if image.ndim == 4:
        return "; pass one image at a time"
    if image.ndim == 3 and image.shape[0] in (1, 3):
        return "; use image.transpose(1, 2, 0)"
    return "; use image[..., :3]" if image.ndim == 3 and image.shape[2] == 4 else ""


def check_profile(profile: str, allowed: Collection[str] = PROFILES) -> str:
    """Return the profile. Raises ValueError if it is not one of those allowed."""
    if profile not in allowed:
        raise ValueError(unknown("profile", profile, allowed=allowed))
    return profile


def check_options(options: Options) -> Options:
    """Return the options. Raises TypeError if they are of another type."""
    if not isinstance(options, Options):
        raise TypeError(f"options must be corruptions.Options, not {type(options).__name__}")
    return options


def draw_source(image: Image, seed: int | None, rng: np.random.RandomState | None = None) -> DrawSource:
    """Return the source of random numbers.

    Args:
        image: The image to draw for.
        seed: Seed of the fast generator, used if ``rng`` is None.
        rng: Legacy generator, used in the published order of draws.

    Returns:
        The source.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If the seed is out of range.
    """
    if rng is None:
        if seed is None:
            return UnseededDraws(image)
        number = check_integer(seed, "seed")
        if not 0 <= number < 2**SEED_BITS:
            raise ValueError(f"seed must be 0 <= seed < 2**{SEED_BITS}, not {number}")
        return FastDraws(number)
    if not isinstance(rng, np.random.RandomState):
        raise TypeError(f"rng must be a numpy.random.RandomState or None, not {type(rng).__name__}; use seed instead")
    return PublishedDraws(rng)


def check_level(number: int, allowed: Sequence[int], what: str) -> int:
    """Return a severity or difficulty as an int.

    Args:
        number: The value.
        allowed: Allowed values, which are consecutive.
        what: Name of the argument, for error messages.

    Returns:
        The value.

    Raises:
        TypeError: If it is not an integer.
        ValueError: If it is not allowed.
    """
    value = check_integer(number, what)
    if value not in allowed:
        limits = f"{allowed[0]}..{allowed[-1]}" if allowed[1:] else f"{allowed[0]}, the only one"
        raise ValueError(f"{what} must be {limits}, not {value}")
    return value


def check_integer(number: int, what: str) -> int:
    """Return the number as an int. Raises TypeError if it is not an integer, or is a bool."""
    if not is_integer(number):
        raise TypeError(f"{what} must be an integer, not {number!r}")
    return operator.index(number)


def is_integer(number: Any) -> bool:
    """Return whether a value is an integer of any type, and not a bool."""
    try:
        operator.index(number)
    except TypeError:
        return False
    return not isinstance(number, bool | np.bool_)
