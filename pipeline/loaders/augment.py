"""Corruptions as a transform of training images for PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import corruptions
from corruptions.augmentation import Augmentation, check_natural
from corruptions.catalogue import Options
from corruptions.literals import Group, Name, Profile, Severity

CHANNELS = (1, 3)
"""Numbers of channels of grey and RGB images."""


class Corrupt(Augmentation):
    """A transform that corrupts images, for training and for trying a corruption: ``Corrupt("speckle_noise", 3)``.

    It is ``robustshards.Augmentation`` for PIL images, arrays and tensors. What happens to an image depends only on
    (seed, epoch, key), so call ``corrupt(image, key=index)`` in the ``__getitem__`` of a data set, and
    ``corrupt.set_epoch(epoch)`` before each epoch. As a member of ``transforms.Compose`` it gets no key and numbers the
    images that its process has read; then only a single process gives equal images in each run.

    Args:
        names: Name of a corruption, a group of them as in ``robustshards.corruptions.names``, or a sequence of names.
            All are equally likely. Default: the four extra corruptions of ImageNet-C.
        severities: Severity 1..5, or several, all equally likely. 0 leaves an image unchanged.
        seed: Seed of all draws, an integer from 0.
        probability: Fraction of the images to corrupt, 0..1. Default: all.
        profile: Published parameter values to use, as in ``robustshards.corrupt``.
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
        seed: int = 0,
        *,
        probability: float = 1.0,
        profile: Profile = "imagenet",
        pair: bool = False,
        acknowledge: str = "",
        options: Options = corruptions.DEFAULTS,
    ) -> None:
        super().__init__(
            names, severities, probability, profile, seed, pair=pair, acknowledge=acknowledge, options=options
        )
        self._share(torch.zeros((), dtype=torch.int64))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._share(self._epoch)  # that of a copy; a spawned loader process gets it shared already

    def _share(self, epoch: Any) -> None:
        self._epoch = epoch.share_memory_()

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the calls that name none, here and in the loader processes that use this transform.

        Call it before each pass over a ``DataLoader``. Loader processes that live on (``persistent_workers=True``) see
        it too; an attribute of the data set would keep the value that it had when they started.

        Args:
            epoch: Number of the epoch, from 0.

        Raises:
            TypeError: If it is not an integer.
            ValueError: If it is negative.
        """
        self._epoch.fill_(check_natural(epoch, "epoch"))

    def __call__(self, image: Any, key: str | int | None = None, epoch: int | None = None) -> Any:
        """Return the image, corrupted or unchanged.

        Args:
            image: uint8 tensor, RGB (3, H, W) or grey (1, H, W), or what ``robustshards.Augmentation`` accepts: a PIL
                image of mode RGB or L, or an array (H, W, 3) or (H, W). It is not modified.
            key: Identity of the image, for example its index or path. Default: the name of this process and the
                number of earlier calls in it.
            epoch: Number of the epoch, from 0. Default: that of ``set_epoch``, else 0.

        Returns:
            A new RGB image of the same kind. With ``pair``: the given image as RGB, and the new image.

        Raises:
            TypeError: If an argument has the wrong type.
            ValueError: If the image has an invalid shape, mode or type, or the epoch is negative.
        """
        epoch = int(self._epoch) if epoch is None else epoch
        if not isinstance(image, torch.Tensor):
            return super().__call__(image, key, epoch)
        if image.dtype != torch.uint8 or image.ndim != 3 or len(image) not in CHANNELS:
            raise ValueError(
                f"image must be a uint8 tensor (3, H, W) or (1, H, W), not {image.dtype} of shape "
                f"{tuple(image.shape)}; corrupt it before converting it to float and before batching"
            )
        result = super().__call__(np.ascontiguousarray(image.movedim(0, -1).cpu().numpy()), key, epoch)
        return tuple(_tensor(each, image.device) for each in result) if self.pair else _tensor(result, image.device)


def _tensor(pixels: NDArray[np.uint8], device: torch.device) -> torch.Tensor:
    return torch.from_numpy(pixels).movedim(-1, 0).contiguous().to(device)
