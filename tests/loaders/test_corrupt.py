"""Corrupt: kinds of images, keys, and the refusal of benchmarks."""

import copy
import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

import robustshards as rs
from corruptions.augmentation import Augmentation
from robustshards.torch import Corrupt

PIXELS = np.random.default_rng(3).integers(0, 256, (40, 32, 3)).astype(np.uint8)


class Training(Dataset[torch.Tensor]):
    """Images keyed by their index."""

    def __init__(self, corrupt: Corrupt, epoch: int | None = 2) -> None:
        self._corrupt = corrupt
        self._epoch = epoch

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        image: torch.Tensor = self._corrupt(torch.from_numpy(PIXELS).movedim(-1, 0), key=index, epoch=self._epoch)
        return image


def test_all_kinds_of_images_get_equal_pixels() -> None:
    corrupt = Corrupt("extra", (1, 2, 3), seed=5)
    expected = Augmentation("extra", (1, 2, 3), 1.0, seed=5)(PIXELS, "a", 1)
    tensor = torch.from_numpy(PIXELS).movedim(-1, 0)
    np.testing.assert_array_equal(corrupt(PIXELS, "a", 1), expected)
    np.testing.assert_array_equal(np.asarray(corrupt(Image.fromarray(PIXELS), "a", 1)), expected)
    np.testing.assert_array_equal(corrupt(tensor, "a", 1).permute(1, 2, 0).numpy(), expected)
    assert (tensor.movedim(0, -1).numpy() == PIXELS).all()
    assert not np.array_equal(corrupt(PIXELS, "a", 2), expected)


def test_a_single_name_is_always_applied() -> None:
    corrupt = Corrupt("speckle_noise", 3)
    assert corrupt.names == ("speckle_noise",)
    assert all(not np.array_equal(corrupt(PIXELS, key), PIXELS) for key in range(20))


def test_pairs_of_tensors() -> None:
    grey = torch.from_numpy(PIXELS[..., :1]).movedim(-1, 0)
    clean, corrupted = Corrupt("speckle_noise", 3, pair=True)(grey, 0)
    assert torch.equal(clean, grey.expand(3, -1, -1))
    assert clean.shape == corrupted.shape
    assert not torch.equal(clean, corrupted)


def test_loader_processes_make_equal_images() -> None:
    training = Training(pickle.loads(pickle.dumps(Corrupt(seed=1))))
    alone, shared = (list(DataLoader(training, batch_size=None, num_workers=count)) for count in (0, 2))
    assert all(torch.equal(one, other) for one, other in zip(alone, shared, strict=True))


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_living_loader_processes_see_the_epoch(start: str) -> None:
    corrupt = copy.deepcopy(Corrupt(seed=1))
    options = {"persistent_workers": True, "multiprocessing_context": start}
    loader = DataLoader(Training(corrupt, epoch=None), batch_size=None, num_workers=1, **options)
    for epoch in (0, 1, 2):
        corrupt.set_epoch(epoch)
        training = Training(Corrupt(seed=1), epoch)
        expected = [training[index] for index in range(8)]
        assert all(torch.equal(one, other) for one, other in zip(loader, expected, strict=True))
    with pytest.raises(ValueError, match="epoch must be at least 0, not -1"):
        corrupt.set_epoch(-1)


def test_benchmarks_need_an_acknowledgement() -> None:
    with pytest.raises(ValueError, match="fog belongs to a benchmark"):
        Corrupt("fog", 3)
    assert Corrupt("fog", 3, acknowledge="I train on the benchmark").names == ("fog",)
    assert rs.torch.Corrupt is Corrupt


@pytest.mark.parametrize(
    "image",
    [
        torch.zeros(3, 32, 32),
        torch.zeros(2, 3, 32, 32, dtype=torch.uint8),
        torch.zeros(32, 40, 3, dtype=torch.uint8),
        torch.zeros(4, 32, 32, dtype=torch.uint8),
    ],
)
def test_other_tensors_are_refused(image: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"image must be a uint8 tensor \(3, H, W\) .*not torch\..* before batching"):
        Corrupt()(image)


def test_repr_shows_the_arguments() -> None:
    assert repr(Corrupt("speckle_noise", 3, seed=5)) == (
        "Corrupt(names=('speckle_noise',), severities=(3,), probability=1.0, profile='imagenet', seed=5, pair=False)"
    )


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="foggy"):
        Corrupt("foggy")
