"""One corruption for the data loader of a detector, with the draws of a build."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import corruptions
from corruptions import Options
from corruptions.literals import Channels, Name, Profile, Severity
from corruptions.validation import check_integer
from pipeline.recipes.levels import whole_level
from pipeline.transforms.seeds import SEED_LIMIT, sample_seed


class Corruptor:
    """A function of an image and its key that returns the corrupted image: ``Corruptor("fog", 3)(image, "a/b.jpg")``.

    The draws depend only on (seed, key, name, severity), as those of a build depend on the id of an image. With the
    recipe's seed, and the path relative to the image root with its suffix as the key, the pixels are those of a mirror.
    Instances can be pickled, and used in threads.

    Args:
        name: Name of a corruption, as in ``robustshards.corrupt``.
        severity: Severity, 1..5.
        profile: Published parameter values to use, as in ``robustshards.corrupt``.
        seed: Seed of all draws, 0 <= seed < 2**64.
        channels: Order in which the corruption reads the channels. ``"bgr"`` corrupts the reversed image and reverses
            the result. So for an image that OpenCV has read, which is BGR, ``"bgr"`` gives the colours of an RGB image.
        options: Settings that the published script did not have.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument has an invalid value.
    """

    def __init__(
        self,
        name: Name,
        severity: Severity | float = 1,
        *,
        profile: Profile = "detection",
        seed: int = 0,
        channels: Channels = "rgb",
        options: Options = corruptions.DEFAULTS,
    ) -> None:
        self._corrupt = corruptions.corruptor(name, severity, profile=profile, channels=channels, options=options)
        if not 0 <= check_integer(seed, "seed") < SEED_LIMIT:
            raise ValueError(f"seed must be 0 <= seed < 2**64, not {seed}")
        self._seed, self._name, self._level = int(seed), str(name), int(str(whole_level(severity)))
        self._again = partial(Corruptor, name, severity, profile=profile, seed=seed, channels=channels, options=options)

    def __repr__(self) -> str:
        """Return the constructor with its arguments."""
        named = (f"{name}={value!r}" for name, value in self._again.keywords.items())
        return f"Corruptor({', '.join((*map(repr, self._again.args), *named))})"

    def __call__(self, image: NDArray[np.uint8], key: str) -> NDArray[np.uint8]:
        """Return the corrupted image.

        Args:
            image: uint8 array, three channels (H, W, 3) or grey (H, W) or (H, W, 1). The array is not modified.
            key: Identity of the image, for example its path relative to the image root. An integer is the same key as
                its digits.

        Returns:
            A new C-contiguous uint8 array (H, W, 3).

        Raises:
            TypeError: If an argument has the wrong type.
            ValueError: If the image has an invalid shape.
        """
        if not isinstance(key, str):
            key = str(check_integer(key, "key"))
        return self._corrupt(image, sample_seed(self._seed, key, self._name, self._level))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to create an equal instance, for pickle."""
        return self._again, ()
