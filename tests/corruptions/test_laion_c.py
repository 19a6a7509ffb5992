"""The distortions of LAION-C: reference outputs, the bank of tiles, and what has no random part."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import corruptions
from corruptions.laion_c.bands import glitch_of
from tests.factories.images import noise
from tests.golden import fidelity

NAMES = corruptions.names("laion-c")
PHOTOGRAPHS = (0, 92, 184, 276)
"""Tiles of the reference bank whose photographs the reference file has."""


@pytest.fixture(scope="module")
def golden(references: Path) -> dict[str, np.ndarray]:
    with np.load(references / "laion_c.npz") as archive:
        return dict(archive)


@pytest.mark.parametrize("name", NAMES)
def test_outputs_equal_the_published_ones(golden: dict[str, np.ndarray], name: str) -> None:
    outputs = [each for each in fidelity.distortion_outputs(golden) if each.name == name]
    assert len(outputs) == 10
    assert [each.key for each in outputs if not np.array_equal(each.found, each.expected)] == []


@pytest.mark.parametrize("name", ["geometric_shapes", "stickers", "luminance_checkerboard"])
def test_apply_uses_published_draws(golden: dict[str, np.ndarray], name: str) -> None:
    bank, keys = golden["bank/16"], list(corruptions.draw(noise(224, 224), name, seed=0, bank=golden["bank/16"]))
    draws = {key: golden[f"draws/{name}/3/1/{key}"].tolist() for key in keys}
    found = corruptions.apply(golden["input/1"], name, draws, severity=3, bank=bank)
    assert np.array_equal(found, golden[f"{name}/3/1"])


@pytest.mark.parametrize("side", fidelity.MOSAIC_SIDES)
def test_tiles_equal_the_published_ones(golden: dict[str, np.ndarray], side: int) -> None:
    files = (io.BytesIO(golden[f"bank/photo/{number}"].tobytes()) for number in PHOTOGRAPHS)
    tiles = corruptions.tiles((np.asarray(Image.open(file).convert("RGB")) for file in files), side)
    assert np.array_equal(tiles, golden[f"bank/{side}"][list(PHOTOGRAPHS)])


@pytest.mark.parametrize("count", [1, 7, 300, 5000])
def test_mosaic_takes_the_nearest_tile_and_of_equal_ones_the_first(count: int) -> None:
    generator = np.random.default_rng(count)
    colours = generator.integers(0, 256, (count, 3), np.uint8)
    bank = np.broadcast_to(colours[:, None, None], (count, 16, 16, 3)).copy()
    bank[-1] = bank[0]
    image = np.repeat(np.repeat(generator.integers(0, 256, (3, 4, 3), np.uint8), 16, axis=0), 16, axis=1)
    found = corruptions.corrupt(image, "mosaic", 4, bank=bank)
    cells = np.asarray(Image.fromarray(image).resize((4, 3), Image.Resampling.BICUBIC)).reshape(-1, 1, 3)
    nearest = ((bank[:, 0, 0].astype(int) - cells) ** 2).sum(axis=2).argmin(axis=1)
    assert np.array_equal(found[::16, ::16].reshape(-1, 3), bank[nearest, 0, 0])


def test_mosaic_follows_a_bank_that_changes() -> None:
    bank, image = np.zeros((2, 16, 16, 3), np.uint8), np.full((32, 32, 3), 200, np.uint8)
    assert corruptions.corrupt(image, "mosaic", 4, bank=bank).max() == 0
    bank[1] = 210
    assert corruptions.corrupt(image, "mosaic", 4, bank=bank).min() == 210


def test_all_images_are_glitched_alike() -> None:
    first = glitch_of(2, 224, 224)
    assert first.bands == ((-4, 145, 200), (-7, 23, 29), (-1, 151, 186), (-1, 77, 84))
    assert [glitch_of(level, 224, 224)[1:] for level in (2, 4, 5, 8, 10)] == [
        *((0, -3, 0), (0, -6, 0), (0, 8, -8), (0, -12, 0), (0, 16, -16))
    ]
    image = noise(224, 224)
    assert np.array_equal(corruptions.corrupt(image, "glitched", 1)[1::2, :, 0], image[1::2, :, 0])


@pytest.mark.parametrize("name", NAMES[:3])
def test_seeds_have_no_effect_where_nothing_is_drawn(name: str) -> None:
    bank = corruptions.tiles([noise(224, 224), 255 - noise(224, 224)], 4)
    assert corruptions.draw(noise(224, 224), name, seed=1, bank=bank) == {}
    one, two = (corruptions.corrupt(noise(224, 224), name, seed=seed, bank=bank) for seed in (1, 2))
    assert np.array_equal(one, two)


@pytest.mark.parametrize(
    ("name", "severity", "bank", "error", "message"),
    [
        ("mosaic", 1, None, ValueError, r"tiles of other photographs are needed: pass bank=corruptions\.tiles"),
        ("mosaic", 1, np.zeros((3, 6, 6, 3), np.uint8), ValueError, r"\(N, 4, 4, 3\) with N > 0, not \(3, 6, 6, 3\)"),
        ("stickers", 1, np.zeros((0, 16, 16, 3), np.uint8), ValueError, r"N > 0, not \(0, 16, 16, 3\)"),
        ("stickers", 1, np.zeros((3, 16, 16, 3)), TypeError, "uint8 array .* not float64"),
        ("mosaic", 2, np.zeros((3, 6, 6, 3), np.uint8), ValueError, "multiples of 6 .* not 224 x 224"),
    ],
)
def test_invalid_banks_are_refused(name: Any, severity: Any, bank: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        corruptions.corrupt(noise(224, 224), name, severity, seed=1, bank=bank)


@pytest.mark.parametrize(
    ("photographs", "side", "error", "message"),
    [
        ([], 8, ValueError, "no photographs"),
        ([noise(224, 224)], 0, ValueError, "side must be at least 1 pixel, not 0"),
        ([noise(224, 224) / 255], 8, TypeError, "must be uint8 .* not float64"),
        (noise(224, 224)[:, :, 0], 8, ValueError, r"not of shape \(224,\)"),
    ],
)
def test_invalid_photographs_of_a_bank_are_refused(
    photographs: Any, side: int, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        corruptions.tiles(photographs, side)


@pytest.mark.parametrize(
    ("name", "draws", "message"),
    [
        ("stickers", {"tile": [9], "row": [0], "column": [0]}, "draw 'tile' must be 0 <= tile < 2, not 9..9"),
        ("luminance_checkerboard", {"shift": [[1.0]]}, r"must have the shape \(16, 16\), not \(1, 1\)"),
        ("glitched", {"shift": 1}, "draws of 'glitched' must have no keys, not shift"),
    ],
)
def test_invalid_draws_are_refused(name: Any, draws: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        corruptions.apply(noise(224, 224), name, draws, bank=np.zeros((2, 16, 16, 3), np.uint8))


def test_other_profiles_are_refused() -> None:
    with pytest.raises(ValueError, match="profile must be 'imagenet' for 'glitched', not 'tiny'"):
        corruptions.corrupt(noise(224, 224), "glitched", profile="tiny")
