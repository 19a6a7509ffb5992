"""ImageNet-C-bar beside the published arithmetic in NumPy and SciPy, which the benchmark measures."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import skimage.data

import corruptions
from bench.published_c_bar import ARITHMETIC
from corruptions import c_bar
from corruptions.catalogue import PROFILE_SIDES, SEVERITIES
from pipeline.images.resizers import prepare
from tests.corruptions.c_bar.tolerance import assert_within

CASES = [(profile, name) for profile, names in c_bar.PUBLISHED.items() for name in names]


@cache
def photograph(profile: str) -> np.ndarray:
    """Return a photograph in the size of a profile. Tests must not change it."""
    return prepare(skimage.data.chelsea(), [("square", PROFILE_SIDES[profile])])


@pytest.mark.parametrize(("profile", "name"), CASES)
def test_pixels_are_those_of_the_published_arithmetic(profile: str, name: str) -> None:
    """Other images, seeds and severities than those of the reference outputs."""
    image = photograph(profile)
    for severity in SEVERITIES:
        level, seed = c_bar.CORRUPTIONS[name].parameters(profile, severity), 70 + severity
        expected = ARITHMETIC[name](image, level, np.random.RandomState(seed))
        rng = np.random.RandomState(seed)
        found = corruptions.corrupt(image, name, severity, profile=profile, rng=rng)
        assert_within(name, found, expected, severity)


@pytest.mark.parametrize(("profile", "name"), CASES)
def test_published_arithmetic_gives_the_reference_outputs(references: Path, profile: str, name: str) -> None:
    with np.load(references / "cbar.npz") as golden:
        for severity in (1, 5):
            level = c_bar.CORRUPTIONS[name].parameters(profile, severity)
            image, expected = golden[f"{profile}/1/input"], golden[f"{profile}/1/{name}/{severity}"]
            found = ARITHMETIC[name](image, level, np.random.RandomState(1000 + severity))
            differences = np.abs(found.astype(int) - expected)
            assert differences.max() <= 1
            assert (differences > 0).mean() <= 0.001
