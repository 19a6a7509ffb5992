"""The corruptions of ImageNet-3DCC that need no depth: reference outputs, draws, flat pictures and arguments."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corruptions
from corruptions.catalogue import SEVERITIES
from corruptions.draws import FastDraws, PublishedDraws
from corruptions.kernels.random import poisson
from corruptions.noise_3dcc import ISO_NOISE, LOW_LIGHT
from tests.golden.fidelity import NOISE_SEED, noise_outputs

NOISY = ("iso_noise", "low_light")
NAMES = (*NOISY, "color_quant")


@pytest.fixture(scope="module")
def golden(references: Path) -> Mapping[str, np.ndarray]:
    with np.load(references / "noise3d.npz") as archive:
        return dict(archive)


def ramp(low: int = 0, high: int = 255) -> np.ndarray:
    levels = np.linspace(low, high, 40 * 48 * 3).round().astype(np.uint8)
    return levels.reshape(40, 48, 3)


def test_outputs_equal_the_references(golden: Mapping[str, np.ndarray]) -> None:
    outputs = list(noise_outputs(golden))
    assert len(outputs) == 45
    assert [output.key for output in outputs if (output.found != output.expected).any()] == []


@pytest.mark.parametrize("name", NOISY)
def test_given_draws_of_the_authors_give_the_references(name: str, golden: Mapping[str, np.ndarray]) -> None:
    image, rng = golden["input/2"], np.random.RandomState(NOISE_SEED + 4)
    units = image / 255
    if name == "iso_noise":
        photons = rng.poisson(25 * units)
        noise = rng.normal(size=image.shape, scale=0.7 * 0.26)
    else:
        dark = ((units - units.min()) / (units.max() - units.min())) ** 2 * 0.3 * 255
        photons = rng.poisson(dark / 255 * 120)
        noise = rng.normal(size=image.shape, scale=0.018)
    found = corruptions.apply(image, name, {"photons": photons, "noise": noise}, severity=4)
    assert np.array_equal(found, golden[f"{name}/4/2"])


@pytest.mark.parametrize("full", [25, 120])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scaling_to_levels_and_back_changes_no_share_of_photons(full: int, dtype: type[np.floating]) -> None:
    """The kernel leaves out these two published operations."""
    shares = np.arange(full + 1).astype(dtype) / dtype(full)
    assert np.array_equal(shares * dtype(255) / dtype(255), shares)
    assert {row[0] for row in (*ISO_NOISE, *LOW_LIGHT)} == {25, 120}


def test_names_and_keys() -> None:
    assert corruptions.names("3dcc-noise") == NAMES
    for name in NAMES:
        for severity in SEVERITIES:
            drawn = corruptions.draw(ramp(), name, severity=severity, seed=5)
            assert list(drawn) == (["photons", "noise"] if name in NOISY else [])
            made = corruptions.apply(ramp(), name, drawn, severity=severity)
            assert np.array_equal(made, corruptions.corrupt(ramp(), name, severity, seed=5))


def test_color_quant_keeps_high_bits() -> None:
    for severity, mask in zip(SEVERITIES, (248, 240, 224, 192, 128), strict=True):
        assert np.array_equal(corruptions.corrupt(ramp(), "color_quant", severity), ramp() & mask)


@pytest.mark.parametrize("level", [0, 128, 255])
@pytest.mark.parametrize("rng", [False, True])
def test_flat_pictures_become_dark_noise(level: int, rng: bool) -> None:
    image = np.full((40, 48, 3), level, np.uint8)
    source: Any = {"rng": np.random.RandomState(1)} if rng else {"seed": 1}
    made = corruptions.corrupt(image, "low_light", 1, **source)
    black = corruptions.corrupt(
        np.zeros_like(image), "low_light", 1, **(source if not rng else {"rng": np.random.RandomState(1)})
    )
    assert np.array_equal(made, black)
    assert made.mean() == pytest.approx(255 * 0.018 / np.sqrt(2 * np.pi), abs=0.6)  # half of the noise, truncated


def test_low_light_stretches_the_whole_picture_first() -> None:
    """A picture and its stretched copy give the same pixels, except where rounding of the copy moves a mean."""
    narrow = np.where(np.arange(40 * 48 * 3).reshape(40, 48, 3) % 2, 90, 60).astype(np.uint8)
    wide = np.where(narrow == 90, 255, 0).astype(np.uint8)
    first, second = (corruptions.corrupt(image, "low_light", 2, seed=3) for image in (narrow, wide))
    assert np.array_equal(first, second)
    narrow[0, 0, 0] = 255
    assert corruptions.corrupt(narrow, "low_light", 2, seed=3).mean() < first.mean() / 3


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (17, 60)])
@pytest.mark.parametrize("name", NAMES)
def test_every_size_is_accepted_and_the_input_is_kept(name: str, size: tuple[int, int]) -> None:
    image = np.random.RandomState(5).randint(0, 256, (*size, 3)).astype(np.uint8)
    before = image.copy()
    made = corruptions.corrupt(image, name, 5, seed=1)
    assert np.array_equal(image, before)
    assert made.dtype == np.uint8
    assert (made.shape, np.shares_memory(made, image)) == (image.shape, False)


def test_both_sources_have_the_means_and_variances_of_poisson() -> None:
    """Up to the largest mean of low_light, 72; within five standard errors."""
    means = np.array([0.0, 0.3, 4.0, 20.0, 50.0, 72.0])
    rows = np.repeat(np.arange(6, dtype=np.uint8), 40_000).reshape(6, -1)
    for source in (FastDraws(3), PublishedDraws(np.random.RandomState(3))):
        drawn = source.photons(rows, means)
        assert (np.abs(drawn.mean(axis=1) - means) <= 5 * np.sqrt(means / 40_000)).all()
        spread = np.sqrt((means + 2 * means**2) / 40_000)
        assert (np.abs(drawn.var(axis=1) - means) <= 5 * spread).all()


def test_pictures_of_one_range_share_their_tables() -> None:
    poisson.tables_of.cache_clear()
    for low in range(0, 56, 5):
        corruptions.corrupt(ramp(low, low + 200), "low_light", 3, seed=1)
    assert poisson.tables_of.cache_info().currsize == 1


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        ({}, "draws of 'iso_noise' must have photons, noise, not none"),
        (
            {"photons": np.zeros((2, 2, 3)), "noise": np.zeros((40, 48, 3))},
            "draw 'photons' must have shape 40 x 48 x 3",
        ),
        ({"photons": np.zeros((40, 48, 3)), "noise": np.zeros((40, 48))}, "draw 'noise' must have shape 40 x 48 x 3"),
        ({"photons": np.zeros((40, 48, 3)), "noise": np.full((40, 48, 3), np.nan)}, "'noise' must have finite numbers"),
    ],
)
def test_invalid_draws_are_refused(draws: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        corruptions.apply(ramp(), "iso_noise", draws)


def test_other_profiles_and_severities_are_refused() -> None:
    with pytest.raises(ValueError, match="profile must be 'imagenet' for 'low_light', not 'cifar'"):
        corruptions.corrupt(ramp(), "low_light", 1, profile="cifar")
    with pytest.raises(ValueError, match=r"severity must be 1\.\.5, not 6"):
        corruptions.draw(ramp(), "low_light", severity=6)
