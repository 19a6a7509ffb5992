"""Corruptions as a random augmentation of training images, for the data loader of any framework."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence, Set
from multiprocessing import current_process
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

import corruptions
from corruptions.catalogue import MIN_SIDE, Image, Options
from corruptions.literals import Group, Name, Profile, Severity
from corruptions.validation import check_integer, to_rgb

ACKNOWLEDGEMENT = "I train on the benchmark"
"""The sentence that allows corruptions of a benchmark."""
UNCHANGED = 0
"""The severity that leaves an image unchanged."""
MODES = ("RGB", "L")
"""Modes of PIL images whose pixels are an array that ``corrupt`` accepts."""

_PURPOSE = b"augmentation"
_WORD = 2**64
"""Number of values of each of the three numbers that decide what happens to an image."""


class Augmentation:
    """A function that corrupts images at random, for training.

    What happens to an image depends only on (seed, epoch, key). With the index or path of the image as its key, any
    number of loader processes gives equal images. Without a key, the name of the process and the number of earlier
    calls in it are used: then only a single process gives equal images in each run. Processes that ``multiprocessing``
    did not start share one name; give each of them another seed. Instances can be pickled, and used in threads and
    after a fork.

    Args:
        names: Name of a corruption, a group of them as in :func:`corruptions.names`, or a sequence of names. All are
            equally likely. Default: the four extra corruptions of ImageNet-C.
        severities: Severities 1..5, all equally likely. 0 leaves an image unchanged. Candidates accept only 0 and 1.
        probability: Fraction of the images to corrupt, 0..1.
        profile: Published parameter values to use, as in :func:`corruptions.corrupt`.
        seed: Seed of all draws, an integer from 0.
        pair: Return each image together with its corrupted version, for losses that compare both.
        acknowledge: ``"I train on the benchmark"`` allows corruptions of a benchmark. State it in every result of the
            model (``evaluate --note``): such results do not show robustness to unseen corruptions.
        options: Settings that the published scripts did not have.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument has an invalid value, or a corruption belongs to a benchmark.
    """

    def __init__(
        self,
        names: Name | Group | Sequence[Name] = "extra",
        severities: Severity | Sequence[int] = (1, 2, 3),
        probability: float = 0.5,
        profile: Profile = "imagenet",
        seed: int = 0,
        *,
        pair: bool = False,
        acknowledge: str = "",
        options: Options = corruptions.DEFAULTS,
    ) -> None:
        levels = severities if isinstance(severities, Iterable) else (severities,)
        self.names = _listed(names)
        self.severities = tuple(check_integer(level, "severity") for level in levels)
        self.probability = _check_probability(probability)
        self.profile = profile
        self.seed = check_natural(seed, "seed")
        self.pair = pair
        self.options = options
        self._calls = 0
        _check_corruptions(self.names, self.severities, profile, options)
        _refuse_benchmarks(self.names, acknowledge)

    def __call__(
        self, image: NDArray[np.uint8] | PillowImage.Image, key: str | int | None = None, epoch: int = 0
    ) -> Any:
        """Return the image, corrupted or unchanged.

        Args:
            image: uint8 array, RGB (H, W, 3) or grey (H, W) or (H, W, 1), or a PIL image of mode RGB or L. Grey is
                repeated to three channels. Both sides must be at least 16 pixels, for candidates 130. The image is not
                modified.
            key: Identity of the image, for example its index or path; a number and its digits are the same key.
                Default: the name of this process and the number of earlier calls in it.
            epoch: Number of the epoch, from 0.

        Returns:
            A new RGB image of the same kind. With ``pair``: the given image as RGB, which is the same array if it is
            RGB already, and the new image.

        Raises:
            TypeError: If an argument has the wrong type.
            ValueError: If the image has an invalid shape or mode, or the epoch is negative.
        """
        clean = to_rgb(_pixels(image), MIN_SIDE)
        numbers = _numbers(self.seed, check_natural(epoch, "epoch"), self._next_key() if key is None else _text(key))
        result = _as_kind_of(image, self._augmented(clean, *numbers))
        return (_as_kind_of(image, clean), result) if self.pair else result

    def __repr__(self) -> str:
        """Return the constructor with its main arguments."""
        names = ("names", "severities", "probability", "profile", "seed", "pair")
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def _augmented(self, clean: Image, chance: int, which: int, how_strong: int, seed: int) -> Image:
        """Return a new image that the four random numbers decide."""
        name, severity = _choose(self.names, which), _choose(self.severities, how_strong)
        if chance >= self.probability * _WORD or severity == UNCHANGED:
            return clean.copy()
        return corruptions.corrupt(clean, name, severity, profile=self.profile, seed=seed, options=self.options)

    def _next_key(self) -> str:
        """Return a key that differs from those of earlier calls, and of other processes of this program."""
        self._calls += 1
        return f"{current_process().name}/{self._calls}"


def _listed(names: Any) -> tuple[Any, ...]:
    """Return the names of corruptions that the user asks for, in an order that is the same in every process."""
    if isinstance(names, str):
        if names in corruptions.TRANSFORMS:
            return (names,)
        group: Any = names
        try:
            return corruptions.names(group)
        except ValueError as error:
            raise ValueError(f"{error}, or pass the name of a corruption") from None
    if isinstance(names, Set) or not isinstance(names, Iterable):
        raise TypeError(f"names must be a corruption, a group, or a sequence of names, not {type(names).__name__}")
    return tuple(names)


def _check_probability(probability: float) -> float:
    if not isinstance(probability, Real) or isinstance(probability, bool):
        raise TypeError(f"probability must be a number 0..1, not {probability!r}")
    if not 0 <= probability <= 1:
        raise ValueError(f"probability must be 0..1, not {probability!r}")
    return probability


def check_natural(number: int, what: str) -> int:
    """Return the number as an int. Raises TypeError if it is not an integer, and ValueError if it is negative."""
    value = check_integer(number, what)
    if value < 0:
        raise ValueError(f"{what} must be at least 0, not {value}")
    return value


def _check_corruptions(names: Sequence[str], severities: Sequence[int], profile: str, options: Options) -> None:
    """Look up every corruption at every severity. Raises TypeError and ValueError."""
    if not names or not severities:
        raise ValueError("names and severities must not be empty; use probability=0 for unchanged images")
    for name in names:
        for severity in {*severities} - {UNCHANGED} or {1}:
            corruptions.corruptor(name, severity, profile=profile, options=options)


def _refuse_benchmarks(names: Sequence[str], acknowledge: str) -> None:
    """Raise ValueError if a corruption belongs to a benchmark and the user does not acknowledge it."""
    if acknowledge not in ("", ACKNOWLEDGEMENT):
        raise ValueError(f"acknowledge must be {ACKNOWLEDGEMENT!r} or empty, not {acknowledge!r}")
    found = [name for name in names if name in corruptions.TRANSFORMS and corruptions.TRANSFORMS[name].benchmark]
    if found and not acknowledge:
        verb = "belong" if found[1:] else "belongs"
        raise ValueError(
            f"{', '.join(found)} {verb} to a benchmark, whose corruptions must be unknown to the model (Hendrycks and "
            "Dietterich, ICLR 2019); use names='validation', or pass "
            f"acknowledge={ACKNOWLEDGEMENT!r} and state it in every result"
        )


def _pixels(image: Any) -> NDArray[np.uint8]:
    """Return the pixels of a PIL image as an array, and anything else as it is. Raises ValueError for other modes."""
    if not isinstance(image, PillowImage.Image):
        return image
    if image.mode not in MODES:
        raise ValueError(f"image must have mode {' or '.join(MODES)}, not {image.mode}; use image.convert('RGB')")
    return np.asarray(image)


def _as_kind_of(image: Any, pixels: Image) -> Any:
    """Return RGB pixels as a PIL image if the given image is one."""
    return PillowImage.fromarray(pixels) if isinstance(image, PillowImage.Image) else pixels


def _text(key: str | int) -> str:
    if isinstance(key, str):
        return key
    try:
        return str(check_integer(key, "key"))
    except TypeError:
        raise TypeError(f"key must be a string or an integer, not {key!r}; use str(key)") from None


def _numbers(seed: int, epoch: int, key: str) -> tuple[int, int, int, int]:
    """Return three random numbers of 64 bits, and a seed of 128 bits, as a hash of the arguments."""
    digest = hashlib.blake2b(f"{seed} {epoch} {key}".encode("utf-8", "surrogatepass"), person=_PURPOSE).digest()
    first, second, third = struct.unpack_from("<3Q", digest)
    return first, second, third, int.from_bytes(digest[24:40], "little")


def _choose(values: Sequence[Any], number: int) -> Any:
    """Return one of the values, all equally likely for random numbers of 64 bits."""
    return values[number * len(values) // _WORD]
