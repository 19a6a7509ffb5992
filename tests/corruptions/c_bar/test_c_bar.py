"""The public functions for ImageNet-C-bar: names, levels, reference outputs, sizes and errors."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corruptions
from corruptions import c_bar
from corruptions.catalogue import PROFILE_SIDES, SEVERITIES
from corruptions.draws import FastDraws, PublishedDraws
from corruptions.kernels.drawing import perlin
from tests.corruptions.c_bar.tolerance import assert_within
from tests.factories.images import assert_corrupted_copy, blocks
from tests.golden import fidelity

IMAGENET = (
    *("caustic_refraction", "inverse_sparkles", "sparkles", "perlin_noise", "blue_noise_sample", "plasma_noise"),
    *("checkerboard_cutout", "cocentric_sine_waves", "single_frequency_greyscale", "brownish_noise"),
)
CIFAR = (
    *("blue_noise_sample", "checkerboard_cutout", "inverse_sparkles", "pinch_and_twirl", "ripple", "brownish_noise"),
    *("circular_motion_blur", "lines", "sparkles", "transverse_chromatic_abberation"),
)
NAMES = (*IMAGENET, "pinch_and_twirl", "ripple", "circular_motion_blur", "lines", "transverse_chromatic_abberation")
CASES = [("imagenet", name) for name in IMAGENET] + [("cifar", name) for name in CIFAR]

WITHOUT_DRAWS = {"circular_motion_blur"}
SIZES = ((16, 16), (17, 60), (61, 32), (100, 101))


@pytest.fixture(scope="module")
def golden(references: Path) -> Mapping[str, np.ndarray]:
    with np.load(references / "cbar.npz") as archive:
        return dict(archive)


def corrupt(image: np.ndarray, name: str, severity: int = 3, seed: int = 1) -> np.ndarray:
    return corruptions.corrupt(image, name, severity, profile=next(iter(c_bar.CORRUPTIONS[name].levels)), seed=seed)


def test_names_are_those_of_the_publication_in_order() -> None:
    assert corruptions.names("c-bar") == NAMES
    assert c_bar.PUBLISHED == {"imagenet": IMAGENET, "cifar": CIFAR}
    assert [(profile, name) for profile in ("imagenet", "cifar") for name in c_bar.PUBLISHED[profile]] == CASES
    assert len(corruptions.names("all")) == 19


def test_profiles_with_levels_are_those_that_were_published() -> None:
    for name, row in c_bar.CORRUPTIONS.items():
        assert list(row.levels) == [profile for profile in ("imagenet", "cifar") if (profile, name) in CASES]
        assert all(len(levels) == len(SEVERITIES) for levels in row.levels.values())
        assert all(list(levels) == sorted(set(levels)) for levels in row.levels.values())


@pytest.mark.parametrize(
    ("name", "profile", "levels"),
    [
        ("caustic_refraction", "imagenet", (2.35, 3.2, 4.9, 6.6, 9.15)),
        ("inverse_sparkles", "cifar", (1, 1.5, 2.5, 4.5, 5)),
        ("sparkles", "imagenet", (1, 2, 3, 5, 6)),
        ("sparkles", "cifar", (0.7, 3.5, 5.6, 6.3, 7)),
        ("brownish_noise", "cifar", (2.5, 4, 5.5, 6.5, 7)),
        ("circular_motion_blur", "cifar", (2.8, 3.6, 4.4, 5.2, 6)),
    ],
)
def test_levels_are_the_published_ones(name: str, profile: str, levels: tuple[float, ...]) -> None:
    assert tuple(c_bar.CORRUPTIONS[name].parameters(profile, severity) for severity in SEVERITIES) == levels


@pytest.mark.parametrize(("profile", "name"), CASES)
def test_outputs_equal_the_references(profile: str, name: str, golden: Mapping[str, np.ndarray]) -> None:
    found = list(fidelity.corruption_outputs(golden, f"{profile}/", name))
    assert len(found) >= 15
    for output in found:
        assert_within(name, output.found, output.expected, output.key)


DRAWN: Mapping[str, tuple[list[int], Callable[[Any], list[float]]]] = {
    "caustic_refraction": ([0, 1], lambda draws: [draws.time, draws.scale]),
    "inverse_sparkles": ([0, 1, 8], lambda draws: [*draws.centre, draws.rays.size]),
    "sparkles": ([*range(10), *range(20, 25)], lambda draws: [*draws.centres.ravel(), *draws.counts]),
    "plasma_noise": ([0, 1, 2, 3], lambda draws: [draws.time, draws.iterations, draws.turbulence, draws.grain]),
    "checkerboard_cutout": ([0, 1], lambda draws: [draws.angle, draws.side]),
    "cocentric_sine_waves": ([0, 1, 2, 3, 4], list),
    "single_frequency_greyscale": ([0, 1, 2], list),
}
"""Corruption -> positions of drawn numbers in the recorded parameters, and the same numbers of our draws."""


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("severity", SEVERITIES)
def test_draws_are_the_recorded_ones(name: str, severity: int, golden: Mapping[str, np.ndarray]) -> None:
    row, (places, numbers) = c_bar.CORRUPTIONS[name], DRAWN[name]
    for profile in row.levels:
        recorded = golden[f"params/{profile}/{name}/{severity}"][places]
        source = PublishedDraws(np.random.RandomState(fidelity.CORRUPTION_SEED + severity))
        drawn = numbers(
            row.draw(source, np.zeros((*(PROFILE_SIDES[profile],) * 2, 3)), row.parameters(profile, severity))
        )
        assert np.allclose(drawn, recorded, rtol=1e-12, atol=0)


def test_gradients_come_from_the_recorded_seed(golden: Mapping[str, np.ndarray]) -> None:
    seed = int(golden["params/imagenet/perlin_noise/3"][5])
    row = c_bar.CORRUPTIONS["perlin_noise"]
    drawn = row.draw(PublishedDraws(np.random.RandomState(fidelity.CORRUPTION_SEED + 3)), np.zeros((224, 224, 3)), 5.8)
    assert np.array_equal(drawn, np.random.RandomState(seed).randint(0, 2**31, perlin.DRAWS))


@pytest.mark.parametrize("name", NAMES)
def test_every_size_is_accepted_and_the_input_is_kept(name: str) -> None:
    for size in SIZES:
        image, profile = blocks(*size), next(iter(c_bar.CORRUPTIONS[name].levels))
        before = image.copy()
        for rng in (None, np.random.RandomState(4)):
            result = corruptions.corrupt(image, name, 3, profile=profile, rng=rng)
            assert_corrupted_copy(result, image, before)


@pytest.mark.parametrize("name", NAMES)
def test_the_whole_of_a_rectangle_is_corrupted(name: str) -> None:
    for size in ((32, 160), (160, 32)):
        image = blocks(*size)
        changed = np.any([corrupt(image, name, 5, seed) != image for seed in range(6)], axis=(0, 3))
        parts = np.array_split(changed, 5, axis=int(np.argmax(size)))
        assert all(part.mean() > 0.1 for part in parts)


@pytest.mark.parametrize("name", NAMES)
def test_seeds_decide_the_output(name: str) -> None:
    image = blocks(40, 48)
    first, again, other = (corrupt(image, name, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert np.array_equal(first, other) == (name in WITHOUT_DRAWS)


@pytest.mark.parametrize("name", NAMES)
def test_corruptor_equals_corrupt(name: str) -> None:
    image, profile = blocks(40, 48), next(iter(c_bar.CORRUPTIONS[name].levels))
    made = corruptions.corruptor(name, 2, profile=profile)(image, 7)
    assert np.array_equal(made, corruptions.corrupt(image, name, 2, profile=profile, seed=7))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "perlin_noise", "profile": "cifar"}, "profile must be 'imagenet' for 'perlin_noise', not 'cifar'"),
        ({"name": "lines"}, "profile must be 'cifar' for 'lines', not 'imagenet'"),
        ({"name": "sparkles", "profile": "tiny"}, "profile must be 'imagenet' or 'cifar' for 'sparkles', not 'tiny'"),
        ({"name": "sparkles", "profile": "x"}, "unknown profile 'x'; allowed: imagenet"),
        ({"name": "sparkles", "severity": 6}, "severity must be 1..5, not 6"),
        (
            {"name": "concentric_sine_waves"},
            "unknown corruption 'concentric_sine_waves' .did you mean 'cocentric_sine_waves'",
        ),
    ],
)
def test_errors_name_the_value_and_what_is_allowed(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        corruptions.corrupt(blocks(32, 32), **arguments)
    with pytest.raises(ValueError, match=message):
        corruptions.corruptor(**arguments)


def test_small_images_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 16 x 16, not 15 x 40"):
        corrupt(blocks(15, 40), "sparkles")


@pytest.mark.parametrize("name", DRAWN)
def test_both_generators_draw_alike(name: str) -> None:
    """Means over many draws agree within five standard errors."""
    row, numbers = c_bar.CORRUPTIONS[name], DRAWN[name][1]
    level, count = row.parameters("imagenet", 3), 400
    fast, published = (
        np.array([numbers(row.draw(source(seed), np.zeros((100, 150, 3)), level)) for seed in range(count)], np.float64)
        for source in (FastDraws, lambda seed: PublishedDraws(np.random.RandomState(seed)))
    )
    errors = np.sqrt((fast.var(axis=0) + published.var(axis=0)) / count)
    assert (np.abs(fast.mean(axis=0) - published.mean(axis=0)) < 5 * errors).all()
    assert np.allclose(fast.std(axis=0), published.std(axis=0), rtol=0.3)
